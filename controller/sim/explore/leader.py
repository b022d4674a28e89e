"""The controller: the production `step`, and what its job holds between two micro-batches.

A batch is decided at once and published later, so that anything may happen in between. Deciding
again after a crash gives the same (`step` is pure, and `decide` can check it), so a crash before
the publishing is a late publishing. The state is normalised as that of the agents.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from controller.core import step as production
from controller.core.inputs import RawRecord, StepResult
from controller.core.state import ClusterState, new_state
from controller.core.state.columns import Columns
from controller.core.state.memory import Memory, Move
from controller.core.state.tables import ASSIGNING, RELEASING, SPLITTING
from controller.sim.explore.records import Aged, Rec, Sign, of_bytes, report_of, to_bytes
from controller.sim.explore.times import (
    CHANNEL,
    CLUSTER,
    COMMANDS,
    CORE,
    CORE_AGE_MAX,
    CORE_NOW_MS,
    REPORTS,
    UNIT_MS,
)
from controller.wire.commands import Command, Refused, Tick, encode_command

_OLDEST_MS = CORE_NOW_MS - CORE_AGE_MAX * UNIT_MS
_TIMES = ("clock_ms", "started_ms", "next_tick_ms", "grace_ms")
_MOVE_TIMES = ("decided_ms", "seen_ms", "left_ms", "arrived_ms")
# Times that the explored settings compare with nothing: cool-downs are 0, and a broker is new
# only at the moment when it is first seen.
_UNCOMPARED = {"moved_ms", "first_seen_ms"}


class Write(msgspec.Struct, frozen=True):
    """A record that was decided and not published; `left` units remain for it."""

    rec: Rec
    decision: str
    left: int


@dataclass(frozen=True, slots=True)
class Leader:
    """The process that leads, with its checkpoint."""

    state: ClusterState
    key: Hashable  # of the state
    writes: tuple[Write, ...] = ()  # of the batch that was decided last
    is_published: bool = False  # they are on the log, but the process died before it knew
    refusals: tuple[Write, ...] = ()  # came too late: they go back as commands
    lag: int = 0  # units since it decided last
    has_ticked: bool = False  # in this unit
    is_paused: bool = False


@dataclass(frozen=True, slots=True)
class Decided:
    """What one call of `step` came to."""

    state: ClusterState
    key: Hashable
    writes: tuple[Write, ...]


def new_leader() -> Leader:
    """A process with an empty checkpoint."""
    state = new_state(CLUSTER, CORE)
    return Leader(state, _key(state))


def decide(
    state: ClusterState,
    channel: tuple[Aged, ...],
    signs: tuple[Sign, ...],
    commands: tuple[Command, ...],
    *,
    is_checked: bool = False,
) -> Decided:
    """One micro-batch; `is_checked` also sees that doing it again gives the same."""
    inputs = [
        _raw(CHANNEL, n, one.rec.key, to_bytes(one.rec), one.age) for n, one in enumerate(channel)
    ]
    inputs += [
        _raw(REPORTS, n, f"{CLUSTER}/{s.broker}", report_of(s.broker, s.status, s.transport), s.age)
        for n, s in enumerate(signs)
    ]
    inputs += [
        _raw(COMMANDS, n, f"{CLUSTER}/x", encode_command(command), 0)
        for n, command in enumerate(commands)
    ]
    result = production.step(state, inputs, CORE_NOW_MS, CORE)
    if is_checked:
        again = production.step(state, inputs, CORE_NOW_MS, CORE)
        if _effects(again) != _effects(result):
            raise AssertionError("a batch that is run again is decided otherwise")
    if result.rejects:
        raise AssertionError(f"the core rejects {result.rejects[0]}")
    _normalise(result.state)
    return Decided(result.state, _key(result.state), _writes(result))


def ticks(leader: Leader) -> tuple[Command, ...]:
    """The tick of this unit, if it was not yet read, and the refusals."""
    back: tuple[Command, ...] = tuple(
        Refused(
            bundle=write.rec.key,
            versionId=write.rec.version,
            decisionId=write.decision,
            reason="expired",
        )
        for write in leader.refusals
    )
    return back if leader.has_ticked else (Tick(), *back)


def aged(leader: Leader) -> Leader:
    """One unit later."""
    state = leader.state.copy()
    _shift(state)
    return replace(
        leader,
        state=state,
        key=_key(state),
        writes=tuple(msgspec.structs.replace(w, left=max(-1, w.left - 1)) for w in leader.writes),
        lag=leader.lag + 1,
        has_ticked=False,
    )


def key_of(leader: Leader) -> Hashable:
    """What tells two leaders apart."""
    return (
        leader.key,
        leader.writes,
        leader.is_published,
        leader.refusals,
        leader.lag,
        leader.has_ticked,
        leader.is_paused,
    )


def _raw(topic: str, offset: int, key: str, value: bytes | None, age: int) -> RawRecord:
    return RawRecord(CORE_NOW_MS - age * UNIT_MS, topic, 0, offset, key, value)


def _effects(result: StepResult) -> object:
    return (result.records, result.rounds, result.rejects, _key(result.state))


def _writes(result: StepResult) -> tuple[Write, ...]:
    return tuple(
        Write(
            of_bytes(write.key, write.value),
            write.decision_id,
            (write.valid_until_ms - CORE_NOW_MS) // UNIT_MS,
        )
        for write in result.records
    )


def _normalise(state: ClusterState) -> None:
    """Forgets what only counts, and what is told apart by nobody; in place."""
    memory = state.memory
    memory.offsets.clear()
    memory.counters.clear()
    memory.losses.clear()
    memory.losses_more = memory.round_number = 0
    samples = state.brokers["ema_samples"]
    np.minimum(samples, 1, out=samples)  # of loads that are all 0
    for table in (state.brokers, state.bundles):  # no spare rows: many states are kept
        table.arrays = {name: table[name].copy() for name in table.arrays}
    _clamp(state)


def _shift(state: ClusterState) -> None:
    """All times one unit into the past, in place; 0 stays "never"."""
    for table in (state.brokers, state.bundles):
        for name in _time_columns(table):
            column = table[name]
            column[column > 0] -= UNIT_MS
    memory = state.memory
    for name in _TIMES:
        if getattr(memory, name):
            setattr(memory, name, getattr(memory, name) - UNIT_MS)
    for move in memory.moves.values():
        for name in _MOVE_TIMES:
            if getattr(move, name):
                setattr(move, name, getattr(move, name) - UNIT_MS)
    _clamp(state)


def _clamp(state: ClusterState) -> None:
    """What is older than every timeout, or compared with nothing, is of one age; in place."""
    for table in (state.brokers, state.bundles):
        for name in _time_columns(table):
            column = table[name]
            is_old = column < (CORE_NOW_MS if name in _UNCOMPARED else _OLDEST_MS)
            column[(column > 0) & is_old] = _OLDEST_MS
    bundles, memory = state.bundles, state.memory
    is_over = ~np.isin(bundles["state"], (ASSIGNING, RELEASING, SPLITTING))
    bundles["since_ms"][is_over & (bundles["since_ms"] > 0)] = _OLDEST_MS
    for name in ("started_ms", "grace_ms"):
        if getattr(memory, name):
            setattr(memory, name, max(getattr(memory, name), _OLDEST_MS))
    for move in memory.moves.values():
        _clamp_move(move)
    for bundle, request in memory.requests.items():
        memory.requests[bundle] = msgspec.structs.replace(request, asked_ms=_OLDEST_MS)


def _clamp_move(move: Move) -> None:
    """Once its record was read back, nothing asks any more which one it was, and when."""
    move.decided_ms = _OLDEST_MS
    if move.seen_ms:
        move.seen_ms, move.version, move.decision_id = _OLDEST_MS, 0, ""
    for name in ("left_ms", "arrived_ms"):
        if getattr(move, name):
            setattr(move, name, max(getattr(move, name), _OLDEST_MS))


def _time_columns(table: Columns) -> Iterable[str]:
    return (column.name for column in table.layout if column.name.endswith("_ms"))


def _key(state: ClusterState) -> Hashable:
    """The content of a state, by names: which slot a name has decides nothing."""
    slots = state.brokers.slots
    names = ["", *state.brokers.names]  # -1 -> ""

    def rows(table: Columns) -> tuple[Hashable, ...]:
        return tuple(
            (
                name,
                *(
                    names[int(table[column.name][slot]) + 1]
                    if column.dtype == "i2"
                    else table[column.name][slot].tobytes()
                    for column in table.layout
                ),
            )
            for name, slot in sorted(table.slots.items())
        )

    assert all(names[slot + 1] == name for name, slot in slots.items())
    return (rows(state.brokers), rows(state.bundles), _memory_key(state.memory))


def _memory_key(memory: Memory) -> Hashable:
    moves = tuple(
        (name, msgspec.structs.astuple(move)) for name, move in sorted(memory.moves.items())
    )
    rest = {
        name: getattr(memory, name)
        for name in memory.__struct_fields__
        if name not in ("moves", "cluster", "offsets", "counters", "losses")
    }
    return (moves, msgspec.msgpack.encode(rest, order="deterministic"))
