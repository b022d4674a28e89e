"""The channel folded into a table: which record stands for each bundle, and what was left out.

Rules:

1. Records come in log order, and a record counts only if the conflict rule accepts it. The
   table is what every reader of the same log holds, wherever in a compacted log it began.
2. Every record is counted once: accepted, losing (with the conflict rule's reason) or unreadable
   (with the wire's reason). Nothing is raised for what a peer sent.
3. A bundle is *tainted* from a record that lost or could not be read until one that heals it
   (`conflict.heals`): a compaction that knows no conflict rule may keep the loser only.
4. Times are the log's, given by the caller; they only age records and order nothing.

The one mutable thing of this room, because a reader takes in many records: `copy` before what
must not be seen. Used by agents, observers, simulations and the CLI.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from controller.channel.conflict import heals, keep_old
from controller.channel.states import IN_FLIGHT, SERVED_BY, Storage
from controller.model.bundles import BundleNameError, split_name
from controller.wire.channel import (
    LONG_MIN,
    ServiceUnitState,
    ServiceUnitStateData,
    decode_channel,
    has_text,
)
from controller.wire.limits import DEFAULT_LIMITS, WireLimits
from controller.wire.rejects import WireError


class Outcome(msgspec.Struct, frozen=True):
    """What one record did: `old` stood before it; `new` None = tombstone, or unreadable."""

    old: ServiceUnitStateData | None
    new: ServiceUnitStateData | None = None
    losing: str | None = None  # the conflict rule's reason
    unreadable: WireError | None = None

    @property
    def is_accepted(self) -> bool:
        """True if `new` stands now (for a tombstone: nothing stands now)."""
        return self.losing is None and self.unreadable is None

    @property
    def reason(self) -> str | None:
        """Why the record changed nothing; None if it was accepted."""
        return self.losing if self.unreadable is None else self.unreadable.reason


class Loser(msgspec.Struct, frozen=True):
    """The last loser of a tainted bundle; `record` None = it was unreadable."""

    record: ServiceUnitStateData | None
    reason: str
    at_ms: int
    version: int = LONG_MIN  # the greatest of all its losers since it was healed


class ChannelTable:
    """Fold of one channel; see the module text."""

    def __init__(self, storage: Storage = "log", limits: WireLimits = DEFAULT_LIMITS) -> None:
        self.storage: Storage = storage
        self.limits = limits
        self.accepted = 0
        self.losing: Counter[str] = Counter()
        self.unreadable: Counter[str] = Counter()
        self._records: dict[str, ServiceUnitStateData] = {}
        self._since_ms: dict[str, int] = {}
        self._in_flight: set[str] = set()
        self._tainted: dict[str, Loser] = {}

    def copy(self) -> ChannelTable:
        """A table of its own with the same content; the records, which are frozen, are shared."""
        other = ChannelTable(self.storage, self.limits)
        other.accepted = self.accepted
        other.losing = self.losing.copy()
        other.unreadable = self.unreadable.copy()
        other._records = self._records.copy()
        other._since_ms = self._since_ms.copy()
        other._in_flight = self._in_flight.copy()
        other._tainted = self._tainted.copy()
        return other

    # ------------------------------------------------------------------------ records in

    def apply_raw(self, key: str | None, value: bytes | None, at_ms: int) -> Outcome:
        """One record as it stands in the log; never raises for what a peer sent."""
        try:
            if key is None:
                raise WireError("missing_field", "key", "a record needs the bundle as its key")
            if key not in self._records:
                _check_name(key)
            new = decode_channel(value, self.limits)
        except WireError as error:
            return self._skip(key, error, at_ms)
        return self.apply(key, new, at_ms)

    def apply(self, key: str, new: ServiceUnitStateData | None, at_ms: int) -> Outcome:
        """One decoded record, None = tombstone; `key` is the name of a bundle."""
        old = self._records.get(key)
        loses = keep_old(old, new, self.storage)
        if loses is not None:
            self.losing[loses] += 1
            if old is not None:
                self._taint(key, new, loses, at_ms)
            return Outcome(old, new, losing=loses)
        self.accepted += 1
        if key in self._tainted and heals(self._tainted[key].version, new):
            del self._tainted[key]
        if new is None:
            self._forget(key)
        else:
            self._take(key, new, at_ms)
        return Outcome(old, new)

    def _take(self, key: str, new: ServiceUnitStateData, at_ms: int) -> None:
        self._records[key] = new
        self._since_ms[key] = at_ms
        if new.state in IN_FLIGHT:
            self._in_flight.add(key)
        else:
            self._in_flight.discard(key)

    def _forget(self, key: str) -> None:
        self._records.pop(key, None)
        self._since_ms.pop(key, None)
        self._in_flight.discard(key)

    def _skip(self, key: str | None, error: WireError, at_ms: int) -> Outcome:
        """Counts what could not be read; only a bundle with a record has something to lose."""
        self.unreadable[error.reason] += 1
        old = None if key is None else self._records.get(key)
        if key is not None and old is not None:
            self._taint(key, None, error.reason, at_ms)
        return Outcome(old, unreadable=error)

    def _taint(self, key: str, loser: ServiceUnitStateData | None, reason: str, at_ms: int) -> None:
        versions = [LONG_MIN if loser is None else loser.versionId]
        if key in self._tainted:
            versions.append(self._tainted[key].version)
        self._tainted[key] = Loser(loser, reason, at_ms, max(versions))

    # ------------------------------------------------------------------------ what it says

    @property
    def records(self) -> Mapping[str, ServiceUnitStateData]:
        """The record that stands for each bundle; a live view, in no particular order."""
        return MappingProxyType(self._records)

    @property
    def tainted(self) -> Mapping[str, Loser]:
        """Bundles that a record has tainted, with the last such record; live."""
        return MappingProxyType(self._tainted)

    def since_ms(self, bundle: str) -> int | None:
        """When the record that stands came; None without one."""
        return self._since_ms.get(bundle)

    def owner(self, bundle: str) -> str | None:
        """The broker that serves the bundle as far as the channel says; None = nobody."""
        record = self._records.get(bundle)
        return None if record is None else serving_broker(record)

    def owners(self) -> dict[str, str]:
        """`owner` of every bundle that has one; walks the whole table."""
        found = {}
        for bundle, record in self._records.items():
            broker = serving_broker(record)
            if broker is not None:
                found[bundle] = broker
        return found

    def in_flight(self, now_ms: int) -> list[tuple[str, ServiceUnitStateData, int]]:
        """(bundle, record, age in ms) of what is Assigning, Releasing or Splitting, by name.

        The age counts from the moment the record came. It is 0 for a record from the future:
        two clocks that differ are no reason to call anything overdue.
        """
        return [
            (bundle, self._records[bundle], max(0, now_ms - self._since_ms[bundle]))
            for bundle in sorted(self._in_flight)
        ]

    def children(self, bundle: str) -> tuple[str, ...]:
        """Full names of the children of a bundle that is Splitting, sorted; else none."""
        record = self._records.get(bundle)
        if record is None or record.state is not ServiceUnitState.Splitting:
            return ()
        namespace = bundle.rpartition("/")[0]
        ranges = record.splitServiceUnitToDestBroker or {}
        return tuple(sorted(f"{namespace}/{range}" for range in ranges))


def serving_broker(record: ServiceUnitStateData) -> str | None:
    """The broker that serves by this record: Owned dst; Releasing and Splitting src.

    In Assigning the source of a transfer has closed and the destination has not begun.
    """
    field = SERVED_BY.get(record.state)
    if field is None:
        return None
    broker = record.dstBroker if field == "dstBroker" else record.sourceBroker
    return broker if has_text(broker) else None


def _check_name(key: str) -> None:
    try:
        split_name(key)
    except BundleNameError as error:
        raise WireError("bad_name", "key", str(error)) from None
