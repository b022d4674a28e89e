"""The writer lease on a Kafka topic: appends, reads back, folds. See `lease_fold` for the rules.

Time is the brokers'. What the local clock differs from it is learnt from the ingest time of own
records, so a wrong local clock delays a claim at most once and never makes one valid.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from controller.transport.errors import FencedError, LeaseHeldError, UnknownTopicError
from controller.transport.kafka.lease_fold import (
    RELEASED,
    Held,
    LeaseRecord,
    decoded,
    encoded,
    folded,
)
from controller.transport.kafka.reading import PartitionReader
from controller.transport.kafka.topics import lease_topic
from controller.transport.kafka.writing import Appender
from controller.transport.port import Lease, LeaseState, OutRecord

READ_MAX = 1_000


@dataclass(slots=True)
class _Seen:
    """How far a lease's records were read, and what they come to."""

    offset: int
    held: Held | None = None


class LeaseLog:
    """Leases of any names; `clock` is local wall time in ms since 1970."""

    def __init__(
        self, reader: PartitionReader, appender: Appender, clock: Callable[[], int]
    ) -> None:
        self._reader, self._appender, self._clock = reader, appender, clock
        self._seen: dict[str, _Seen] = {}
        self._offset_ms = 0  # brokers' time less local time

    def acquire(self, name: str, holder: str, ttl_ms: int, epoch_min: int) -> Lease:
        """Takes the lease if it is free; its epoch is above `epoch_min` and all before it."""
        held = self._held(name)
        if held is not None and held.holder != holder and held.expires_ms > self._now_ms():
            raise self._taken(name, held)
        record = LeaseRecord(
            kind="claim",
            holder=holder,
            epoch=max(epoch_min, 0 if held is None else held.epoch) + 1,
            ttl_ms=ttl_ms,
            seen_holder="" if held is None else held.holder,
            seen_expires_ms=0 if held is None else held.expires_ms,
        )
        self._append(name, record)
        held = self._held(name)
        if held is None or (held.holder, held.epoch) != (holder, record.epoch):
            raise self._taken(name, held)
        return Lease(name, holder, held.epoch, held.expires_ms)

    def renew(self, lease: Lease, ttl_ms: int | None) -> Lease:
        """Prolongs a lease, also one that has run out if nobody took it."""
        before = self._own(lease)
        wanted_ms = before.ttl_ms if ttl_ms is None else ttl_ms
        self._append(
            lease.name,
            LeaseRecord(kind="renew", holder=lease.holder, epoch=lease.epoch, ttl_ms=wanted_ms),
        )
        return Lease(lease.name, lease.holder, lease.epoch, self._own(lease).expires_ms)

    def release(self, lease: Lease) -> None:
        """Gives the lease up."""
        record = LeaseRecord(kind="release", holder=lease.holder, epoch=lease.epoch)
        self._append(lease.name, record)

    def check(self, lease: Lease) -> None:
        """Raises `FencedError` unless the lease is held and has time left."""
        late_ms = self._now_ms() - self._own(lease).expires_ms
        if late_ms >= 0:
            raise FencedError(
                f"lease {lease.name} of {lease.holder} ran out {late_ms} ms ago: the process was "
                "paused or too slow; it must stop and start again"
            )

    def state(self, name: str) -> LeaseState | None:
        """Who has it, and for how long."""
        try:
            held = self._held(name)
        except UnknownTopicError:
            return None
        if held is None:
            return None
        return LeaseState(held.holder, held.epoch, max(0, held.expires_ms - self._now_ms()))

    # ------------------------------------------------------------------ inside

    def _now_ms(self) -> int:
        return self._clock() + self._offset_ms

    def _append(self, name: str, record: LeaseRecord) -> None:
        written = OutRecord(lease_topic(name), name, encoded(record))
        [(_, _, at_ms)] = self._appender.append([written])
        self._offset_ms = at_ms - self._clock()

    def _held(self, name: str) -> Held | None:
        """The lease after all records that are there now."""
        topic = lease_topic(name)
        seen = self._seen.get(name)
        start = self._reader.starts(topic)[0]
        if seen is None or seen.offset < start:
            seen = self._seen[name] = _Seen(start)
        while True:
            found = self._reader.read(topic, 0, seen.offset, READ_MAX)
            for one in found:
                record = decoded(one.value)
                if record is not None:
                    seen.held = folded(seen.held, record, one.ingest_ms)
                seen.offset = one.offset + 1
            if len(found) < READ_MAX:
                return seen.held

    def _own(self, lease: Lease) -> Held:
        """The lease if it still is the given one; raises `FencedError`."""
        held = self._held(lease.name)
        if held is None or (held.holder, held.epoch) != (lease.holder, lease.epoch):
            holder = "nobody" if held is None else f"{held.holder} (epoch {held.epoch})"
            raise FencedError(
                f"lease {lease.name} was taken from {lease.holder} (epoch {lease.epoch}) by "
                f"{holder}: another controller is the writer now"
            )
        if held.expires_ms == RELEASED:
            raise FencedError(
                f"lease {lease.name} was released by {lease.holder}: acquire it again"
            )
        return held

    def _taken(self, name: str, held: Held | None) -> LeaseHeldError:
        if held is None:
            return LeaseHeldError(name, "another controller", 0)
        return LeaseHeldError(name, held.holder, max(0, held.expires_ms - self._now_ms()))
