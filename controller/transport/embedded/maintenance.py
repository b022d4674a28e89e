"""Compaction and retention: explicit, in small transactions, so that writers hardly wait.

Rules as Kafka's: compaction looks only at records older than its lag, keeps the last of them for
each key (also a tombstone, until that is older than its own delay), and leaves records without a
key alone. Compaction loses nothing that a reader needs; retention does, so the log remembers how
far it has trimmed (`EmbeddedLog.trimmed_sequence`).
"""

from __future__ import annotations

from collections.abc import Sequence

from controller.transport.embedded.log import EmbeddedLog, wall_clock_ms
from controller.transport.errors import UnknownTopicError

CHUNK = 1_000  # rows removed in one transaction: some milliseconds of lock


def compact(
    log: EmbeddedLog,
    topic: str,
    *,
    min_lag_ms: int,
    tombstone_after_ms: int,
    now_ms: int | None = None,
) -> int:
    """Compacts a topic by key; returns how many records were removed. Times are milliseconds."""
    now_ms = wall_clock_ms() if now_ms is None else now_ms
    last: dict[tuple[int, str], tuple[int, bool, int]] = {}  # -> sequence, is tombstone, ingest
    removable: list[int] = []
    number = _number(log, topic)
    with log.store.reading() as connection:
        rows = connection.execute(
            "SELECT sequence, partition, key, value IS NULL, ingest_ms FROM records "
            "WHERE topic = ? AND key IS NOT NULL AND ingest_ms <= ? ORDER BY sequence",
            (number, now_ms - min_lag_ms),
        )
        for sequence, partition, key, is_tombstone, ingest_ms in rows:
            if (partition, key) in last:
                removable.append(last[partition, key][0])
            last[partition, key] = (sequence, bool(is_tombstone), ingest_ms)
    removable += [
        sequence
        for sequence, is_tombstone, ingest_ms in last.values()
        if is_tombstone and ingest_ms <= now_ms - tombstone_after_ms
    ]
    _remove(log, sorted(removable))
    return len(removable)


def apply_retention(
    log: EmbeddedLog, topic: str, *, retention_ms: int | None = None, now_ms: int | None = None
) -> int:
    """Removes records older than `retention_ms` (default: the topic's own; None = keep all).

    Returns how many were removed. The trimming is remembered before anything is removed.
    """
    now_ms = wall_clock_ms() if now_ms is None else now_ms
    number = _number(log, topic)
    with log.store.writing() as connection:
        if retention_ms is None:
            query = "SELECT retention_ms FROM topics WHERE id = ?"
            retention_ms = connection.execute(query, (number,)).fetchone()[0]
        if retention_ms is None:
            return 0
        rows = connection.execute(
            "SELECT sequence FROM records WHERE topic = ? AND ingest_ms <= ? ORDER BY sequence",
            (number, now_ms - retention_ms),
        ).fetchall()
        sequences = [int(row[0]) for row in rows]
        if sequences:
            connection.execute(
                "UPDATE topics SET trimmed_sequence = max(trimmed_sequence, ?) WHERE id = ?",
                (sequences[-1], number),
            )
    _remove(log, sequences)
    return len(sequences)


def _remove(log: EmbeddedLog, sequences: Sequence[int]) -> None:
    for start in range(0, len(sequences), CHUNK):
        with log.store.writing() as connection:
            connection.executemany(
                "DELETE FROM records WHERE sequence = ?",
                [(sequence,) for sequence in sequences[start : start + CHUNK]],
            )


def _number(log: EmbeddedLog, topic: str) -> int:
    with log.store.reading() as connection:
        row = connection.execute("SELECT id FROM topics WHERE name = ?", (topic,)).fetchone()
    if row is None:
        raise UnknownTopicError(f"topic {topic} does not exist in {log.path}")
    return int(row[0])
