"""The port: what a transport must do. Embedded, Kafka and Pulsar are adapters of it.

Contract: a record has one place (topic, partition, offset); offsets of a partition grow (Kafka's
have gaps, so who reads on begins one after the last record); ingest time is assigned by the
transport and never goes back within a partition; a batch is visible as a whole or not at all, in
each partition (on a server a moment after `publish` returns); what was acknowledged is not lost.
Records of one key lie in one partition, in the order of append.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from zlib import crc32

Headers = tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class OutRecord:
    """A record to append; value None is a tombstone."""

    topic: str
    key: str | None
    value: bytes | None
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A record as it was read."""

    sequence: int  # order of append: over all topics where there is one, else in the partition
    topic: str
    partition: int
    offset: int
    key: str | None
    value: bytes | None
    headers: Headers
    ingest_ms: int


@dataclass(frozen=True, slots=True)
class Marker:
    """What a sink has published last: written in the same transaction as the batch."""

    name: str  # of the query
    query_id: str  # of the checkpoint
    batch_id: int
    epoch: int  # of the lease that it was written under


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to publish under a name, until it runs out or is taken over."""

    name: str
    holder: str
    epoch: int  # grows with every acquisition
    expires_ms: int


@dataclass(frozen=True, slots=True)
class LeaseState:
    """A lease as others see it."""

    holder: str
    epoch: int
    remaining_ms: int  # 0 = free: it was given up or has run out


class Transport(Protocol):
    """All methods raise `TransportError`s. Not thread safe: one instance for each thread."""

    def append(self, records: Sequence[OutRecord]) -> list[tuple[int, int]]:
        """Appends records in order; returns (partition, offset) of each.

        After an error nothing of it was written in the embedded log; in others some records may
        have been, or may still be. Who appends again writes them twice, which readers must bear.
        """
        ...

    def begin_writing(self, lease: Lease) -> None:
        """From now on nobody with an older lease of this name can publish.

        What such a one had left half done is ended by then: so the marker that is read after this
        is the last one. `publish` does it by itself if it was not done.
        """
        ...

    def publish(self, records: Sequence[OutRecord], marker: Marker, lease: Lease) -> None:
        """Appends all records and stores the marker, atomically, if the lease still holds.

        Raises `FencedError`, and writes nothing, if it does not.
        """
        ...

    def read(self, topic: str, partition: int, offset: int, limit: int) -> list[LogRecord]:
        """Up to `limit` records of a partition from `offset` on, in order."""
        ...

    def start_offsets(self, topic: str) -> dict[int, int]:
        """The first offset that retention has left, by partition."""
        ...

    def end_offsets(self, topic: str) -> dict[int, int]:
        """The offset after the last record, by partition."""
        ...

    def marker(self, name: str) -> Marker | None:
        """The last marker under a name."""
        ...

    def acquire_lease(self, name: str, holder: str, ttl_ms: int) -> Lease:
        """Takes a lease that is free or has run out; raises `LeaseHeldError`."""
        ...

    def renew_lease(self, lease: Lease, ttl_ms: int | None = None) -> Lease:
        """Prolongs a lease by its own time again, or by `ttl_ms`; raises `FencedError`."""
        ...

    def lease_state(self, name: str) -> LeaseState | None:
        """Who has a lease, and for how long; None if nobody ever had it."""
        ...

    def release_lease(self, lease: Lease) -> None:
        """Gives a lease up; does nothing if it is no longer its own."""
        ...

    def create_topic(
        self, name: str, partitions: int, cleanup: str = "delete", retention_ms: int | None = None
    ) -> None:
        """Creates a topic; the same one again is fine, another number of partitions is not."""
        ...

    def topics(self) -> dict[str, int]:
        """Number of partitions by topic."""
        ...

    def close(self) -> None:
        """Gives up all resources; later calls raise `ClosedError`."""
        ...


def partition_of(key: str | None, partitions: int) -> int:
    """The partition of a key: CRC-32 of it; records without a key go to the first."""
    return 0 if key is None else crc32(key.encode()) % partitions
