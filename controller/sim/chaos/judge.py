"""The judge: looks at everything after every event, and knows nothing of the code it judges.

It folds the whole channel by rules of its own, asks each process what it serves at this moment,
and raises `Violation` with one sentence. Invariants, in the order of the methods:

1. one server: no hash of a namespace is served by two brokers at any instant;
2. versions: an accepted record has the version after that of the record it replaces;
3. table: an accepted record that is not forced is one that Pulsar's table allows;
4. cover: each namespace's hashes belong to exactly one live chain: a bundle, or its children;
5. one writer: epochs of the controllers' records never go back;
6. an end: some time after the last fault nothing is in flight, and all is served by its owner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise

import msgspec

from controller.model.bundles import split_name
from controller.transport.port import LogRecord

ALLOWED = {
    None: {"Free", "Owned", "Assigning", "Releasing", "Splitting", "Deleted"},
    "Free": {"Assigning"},
    "Owned": {"Splitting", "Releasing"},
    "Assigning": {"Owned"},
    "Releasing": {"Assigning", "Free"},
    "Splitting": {"Deleted"},
    "Deleted": set(),
}
LIVE = {"Free", "Owned", "Assigning", "Releasing", "Splitting"}
FULL = 0xFFFFFFFF


class Violation(AssertionError):
    """An invariant does not hold."""


class Row(msgspec.Struct):
    """What the judge reads of a channel record."""

    state: str
    versionId: int
    dstBroker: str | None = None
    sourceBroker: str | None = None
    force: bool = False
    splitServiceUnitToDestBroker: dict[str, str | None] | None = None

    def children(self, bundle: str) -> set[str]:
        """Full names of the children of a split."""
        namespace = bundle.rpartition("/")[0]
        return {f"{namespace}/{part}" for part in self.splitServiceUnitToDestBroker or {}}


_DECODER = msgspec.json.Decoder(Row)


@dataclass(slots=True)
class Judge:
    """`served` tells what each broker serves at this moment; call `look` after every event."""

    channel_topic: str
    served: Callable[[], Iterable[tuple[str, frozenset[str]]]]
    table: dict[str, Row] = field(default_factory=dict)
    epoch: int = 0
    accepted: int = 0
    losing: int = 0
    unreadable: int = 0
    whole: set[str] = field(default_factory=set)  # namespaces that were covered once
    tainted: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Keys with a loser that no later record has healed: since when, and its greatest version."""
    is_changed: bool = False

    def see(self, record: LogRecord) -> None:
        """One record at the moment it is appended; folds the channel."""
        if record.topic != self.channel_topic:
            return
        self._one_writer(record)
        key = record.key or ""
        try:
            split_name(key)
            new = None if record.value is None else _DECODER.decode(record.value)
        except (msgspec.MsgspecError, ValueError):
            self.unreadable += 1
            self._taint(record, 0)
            return
        old = self.table.get(key)
        if new is None:
            self._forget(key, old)
            return
        if not _is_named(new):
            self.unreadable += 1
            self._taint(record, 0)
            return
        if not _wins(old, new):
            self.losing += 1
            self._taint(record, new.versionId)
            return
        self._versions(key, old, new)
        self._table(key, old, new)
        self.accepted += 1
        self.table[key] = new
        greatest = self.tainted.get(key, (0, 0))[1]
        if greatest == 0 or (new.force and new.versionId > greatest):
            self.tainted.pop(key, None)
        self.is_changed = True

    def look(self) -> None:
        """All that must hold at any instant."""
        self.one_server()
        if self.is_changed:
            self.is_changed = False
            self.cover()

    def one_server(self) -> None:
        """Invariant 1."""
        ranges = [
            (*split_name(bundle), broker) for broker, bundles in self.served() for bundle in bundles
        ]
        ranges.sort()
        for (namespace, lower, upper, who), (other, at, _, whom) in pairwise(ranges):
            if namespace == other and at < upper:
                raise Violation(
                    f"{who} serves {namespace}/0x{lower:08x}_0x{upper:08x} while {whom} serves "
                    f"a bundle from 0x{at:08x} on"
                )

    def cover(self) -> None:
        """Invariant 4; a namespace must stay covered once it was.

        A bundle that is Splitting and all that lies within its children are one chain.
        """
        chains: dict[str, list[tuple[int, int, str]]] = {}
        parts = [
            split_name(child)
            for name, row in self.table.items()
            if row.state == "Splitting"
            for child in row.children(name)
        ]
        for name, row in self.table.items():
            namespace, lower, upper = split_name(name)
            is_part = any(
                space == namespace and low <= lower and upper <= high for space, low, high in parts
            )
            if row.state in LIVE and not is_part:
                chains.setdefault(namespace, []).append((lower, upper, name))
        for namespace, units in sorted(chains.items()):
            units.sort()
            for (_, upper, name), (at, _, other) in pairwise(units):
                if at < upper:
                    raise Violation(f"{name} and {other} are both alive")
            is_whole = (units[0][0], units[-1][1]) == (0, FULL) and all(
                a[1] == b[0] for a, b in pairwise(units)
            )
            if is_whole:
                self.whole.add(namespace)
            elif namespace in self.whole:
                raise Violation(f"{namespace} has a hole: {[name for _, _, name in units]}")

    def ended(self) -> None:
        """Invariant 6: to be called when the time after the last fault is over."""
        serving = dict(self.served())
        for name, row in sorted(self.table.items()):
            if row.state == "Deleted":
                continue
            if row.state != "Owned":
                raise Violation(f"{name} is still {row.state}: {row}")
            if name not in serving.get(row.dstBroker or "", frozenset()):
                raise Violation(f"{name} is owned by {row.dstBroker}, which does not serve it")
        for broker, bundles in sorted(serving.items()):
            for name in sorted(bundles):
                if name not in self.table or self.table[name].dstBroker != broker:
                    raise Violation(f"{broker} serves {name}, which it does not own")

    def _taint(self, record: LogRecord, version: int) -> None:
        key = record.key or ""
        if key in self.table:
            since_ms, greatest = self.tainted.get(key, (record.ingest_ms, 0))
            self.tainted[key] = (since_ms, max(greatest, version))

    def _one_writer(self, record: LogRecord) -> None:
        epoch = int(dict(record.headers).get("epoch", b"0"))
        if epoch and epoch < self.epoch:
            raise Violation(f"a record of epoch {epoch} after one of epoch {self.epoch}")
        self.epoch = max(self.epoch, epoch)

    def _forget(self, key: str, old: Row | None) -> None:
        if old is not None:
            if old.state not in ("Free", "Deleted"):
                raise Violation(f"{key} was {old.state} when its tombstone came")
            self.accepted += 1
            del self.table[key]
            self.tainted.pop(key, None)
            self.is_changed = True

    def _versions(self, key: str, old: Row | None, new: Row) -> None:
        expected = 1 if old is None else old.versionId + 1
        if new.versionId != expected:
            raise Violation(f"{key}: version {new.versionId} was accepted, expected {expected}")

    def _table(self, key: str, old: Row | None, new: Row) -> None:
        before = None if old is None else old.state
        if not new.force and new.state not in ALLOWED[before]:
            raise Violation(f"{key}: {before} -> {new.state} was accepted without force")


def _is_named(new: Row) -> bool:
    """A record other than Free names a broker; Init is no record."""
    brokers = (new.dstBroker or "").strip() + (new.sourceBroker or "").strip()
    return new.state in LIVE | {"Deleted"} and (new.state == "Free" or bool(brokers))


def _wins(old: Row | None, new: Row) -> bool:
    """The conflict rule of the log, told in the shortest way."""
    if old is None:
        return True
    if new.versionId <= old.versionId:
        return False
    if new.versionId > old.versionId + 1 or new.force:
        return True
    same = (old.dstBroker, old.sourceBroker) == (new.dstBroker, new.sourceBroker)
    if old.state == "Owned" and new.state == "Splitting":
        return not new.dstBroker and new.sourceBroker == old.dstBroker
    if old.state == "Owned" and new.state == "Releasing":
        return new.sourceBroker == old.dstBroker and new.dstBroker != old.dstBroker
    if old.state == "Free" and new.state == "Assigning":
        return bool(new.dstBroker) and not new.sourceBroker
    if old.state == "Releasing" and new.state == "Assigning":
        return bool(new.dstBroker) and same
    return new.state in ALLOWED[old.state] and same
