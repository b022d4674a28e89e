"""The log: append, publish, read. See `controller.transport.port` for the contract.

A global sequence is assigned inside the write transaction; it has no gaps and becomes visible in
order, so a range of it is a stable batch for Spark's source. Ingest time is assigned there too,
and never goes back over the whole file.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from controller.transport.embedded import bounds
from controller.transport.embedded.connection import BUSY_WAIT_MS, Store
from controller.transport.embedded.leases import LeaseTable
from controller.transport.errors import CorruptError, TransportError, UnknownTopicError
from controller.transport.port import (
    Headers,
    Lease,
    LeaseState,
    LogRecord,
    Marker,
    OutRecord,
    partition_of,
)

Clock = Callable[[], int]
Columns = tuple[
    list[int], list[str], list[int], list[int], list[str | None], list[bytes | None], list[int]
]
"""sequence, topic, partition, offset, key, value, ingest_ms"""

INSERT = (
    "INSERT INTO records (sequence, topic, partition, offset, key, value, headers, ingest_ms) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)


def wall_clock_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class EmbeddedLog:
    """A log in one SQLite file (WAL). Any number of processes and threads may use one file."""

    def __init__(
        self,
        path: str | Path,
        *,
        clock: Clock = wall_clock_ms,
        durability: str = "process",
        busy_wait_ms: int = BUSY_WAIT_MS,
    ) -> None:
        self._clock = clock
        self._store = Store(Path(path), durability, busy_wait_ms)
        self.path = self._store.path
        self._leases = LeaseTable(self._store, self._now)
        self._topics: dict[str, tuple[int, int]] = {}  # name -> id, partitions; topics stay
        self._names: dict[int, str] = {}

    def create_topic(
        self, name: str, partitions: int, cleanup: str = "delete", retention_ms: int | None = None
    ) -> None:
        """Creates a topic; see the port."""
        if partitions < 1 or cleanup not in ("delete", "compact"):
            raise ValueError("a topic has at least 1 partition and cleanup delete or compact")
        with self._store.writing() as connection:
            row = connection.execute(
                "SELECT partitions FROM topics WHERE name = ?", (name,)
            ).fetchone()
            if row is not None:
                if row[0] != partitions:
                    raise TransportError(
                        f"topic {name} of {self.path} has {row[0]} partitions, not {partitions}: "
                        "the number cannot change"
                    )
                return
            cursor = connection.execute(
                "INSERT INTO topics (name, partitions, cleanup, retention_ms) VALUES (?, ?, ?, ?)",
                (name, partitions, cleanup, retention_ms),
            )
            connection.executemany(
                "INSERT INTO partitions (topic, partition, next_offset) VALUES (?, ?, 0)",
                [(cursor.lastrowid, partition) for partition in range(partitions)],
            )

    def topics(self) -> dict[str, int]:
        """Number of partitions by topic, in name order."""
        with self._store.reading() as connection:
            rows = connection.execute("SELECT name, partitions FROM topics ORDER BY name")
            return dict(rows.fetchall())

    # ------------------------------------------------------------------ writing
    def append(self, records: Sequence[OutRecord]) -> list[tuple[int, int]]:
        """Appends all or nothing; returns (partition, offset) of each."""
        with self._store.writing() as connection:
            return self._insert(connection, records)

    def begin_writing(self, lease: Lease) -> None:
        """Nothing to do: each publish looks at the lease itself."""

    def publish(self, records: Sequence[OutRecord], marker: Marker, lease: Lease) -> None:
        """Appends records and marker if the lease still holds; see the port."""
        with self._store.writing() as connection:
            self._leases.check(connection, lease, self._now(connection))
            self._insert(connection, records)
            connection.execute(
                "INSERT INTO markers VALUES (?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET "
                "query_id = excluded.query_id, batch_id = excluded.batch_id, "
                "epoch = excluded.epoch",
                (marker.name, marker.query_id, marker.batch_id, marker.epoch),
            )

    def marker(self, name: str) -> Marker | None:
        """The last marker under a name."""
        with self._store.reading() as connection:
            row = connection.execute("SELECT * FROM markers WHERE name = ?", (name,)).fetchone()
        return None if row is None else Marker(*row)

    def _insert(
        self, connection: sqlite3.Connection, records: Sequence[OutRecord]
    ) -> list[tuple[int, int]]:
        sequence = connection.execute("SELECT next_sequence FROM head").fetchone()[0]
        ingest_ms = self._now(connection)
        offsets: dict[tuple[int, int], int] = {}
        last: dict[tuple[int, int], int] = {}
        rows = []
        places = []
        for record in records:
            topic, partitions = self._topic(connection, record.topic)
            place = (topic, partition_of(record.key, partitions))
            offset = offsets.get(place)
            if offset is None:
                offset = self._next_offset(connection, place)
            offsets[place] = offset + 1
            last[place] = sequence
            headers = msgspec.msgpack.encode(record.headers) if record.headers else None
            rows.append((sequence, *place, offset, record.key, record.value, headers, ingest_ms))
            places.append((place[1], offset))
            sequence += 1
        connection.executemany(INSERT, rows)
        connection.executemany(
            "UPDATE partitions SET next_offset = ?, last_sequence = ? "
            "WHERE topic = ? AND partition = ?",
            [(offset, last[place], *place) for place, offset in offsets.items()],
        )
        connection.execute(
            "UPDATE head SET next_sequence = ?, ingest_ms = ?", (sequence, ingest_ms)
        )
        return places

    def now_ms(self) -> int:
        """The log's time, in milliseconds: the clock, but never before the last record."""
        with self._store.reading() as connection:
            return self._now(connection)

    def _now(self, connection: sqlite3.Connection) -> int:
        last = int(connection.execute("SELECT ingest_ms FROM head").fetchone()[0])
        return max(last, self._clock())

    def _topic(self, connection: sqlite3.Connection, name: str) -> tuple[int, int]:
        found = self._topics.get(name)
        if found is None:
            row = connection.execute(
                "SELECT id, partitions FROM topics WHERE name = ?", (name,)
            ).fetchone()
            if row is None:
                raise UnknownTopicError(
                    f"topic {name} does not exist in {self.path}: start the controller first, "
                    "it creates its topics"
                )
            found = self._topics[name] = (int(row[0]), int(row[1]))
            self._names[found[0]] = name
        return found

    def _next_offset(self, connection: sqlite3.Connection, place: tuple[int, int]) -> int:
        query = "SELECT next_offset FROM partitions WHERE topic = ? AND partition = ?"
        return int(connection.execute(query, place).fetchone()[0])

    # ------------------------------------------------------------------ reading
    def read(self, topic: str, partition: int, offset: int, limit: int) -> list[LogRecord]:
        """Up to `limit` records of a partition from `offset` on, in order.

        Raises `OffsetOutOfRangeError` where retention has removed records, or past the end.
        """
        with self._store.reading() as connection:
            number, _ = self._topic(connection, topic)
            bounds.check_offset(
                connection, f"topic {topic} of {self.path}", (number, partition), offset
            )
            rows = connection.execute(
                "SELECT sequence, partition, offset, key, value, headers, ingest_ms FROM records "
                "WHERE topic = ? AND partition = ? AND offset >= ? ORDER BY offset LIMIT ?",
                (number, partition, offset, limit),
            ).fetchall()
        return [
            LogRecord(sequence, topic, part, at, key, value, self._headers(headers), ingest_ms)
            for sequence, part, at, key, value, headers, ingest_ms in rows
        ]

    def start_offsets(self, topic: str) -> dict[int, int]:
        """The first offset that retention has left, by partition."""
        with self._store.reading() as connection:
            number, _ = self._topic(connection, topic)
            query = (
                "SELECT partition, trimmed_offset FROM partitions WHERE topic = ? "
                "ORDER BY partition"
            )
            return dict(connection.execute(query, (number,)).fetchall())

    def end_offsets(self, topic: str) -> dict[int, int]:
        """The offset after the last record, by partition."""
        with self._store.reading() as connection:
            number, _ = self._topic(connection, topic)
            rows = connection.execute(
                "SELECT partition, next_offset FROM partitions WHERE topic = ? ORDER BY partition",
                (number,),
            )
            return dict(rows.fetchall())

    def end_sequence(self, topics: Iterable[str] | None = None) -> int:
        """Sequence of the last record, of all topics or of some; 0 if there was none.

        Also of one that maintenance has removed since: it never goes back.
        """
        with self._store.reading() as connection:
            if topics is None:
                row = connection.execute("SELECT next_sequence - 1 FROM head").fetchone()
                return int(row[0])
            query = "SELECT max(last_sequence) FROM partitions WHERE topic = ?"
            numbers = self._numbers(connection, list(topics))
            last = [connection.execute(query, (number,)).fetchone()[0] for number in numbers]
        return max(last, default=0)

    def trimmed_sequence(self, topic: str) -> int:
        """Greatest sequence that retention removed from a topic; 0 if it removed nothing.

        A reader that has not read up to it has lost records. Compaction does not count.
        """
        with self._store.reading() as connection:
            query = "SELECT trimmed_sequence FROM topics WHERE name = ?"
            row = connection.execute(query, (topic,)).fetchone()
        if row is None:
            raise UnknownTopicError(f"topic {topic} does not exist in {self.path}")
        return int(row[0])

    def check_left(self, topics: Sequence[str], after: int, given_up: bounds.GivenUp = 0) -> None:
        """Raises `OffsetOutOfRangeError` if retention removed records that follow `after`.

        What it removed up to `given_up` does not count.
        """
        with self._store.reading() as connection:
            numbers = self._numbers(connection, topics)
            bounds.check_sequence(connection, str(self.path), numbers, after, given_up)

    def limit_sequence(
        self, topics: Sequence[str], after: int, to: int, rows_max: int, bytes_max: int
    ) -> int:
        """Greatest sequence <= `to` so that records after `after` stay within both limits.

        At least one record is let through, however big, also if `rows_max` is 0.
        """
        with self._store.reading() as connection:
            numbers = self._numbers(connection, topics)
            cursor = connection.execute(
                "SELECT sequence, length(value) FROM records WHERE sequence > ? AND sequence <= ? "
                f"AND {_among(numbers)} ORDER BY sequence LIMIT ?",
                (after, to, *numbers, max(rows_max, 1) + 1),
            )
            end, rows, size = after, 0, 0
            for sequence, length in cursor:
                rows, size = rows + 1, size + (length or 0)
                if rows > 1 and (rows > rows_max or size > bytes_max):
                    return end
                end = sequence
        return to

    def read_columns(
        self, after: int, to: int, topics: Sequence[str], limit: int, given_up: bounds.GivenUp = 0
    ) -> Columns:
        """Records after one sequence up to another, as columns in sequence order.

        Raises `OffsetOutOfRangeError` if retention has removed some; checked in the same picture
        that is read, so that none can go between the check and the reading. A reader that began
        when retention had been there already gives up what was trimmed then (`given_up`).
        """
        with self._store.reading() as connection:
            numbers = self._numbers(connection, topics)
            bounds.check_sequence(connection, str(self.path), numbers, after, given_up)
            rows = connection.execute(
                "SELECT sequence, topic, partition, offset, key, value, ingest_ms FROM records "
                f"WHERE sequence > ? AND sequence <= ? AND {_among(numbers)} "
                "ORDER BY sequence LIMIT ?",
                (after, to, *numbers, limit),
            ).fetchall()
        if not rows:
            return [], [], [], [], [], [], []
        columns = [list(column) for column in zip(*rows, strict=True)]
        columns[1] = [self._names[number] for number in columns[1]]
        return tuple(columns)  # type: ignore[return-value]  # zip forgets the columns' types

    def _headers(self, packed: bytes | None) -> Headers:
        try:
            return msgspec.msgpack.decode(packed, type=Headers) if packed else ()
        except msgspec.DecodeError as error:
            raise CorruptError(
                f"{self.path} is damaged (headers of a record: {error}): restore it from a copy"
            ) from error

    def _numbers(self, connection: sqlite3.Connection, topics: Sequence[str]) -> list[int]:
        return [self._topic(connection, topic)[0] for topic in topics]

    # ------------------------------------------------------------------ leases and the end
    def acquire_lease(self, name: str, holder: str, ttl_ms: int) -> Lease:
        """Takes a lease that is free or has run out; raises `LeaseHeldError`."""
        return self._leases.acquire(name, holder, ttl_ms)

    def renew_lease(self, lease: Lease, ttl_ms: int | None = None) -> Lease:
        """Prolongs a lease by its own time again, or by `ttl_ms`; raises `FencedError`."""
        return self._leases.renew(lease, ttl_ms)

    def lease_state(self, name: str) -> LeaseState | None:
        """Who has a lease, and for how long; None if nobody ever had it."""
        return self._leases.state(name)

    def release_lease(self, lease: Lease) -> None:
        """Gives a lease up; does nothing if it is no longer its own."""
        self._leases.release(lease)

    @property
    def store(self) -> Store:
        """The file behind the log, for `maintenance`."""
        return self._store

    def close(self) -> None:
        """Closes the file for all threads; later calls raise `ClosedError`."""
        self._store.close()


def _among(numbers: Sequence[int]) -> str:
    """A filter by topic; the plus keeps SQLite on the range of sequences, away from the index.

    By the index it would read and sort all records of the topics for each batch.
    """
    return f"+topic IN ({', '.join('?' * len(numbers))})"
