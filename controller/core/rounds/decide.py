"""Turns wishes into channel records: version, decision id, expiry, and the memory of the move.

The only place that makes channel writes. A write is pending until it is read back.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

from controller.channel.conflict import next_version
from controller.core.fold.ownership import channel_record
from controller.core.inputs import ChannelWrite
from controller.core.state.memory import Move
from controller.core.state.tables import STATES
from controller.core.work import Work
from controller.model.bundles import HashRange, split_range
from controller.wire.channel import ServiceUnitState, ServiceUnitStateData, encode_channel
from controller.wire.decisions import DecisionEntry

COOLING_KINDS = ("transfer", "unload", "override")


@dataclass(frozen=True, slots=True)
class Wish:
    """What is wanted for one bundle. Brokers by name; `source` None = its present owner."""

    kind: str  # assign, transfer, unload, split, override, reassert, tombstone
    bundle: str
    source: str | None
    destination: str | None
    reason: str
    detail: str
    boundaries: tuple[int, ...] = ()
    load: tuple[float, float] = (0.0, 0.0)  # that the source loses, that the destination gains


def write_assign(work: Work, wish: Wish, now_ms: int) -> DecisionEntry:
    """Init or Free -> Assigning(destination)."""
    return _write(work, wish, now_ms, ServiceUnitState.Assigning, wish.destination, None)


def write_unload(work: Work, wish: Wish, now_ms: int) -> DecisionEntry:
    """Owned -> Releasing(source, destination or none): transfer, or unload."""
    owner = _owner(work, wish)
    return _write(work, wish, now_ms, ServiceUnitState.Releasing, wish.destination, owner)


def write_split(work: Work, wish: Wish, now_ms: int) -> DecisionEntry:
    """Owned -> Splitting(source, children); children are ranges, as in Pulsar's records."""
    bundles = work.state.bundles
    slot = bundles.slots[wish.bundle]
    whole = HashRange(int(bundles["lower"][slot]), int(bundles["upper"][slot]))
    children = [str(part) for part in split_range(whole, wish.boundaries)]
    owner = _owner(work, wish)
    return _write(work, wish, now_ms, ServiceUnitState.Splitting, None, owner, children)


def write_override(
    work: Work, wish: Wish, now_ms: int, state: ServiceUnitState, children: list[str] | None
) -> DecisionEntry:
    """Forced repair (pulsar.md §6.8): Owned on, or Splitting by, the destination."""
    if state is ServiceUnitState.Splitting:
        named = _names(work, wish.bundle)[0]
        return _write(work, wish, now_ms, state, named, wish.destination, children, force=True)
    source = wish.source if wish.source != wish.destination else None
    return _write(work, wish, now_ms, state, wish.destination, source, force=True)


def write_reassert(work: Work, wish: Wish, now_ms: int) -> DecisionEntry:
    """Forced: the state and brokers that stand, so that they are the key's last record again."""
    slot = work.state.bundles.slots[wish.bundle]
    state = ServiceUnitState(STATES[int(work.state.bundles["state"][slot])])
    return _write(work, wish, now_ms, state, *_names(work, wish.bundle), force=True)


def write_tombstone(work: Work, wish: Wish, now_ms: int) -> DecisionEntry:
    """Ends the bundle's time on the channel; the version is that of the record that it ends."""
    slot = work.state.bundles.slots[wish.bundle]
    version = int(work.state.bundles["version"][slot])
    decision_id = _decision_id(work.cluster, wish, ServiceUnitState.Init, version)
    return _put(work, wish, now_ms, None, version, decision_id)


def _names(work: Work, bundle: str) -> tuple[str | None, str | None]:
    """Destination and source that the accepted record of a bundle names."""
    record = channel_record(work, work.state.bundles.slots[bundle])
    return (None, None) if record is None else (record.dstBroker, record.sourceBroker)


def _owner(work: Work, wish: Wish) -> str:
    bundles = work.state.bundles
    serving = int(bundles["serving"][bundles.slots[wish.bundle]])
    return wish.source or work.state.brokers.names[serving]


def _write(
    work: Work,
    wish: Wish,
    now_ms: int,
    state: ServiceUnitState,
    destination: str | None,
    source: str | None,
    children: list[str] | None = None,
    *,
    force: bool = False,
) -> DecisionEntry:
    bundles = work.state.bundles
    slot = bundles.slots[wish.bundle]
    version = next_version(channel_record(work, slot))
    decision_id = _decision_id(work.cluster, wish, state, version)
    record = ServiceUnitStateData(
        state=state,
        dstBroker=destination,
        sourceBroker=source,
        splitServiceUnitToDestBroker=dict.fromkeys(children) if children else None,
        force=force,
        timestamp=now_ms,
        versionId=version,
        decisionId=decision_id,
        reason=wish.reason,
    )
    shown = replace(wish, source=source) if wish.source is None else wish
    return _put(work, shown, now_ms, encode_channel(record), version, decision_id, children)


def _put(
    work: Work,
    wish: Wish,
    now_ms: int,
    value: bytes | None,
    version: int,
    decision_id: str,
    children: list[str] | None = None,
) -> DecisionEntry:
    """Writes, remembers the move, and describes it for the decision log."""
    work.writes.append(
        ChannelWrite(
            key=wish.bundle,
            value=value,
            decision_id=decision_id,
            version=version,
            valid_until_ms=now_ms + work.settings.actions.decision_ttl_ms,
        )
    )
    _remember(work, wish, version, decision_id, now_ms)
    return DecisionEntry(
        kind=wish.kind,
        bundle=wish.bundle,
        source=wish.source,
        destination=wish.destination,
        reason=wish.reason,
        detail=wish.detail,
        children=children,
        version=version,
        decisionId=decision_id,
    )


def _remember(work: Work, wish: Wish, version: int, decision_id: str, now_ms: int) -> None:
    state, memory = work.state, work.state.memory
    slot = state.bundles.slots[wish.bundle]
    work.flush()  # its rate must not depend on which reports came in the same batch
    short = state.bundles["short"][slot].astype(float)
    serving = int(state.bundles["serving"][slot])
    memory.moves.pop(wish.bundle, None)  # so that the order of `moves` is that of the decisions
    memory.moves[wish.bundle] = Move(
        kind=wish.kind,
        version=version,
        decision_id=decision_id,
        source=state.brokers.names[serving] if serving >= 0 else None,
        destination=wish.destination,
        decided_ms=now_ms,
        load_source=wish.load[0],
        load_destination=wish.load[1],
        rate=float(short[0] + short[1]),
        throughput=float(short[2] + short[3]),
    )
    memory.requests.pop(wish.bundle, None)
    memory.count(f"decisions_{wish.kind}")
    # Assignments do not cool a broker: a placement begun anew after each of them would otherwise
    # choose differently from one that goes on, and so would two cuts of one log.
    pair = (wish.source, wish.destination) if wish.kind in COOLING_KINDS else ()
    for name in pair:
        broker = state.brokers.slots.get(name or "", -1)
        if broker >= 0:
            state.brokers["moved_ms"][broker] = now_ms


def _decision_id(cluster: str, wish: Wish, state: ServiceUnitState, version: int) -> str:
    content = "|".join((cluster, wish.bundle, str(version), state.value, wish.destination or ""))
    return hashlib.blake2b(content.encode(), digest_size=12).hexdigest()
