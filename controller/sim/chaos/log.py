"""The simulated log: what a transport keeps, and one connection to it that can fail.

The store (`SimLog`) never fails and is never wrong: topics, leases, markers, compaction, as the
port promises. Connections (`Link`) do: reads and writes fail for a while, an acknowledgement is
lost although the write happened, a write arrives late, twice or not at all.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from controller.sim.chaos.kernel import Kernel
from controller.transport.errors import BusyError, FencedError, LeaseHeldError
from controller.transport.port import Lease, LogRecord, Marker, OutRecord, partition_of

START_MS = 1_000_000_000_000  # of the log's clock; the kernel's begins at 0


class SimLog:
    """Topics in memory. `watchers` see each record at the moment it is appended."""

    def __init__(self, kernel: Kernel, topics: dict[str, int]) -> None:
        self.kernel = kernel
        self.partitions: dict[str, list[list[LogRecord]]] = {
            name: [[] for _ in range(number)] for name, number in topics.items()
        }
        self.ends: dict[str, list[int]] = {name: [0] * n for name, n in topics.items()}
        self.sequence = 0
        self.leases: dict[str, Lease] = {}
        self.markers: dict[str, Marker] = {}
        self.watchers: list[Callable[[LogRecord], None]] = []

    def now_ms(self) -> int:
        """The log's clock."""
        return START_MS + self.kernel.now_ms

    def append(self, records: Sequence[OutRecord]) -> list[tuple[int, int]]:
        """Appends all of them at this moment."""
        places = []
        for record in records:
            partition = partition_of(record.key, len(self.partitions[record.topic]))
            offset = self.ends[record.topic][partition]
            self.ends[record.topic][partition] = offset + 1
            self.sequence += 1
            stored = LogRecord(
                self.sequence,
                record.topic,
                partition,
                offset,
                record.key,
                record.value,
                record.headers,
                self.now_ms(),
            )
            self.partitions[record.topic][partition].append(stored)
            places.append((partition, offset))
            for watch in self.watchers:
                watch(stored)
        return places

    def publish(self, records: Sequence[OutRecord], marker: Marker, lease: Lease) -> None:
        """See `Transport.publish`."""
        self.check(lease)
        self.append(records)
        self.markers[marker.name] = marker

    def read(self, topic: str, partition: int, offset: int, limit: int) -> list[LogRecord]:
        """See `Transport.read`; compacted records are passed over."""
        rows = self.partitions[topic][partition]
        first = bisect_left(rows, offset, key=lambda row: row.offset)
        return rows[first : first + limit]

    def compact(self, topic: str, lag_ms: int) -> int:
        """Keeps the last record of each key among those older than `lag_ms`; how many went."""
        gone = 0
        horizon_ms = self.now_ms() - lag_ms
        for number, rows in enumerate(self.partitions[topic]):
            old = [row for row in rows if row.ingest_ms < horizon_ms]
            last = {row.key: row.offset for row in old}
            kept = [row for row in old if last[row.key] == row.offset]
            gone += len(old) - len(kept)
            self.partitions[topic][number] = kept + rows[len(old) :]
        return gone

    def acquire(self, name: str, holder: str, ttl_ms: int) -> Lease:
        """See `Transport.acquire_lease`."""
        held = self.leases.get(name)
        if held is not None and held.holder != holder and held.expires_ms > self.now_ms():
            raise LeaseHeldError(name, held.holder, held.expires_ms - self.now_ms())
        epoch = 1 if held is None else held.epoch + 1
        self.leases[name] = Lease(name, holder, epoch, self.now_ms() + ttl_ms)
        return self.leases[name]

    def renew(self, lease: Lease, ttl_ms: int) -> Lease:
        """See `Transport.renew_lease`."""
        held = self.leases.get(lease.name)
        if held is None or (held.holder, held.epoch) != (lease.holder, lease.epoch):
            raise FencedError(f"lease {lease.name} was taken from {lease.holder}")
        renewed = Lease(lease.name, lease.holder, lease.epoch, self.now_ms() + ttl_ms)
        self.leases[lease.name] = renewed
        return renewed

    def check(self, lease: Lease) -> None:
        """Raises `FencedError` unless the lease is held and has time left."""
        held = self.leases.get(lease.name)
        is_own = held is not None and (held.holder, held.epoch) == (lease.holder, lease.epoch)
        if not is_own or held is None or held.expires_ms <= self.now_ms():
            raise FencedError(f"{lease.holder} does not hold lease {lease.name}")


@dataclass(slots=True)
class LinkFaults:
    """What one connection suffers at the moment. Times are the kernel's."""

    reads_fail_until_ms: int = 0
    writes_fail_until_ms: int = 0
    lost_ack: float = 0.0  # share of writes that happen but are reported as failed
    late_write: float = 0.0  # share of writes that are reported as failed and happen later
    late_write_max_ms: int = 0
    repeated_write: float = 0.0  # share of writes that happen once more, later


class Link:
    """One process's connection to the log: of the port's methods those that an agent calls."""

    def __init__(self, log: SimLog, name: str) -> None:
        self.log = log
        self.name = name
        self.faults = LinkFaults()

    def append(self, records: Sequence[OutRecord]) -> list[tuple[int, int]]:
        """Appends, or fails; a failure does not say whether the records will be there."""
        kernel, faults = self.log.kernel, self.faults
        if kernel.now_ms < faults.writes_fail_until_ms:
            raise BusyError("the simulated network drops writes")
        held = tuple(records)
        if kernel.chance(faults.late_write):
            delay_ms = kernel.random.randint(1, faults.late_write_max_ms)
            kernel.later(delay_ms, lambda: self._arrives_late(held))
            raise BusyError("the simulated network is slow")
        places = self.log.append(held)
        if kernel.chance(faults.repeated_write):
            delay_ms = kernel.random.randint(1, faults.late_write_max_ms)
            kernel.later(delay_ms, lambda: self._arrives_late(held))
        if kernel.chance(faults.lost_ack):
            kernel.tell(self.name, "acknowledgement lost")
            raise BusyError("the simulated network lost the acknowledgement")
        return places

    def _arrives_late(self, records: Sequence[OutRecord]) -> None:
        self.log.kernel.tell(self.name, f"{len(records)} records arrive late or again")
        self.log.append(records)

    def read(self, topic: str, partition: int, offset: int, limit: int) -> list[LogRecord]:
        """Reads, or fails."""
        if self.log.kernel.now_ms < self.faults.reads_fail_until_ms:
            raise BusyError("the simulated network drops reads")
        return self.log.read(topic, partition, offset, limit)

    def end_offsets(self, topic: str) -> dict[int, int]:
        """The offset after the last record, by partition."""
        if self.log.kernel.now_ms < self.faults.reads_fail_until_ms:
            raise BusyError("the simulated network drops reads")
        return dict(enumerate(self.log.ends[topic]))
