"""Reads the bundle-state channel from its beginning on, all partitions together."""

from __future__ import annotations

from dataclasses import dataclass, field

from controller.agent.events import ChannelRecord
from controller.transport.port import Transport


@dataclass(slots=True)
class ChannelReader:
    """Remembers how far each partition was read; `limit` is for one partition and read."""

    transport: Transport
    topic: str
    limit: int
    offsets: dict[int, int] = field(default_factory=dict)

    def read(self) -> tuple[tuple[ChannelRecord, ...], bool]:
        """New records, and whether the end was reached; raises `TransportError`s.

        One key always lies in one partition, so the order of its records holds.
        """
        if not self.offsets:
            self.offsets = dict.fromkeys(self.transport.end_offsets(self.topic), 0)
        found: list[ChannelRecord] = []
        offsets = dict(self.offsets)
        is_at_end = True
        for partition, offset in sorted(offsets.items()):
            batch = self.transport.read(self.topic, partition, offset, self.limit)
            found += [ChannelRecord(r.key or "", r.value, r.offset) for r in batch]
            if batch:
                offsets[partition] = batch[-1].offset + 1
            is_at_end = is_at_end and len(batch) < self.limit
        self.offsets = offsets  # not before all are read: an error must not lose a record
        return tuple(found), is_at_end
