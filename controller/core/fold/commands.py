"""Folds commands: of operators, of agents (assignment requests), of the sink (refusals).

Commands never wait for a round; what they ask is answered in the step that brings them, with a
channel write or with a verdict in the decision log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from controller.core.inputs import RawRecord
from controller.core.rounds.decide import Wish, write_split, write_unload
from controller.core.rounds.log import answer
from controller.core.state.memory import Request
from controller.core.state.tables import FREE, INIT, OWNED
from controller.core.work import Work
from controller.model.bundles import range_midpoint
from controller.strategies.verdicts import Reason, Verdict
from controller.wire.commands import (
    Assign,
    Command,
    Pause,
    Refused,
    Resume,
    SplitBundle,
    Tick,
    Transfer,
    Unload,
    decode_command,
)


def fold_command(work: Work, record: RawRecord) -> None:
    """One record of the command topic; raises `WireError` for what is unreadable."""
    command = decode_command(record.value, work.settings.limits)
    if type(command) is not Assign:
        work.desk = None
    HANDLERS[type(command)](work, command, record.ingest_ms)


def _tick(work: Work, command: Tick, now_ms: int) -> None:
    """Only moves the clock, which `step` has done already."""


def _assign(work: Work, command: Assign, now_ms: int) -> None:
    requests = work.state.memory.requests
    slot = work.bundle(command.bundle)
    if int(work.state.bundles["state"][slot]) not in (INIT, FREE):
        return  # owned or on its way: the asker learns that from the channel
    if command.bundle in work.state.memory.moves:
        return  # answered already, the record is not back yet
    if len(requests) >= work.settings.log.requests_max:
        verdict = Verdict(command.bundle, Reason.ROUND_LIMIT, flips_if="fewer requests wait")
        answer(work, now_ms, (), (verdict,))
        return
    requests.setdefault(command.bundle, Request(asked_ms=now_ms, who=command.requestedBy))
    work.is_answer_due = True


def _refused(work: Work, command: Refused, now_ms: int) -> None:
    memory = work.state.memory
    move = memory.moves.get(command.bundle)
    if move is None or move.decision_id != command.decisionId or move.seen_ms:
        return
    del memory.moves[command.bundle]
    memory.count("sink_refusals")
    slot = work.state.bundles.slots.get(command.bundle)
    if slot is not None and int(work.state.bundles["state"][slot]) in (INIT, FREE):
        # Answered at the next upkeep, not at once: what is refused now would be refused again.
        memory.requests.setdefault(command.bundle, Request(asked_ms=now_ms, who="sink"))


def _transfer(work: Work, command: Transfer, now_ms: int) -> None:
    wish = Wish("transfer", command.bundle, None, command.destination, "admin", _who(command))
    problem = _why_not(work, command.bundle)
    brokers = work.state.brokers
    destination = brokers.slots.get(command.destination, -1)
    if problem is None and destination < 0:
        problem = f"broker {command.destination} is not known"
    elif problem is None and _is_gone(work, destination, now_ms):
        problem = f"broker {command.destination} is not alive"
    elif problem is None and _owner(work, command.bundle) == destination:
        problem = f"{command.destination} owns it already"
    _act_or_refuse(work, now_ms, wish, problem)


def _unload(work: Work, command: Unload, now_ms: int) -> None:
    wish = Wish("unload", command.bundle, None, None, "admin", _who(command))
    _act_or_refuse(work, now_ms, wish, _why_not(work, command.bundle))


def _split(work: Work, command: SplitBundle, now_ms: int) -> None:
    problem = _why_not(work, command.bundle)
    boundaries: tuple[int, ...] = ()
    if problem is None:
        slot = work.state.bundles.slots[command.bundle]
        lower = int(work.state.bundles["lower"][slot])
        upper = int(work.state.bundles["upper"][slot])
        middle = range_midpoint(lower, upper)
        boundaries = tuple(sorted(set(command.boundaries or [middle])))
        if not all(lower < b < upper for b in boundaries):
            problem = "boundaries must lie strictly inside the bundle's range"
    wish = Wish("split", command.bundle, None, None, "admin", _who(command), boundaries)
    _act_or_refuse(work, now_ms, wish, problem)


def _act_or_refuse(work: Work, now_ms: int, wish: Wish, problem: str | None) -> None:
    if problem is not None:
        verdict = Verdict(wish.bundle, Reason.INVALID_COMMAND, (("problem", problem),))
        answer(work, now_ms, (), (verdict,))
        return
    write = write_split if wish.kind == "split" else write_unload
    answer(work, now_ms, (write(work, wish, now_ms),), ())


def _why_not(work: Work, bundle: str) -> str | None:
    """Why an operator's command about a bundle cannot be obeyed now; None = it can."""
    slot = work.state.bundles.slots.get(bundle)
    if slot is None:
        return f"bundle {bundle} is not known"
    if int(work.state.bundles["state"][slot]) != OWNED:
        return f"bundle {bundle} is not owned: it is unowned or in flight"
    move = work.state.memory.moves.get(bundle)
    if move is not None and not move.arrived_ms:
        return f"bundle {bundle} has a decision in flight"
    return None


def _owner(work: Work, bundle: str) -> int:
    bundles = work.state.bundles
    return int(bundles["serving"][bundles.slots[bundle]])


def _is_gone(work: Work, broker: int, now_ms: int) -> bool:
    silent_ms = now_ms - int(work.state.brokers["last_seen_ms"][broker])
    return silent_ms >= work.settings.liveness.takeover_after_ms


def _pause(work: Work, command: Pause, now_ms: int) -> None:
    work.state.memory.paused_until_ms = command.untilMs if command.untilMs is not None else -1


def _resume(work: Work, command: Resume, now_ms: int) -> None:
    work.state.memory.paused_until_ms = 0


def _who(command: Transfer | Unload | SplitBundle) -> str:
    who, why = command.who or "unnamed", command.why or "no reason given"
    return f"by {who}: {why}"


HANDLERS: dict[type[Command], Callable[[Work, Any, int], None]] = {
    Tick: _tick,
    Assign: _assign,
    Refused: _refused,
    Transfer: _transfer,
    Unload: _unload,
    SplitBundle: _split,
    Pause: _pause,
    Resume: _resume,
}
