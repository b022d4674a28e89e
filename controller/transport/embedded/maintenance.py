"""Compaction and retention: explicit, in small transactions, so that writers hardly wait.

Rules as Kafka's: compaction looks only at records older than its lag, keeps the last of them for
each key (also a tombstone, until that is older than its own delay), and leaves records without a
key alone. Compaction loses nothing that a reader needs; retention does, so the log remembers how
far it has trimmed (`EmbeddedLog.trimmed_sequence`). Both free room inside the file, which later
records fill; the file does not get smaller.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from controller.transport.embedded.log import EmbeddedLog
from controller.transport.errors import CorruptError, UnknownTopicError

CHUNK = 200  # records removed in one transaction: some milliseconds of lock, also for big ones
HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class MaintenanceSettings:
    """How long records stay; milliseconds of the log's time."""

    min_lag_ms: int = HOUR_MS  # younger records are not compacted
    tombstone_after_ms: int = 24 * HOUR_MS
    retention_ms: int | None = None  # of topics that are not compacted; None = each topic's own
    retention_by_topic: Mapping[str, int] = field(default_factory=dict)  # goes before the others


@dataclass(frozen=True, slots=True)
class _Topic:
    number: int
    partitions: int
    cleanup: str
    retention_ms: int | None


def maintain(log: EmbeddedLog, settings: MaintenanceSettings) -> dict[str, int]:
    """Compacts the topics made for it, trims the others; returns records removed, by topic.

    Ends with a checkpoint: the write-ahead file is moved into the log file and cut.
    """
    removed = {}
    for topic in log.topics():
        if _topic(log, topic).cleanup == "compact":
            removed[topic] = compact(
                log,
                topic,
                min_lag_ms=settings.min_lag_ms,
                tombstone_after_ms=settings.tombstone_after_ms,
            )
        else:
            retention_ms = settings.retention_by_topic.get(topic, settings.retention_ms)
            removed[topic] = apply_retention(log, topic, retention_ms=retention_ms)
    checkpoint(log)
    return removed


def compact(
    log: EmbeddedLog,
    topic: str,
    *,
    min_lag_ms: int,
    tombstone_after_ms: int,
    now_ms: int | None = None,
) -> int:
    """Compacts a topic by key; returns how many records were removed. Times are milliseconds."""
    now_ms = log.now_ms() if now_ms is None else now_ms
    found = _topic(log, topic)
    if found.cleanup != "compact":
        raise ValueError(f"topic {topic} is not made for compaction: it would lose records")
    removable: list[int] = []
    for partition in range(found.partitions):
        last: dict[str, tuple[int, bool, int]] = {}  # -> sequence, is tombstone, ingest
        with log.store.reading() as connection:
            for sequence, ingest_ms, key, is_tombstone in _scan(connection, found, partition):
                if ingest_ms > now_ms - min_lag_ms:
                    break
                if key is None:
                    continue
                if key in last:
                    removable.append(last[key][0])
                last[key] = (sequence, bool(is_tombstone), ingest_ms)
        removable += [
            sequence
            for sequence, is_tombstone, ingest_ms in last.values()
            if is_tombstone and ingest_ms <= now_ms - tombstone_after_ms
        ]
    return _remove(log, sorted(removable))  # a tombstone must not go before what it covers


def apply_retention(
    log: EmbeddedLog, topic: str, *, retention_ms: int | None = None, now_ms: int | None = None
) -> int:
    """Removes records older than `retention_ms` (default: the topic's own; None = keep all).

    Returns how many were removed. The trimming is remembered before anything is removed.
    """
    now_ms = log.now_ms() if now_ms is None else now_ms
    found = _topic(log, topic)
    retention_ms = found.retention_ms if retention_ms is None else retention_ms
    if retention_ms is None:
        return 0
    removable: list[int] = []
    last: dict[int, int] = {}  # partition -> sequence of the last record to go
    with log.store.reading() as connection:
        for partition in range(found.partitions):
            for sequence, ingest_ms, _, _ in _scan(connection, found, partition):
                if ingest_ms > now_ms - retention_ms:
                    break
                removable.append(sequence)
                last[partition] = sequence
    if not removable:
        return 0
    with log.store.writing() as connection:
        connection.execute(
            "UPDATE topics SET trimmed_sequence = max(trimmed_sequence, ?) WHERE id = ?",
            (max(removable), found.number),
        )
        connection.executemany(
            "UPDATE partitions SET trimmed_offset = max(trimmed_offset, 1 + coalesce("
            "(SELECT offset FROM records WHERE sequence = ?), -1)) "
            "WHERE topic = ? AND partition = ?",
            [(sequence, found.number, partition) for partition, sequence in last.items()],
        )
    return _remove(log, sorted(removable))


def checkpoint(log: EmbeddedLog) -> None:
    """Moves the write-ahead file into the log file; what readers hold back waits for the next."""
    with log.store.using() as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def verify(log: EmbeddedLog) -> None:
    """Reads the whole file; raises `CorruptError` if its pages or indexes do not fit together."""
    with log.store.reading() as connection:
        found = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if found != "ok":
        raise CorruptError(
            f"{log.path} is damaged ({' '.join(found.split())}): restore it from a copy, or move "
            "it away and let brokers and controller start a new one"
        )


def _scan(
    connection: sqlite3.Connection, topic: _Topic, partition: int
) -> Iterable[tuple[int, int, str | None, int]]:
    """Sequence, ingest time, key, is tombstone; in offset order, which is the order of all."""
    return connection.execute(
        "SELECT sequence, ingest_ms, key, value IS NULL FROM records "
        "WHERE topic = ? AND partition = ? ORDER BY offset",
        (topic.number, partition),
    )


def _remove(log: EmbeddedLog, sequences: Sequence[int]) -> int:
    removed = 0
    for start in range(0, len(sequences), CHUNK):
        with log.store.writing() as connection:
            removed += connection.executemany(
                "DELETE FROM records WHERE sequence = ?",
                [(sequence,) for sequence in sequences[start : start + CHUNK]],
            ).rowcount
    return removed


def _topic(log: EmbeddedLog, name: str) -> _Topic:
    with log.store.reading() as connection:
        row = connection.execute(
            "SELECT id, partitions, cleanup, retention_ms FROM topics WHERE name = ?", (name,)
        ).fetchone()
    if row is None:
        raise UnknownTopicError(f"topic {name} does not exist in {log.path}")
    return _Topic(*row)
