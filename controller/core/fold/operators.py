"""Operators' commands: move, split, drain, pin, pause, and their opposites.

Every one of them is answered at once by a record of the decision log that repeats it and says
whether it was accepted; a refusal says in words what is wrong and what to do. A handler returns
the wish to write, `None` if it only changed the memory, or a `Refusal`. Called by
`controller.core.fold.commands`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from controller.core.dynamic import KeyRefusedError, checked, effective
from controller.core.rounds.decide import Wish, write_split, write_unload
from controller.core.rounds.log import answer
from controller.core.state.memory import Mark, PinMark
from controller.core.state.tables import GONE, LEAVING, OWNED
from controller.core.work import Work
from controller.model.boundaries import range_midpoint
from controller.strategies.verdicts import Reason, Verdict
from controller.wire.commands import (
    Command,
    Drain,
    Pause,
    Pin,
    Resume,
    SetKey,
    SetPolicies,
    SplitBundle,
    Transfer,
    Undrain,
    Unload,
    Unpin,
    UnsetKey,
)
from controller.wire.decisions import CommandEcho
from controller.wire.policies import PolicySet, problem_of


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a command cannot be obeyed, in words."""

    problem: str


Outcome = Wish | Refusal | None


def obey(work: Work, command: Any, now_ms: int) -> None:
    """Carries out one operator's command, or refuses it, and logs the answer."""
    outcome = OPERATORS[type(command)](work, command, now_ms)
    tag = str(command.__struct_config__.tag)
    named = (getattr(command, name, None) for name in ("bundle", "broker", "key"))
    subject = next((one for one in named if one), None)
    echo = CommandEcho(
        command=tag,
        isAccepted=not isinstance(outcome, Refusal),
        subject=subject,
        id=command.id,
        who=command.who,
        why=command.why,
    )
    work.state.memory.count(f"commands_{'accepted' if echo.isAccepted else 'refused'}")
    if isinstance(outcome, Refusal):
        verdict = Verdict(
            subject or "cluster", Reason.INVALID_COMMAND, (("problem", outcome.problem),)
        )
        answer(work, now_ms, (), (verdict,), echo)
    elif outcome is None:
        answer(work, now_ms, (), (), echo)
    else:
        write = write_split if outcome.kind == "split" else write_unload
        answer(work, now_ms, (write(work, outcome, now_ms),), (), echo)


# ------------------------------------------------------------------------ one bundle, now


def _transfer(work: Work, command: Transfer, now_ms: int) -> Outcome:
    name, to = command.bundle, command.destination
    problem = _why_not(work, name) or _why_not_to(work, to, now_ms)
    if problem is None and _is_owner(work, name, to):
        problem = f"{to} owns it already"
    pin = work.state.memory.pins.get(name)
    if problem is None and pin is not None and pin.broker != to:
        problem = _pinned(name, pin)
    if problem is not None:
        return Refusal(problem)
    return Wish("transfer", name, None, to, "admin", _told(command))


def _is_owner(work: Work, bundle: str, broker: str) -> bool:
    """True if the broker owns the bundle; Pulsar compares the ends of the names (parity)."""
    owner = work.state.brokers.names[_owner(work, bundle)]
    return owner.endswith(broker) if work.settings.parity else owner == broker


def _unload(work: Work, command: Unload, now_ms: int) -> Outcome:
    problem = _why_not(work, command.bundle) or _why_not_pinned(work, command.bundle)
    if problem is not None:
        return Refusal(problem)
    return Wish("unload", command.bundle, None, None, "admin", _told(command))


def _split(work: Work, command: SplitBundle, now_ms: int) -> Outcome:
    name = command.bundle
    problem = _why_not(work, name) or _why_not_pinned(work, name)
    if problem is not None:
        return Refusal(problem)
    bundles = work.state.bundles
    slot = bundles.slots[name]
    lower, upper = int(bundles["lower"][slot]), int(bundles["upper"][slot])
    boundaries = tuple(sorted(set(command.boundaries or [range_midpoint(lower, upper)])))
    if not all(lower < b < upper for b in boundaries):
        return Refusal("boundaries must lie strictly inside the bundle's range")
    return Wish("split", name, None, None, "admin", _told(command), boundaries)


def _why_not(work: Work, bundle: str) -> str | None:
    """Why a command about a bundle cannot be obeyed now; None = it can."""
    slot = work.state.bundles.slots.get(bundle)
    if slot is None:
        return f"bundle {bundle} is not known"
    if int(work.state.bundles["state"][slot]) != OWNED or _owner(work, bundle) < 0:
        return f"bundle {bundle} is not owned: it is unowned or in flight"
    move = work.state.memory.moves.get(bundle)
    if move is not None and not move.arrived_ms:
        return f"bundle {bundle} has a decision in flight"
    return None


def _why_not_to(work: Work, broker: str, now_ms: int) -> str | None:
    """Why a broker cannot be given a bundle; None = it can."""
    brokers = work.state.brokers
    slot = brokers.slots.get(broker)
    if slot is None:
        return _unknown_broker(broker, brokers.slots)
    if int(brokers["status"][slot]) == GONE:
        return f"broker {broker} is gone: it has said that it stopped"
    silent_ms = now_ms - int(brokers["last_seen_ms"][slot])
    if silent_ms >= work.settings.liveness.takeover_after_ms:
        return f"broker {broker} is not alive: silent for {silent_ms / 1000:.1f} s"
    if int(brokers["status"][slot]) == LEAVING:
        return f"broker {broker} is leaving"
    if broker in work.state.memory.drains:
        return f"broker {broker} is draining; undrain it first"
    return None


def _why_not_pinned(work: Work, bundle: str) -> str | None:
    pin = work.state.memory.pins.get(bundle)
    return None if pin is None else _pinned(bundle, pin)


def _pinned(bundle: str, pin: PinMark) -> str:
    return f"bundle {bundle} is pinned to {pin.broker} by {pin.mark.who}; unpin it first"


def _owner(work: Work, bundle: str) -> int:
    bundles = work.state.bundles
    return int(bundles["serving"][bundles.slots[bundle]])


# ----------------------------------------------------------------------- standing orders


def _drain(work: Work, command: Drain, now_ms: int) -> Outcome:
    drains, brokers = work.state.memory.drains, work.state.brokers
    if command.broker not in brokers.slots and command.broker not in drains:
        return Refusal(_unknown_broker(command.broker, brokers.slots))
    if command.broker not in drains and len(drains) >= work.settings.log.drains_max:
        return Refusal(f"{len(drains)} brokers are draining already; undrain one of them first")
    drains[command.broker] = _mark(command, now_ms)
    return None


def _undrain(work: Work, command: Undrain, now_ms: int) -> Outcome:
    drains = work.state.memory.drains
    if command.broker not in drains:
        return Refusal(f"broker {command.broker} is not draining")
    del drains[command.broker]
    work.is_answer_due = True
    return None


def _pin(work: Work, command: Pin, now_ms: int) -> Outcome:
    pins, brokers = work.state.memory.pins, work.state.brokers
    name, broker = command.bundle, command.broker
    if name not in work.state.bundles.slots:
        return Refusal(f"bundle {name} is not known")
    if broker is None:
        owner = _owner(work, name)
        if owner < 0:
            return Refusal(f"nobody owns bundle {name} now; name the broker to pin it to")
        broker = brokers.names[owner]
    elif broker not in brokers.slots:
        return Refusal(_unknown_broker(broker, brokers.slots))
    if name not in pins and len(pins) >= work.settings.log.pins_max:
        return Refusal(f"{len(pins)} bundles are pinned already; unpin one of them first")
    pins[name] = PinMark(broker=broker, mark=_mark(command, now_ms))
    return None


def _unpin(work: Work, command: Unpin, now_ms: int) -> Outcome:
    if work.state.memory.pins.pop(command.bundle, None) is None:
        return Refusal(f"bundle {command.bundle} is not pinned")
    return None


def _pause(work: Work, command: Pause, now_ms: int) -> Outcome:
    if command.untilMs is not None and command.untilMs <= now_ms:
        return Refusal(f"untilMs = {command.untilMs} has passed; it is {now_ms} now")
    work.state.memory.paused_until_ms = command.untilMs if command.untilMs is not None else -1
    work.state.memory.pause = _mark(command, now_ms)
    return None


def _resume(work: Work, command: Resume, now_ms: int) -> Outcome:
    work.state.memory.paused_until_ms = 0
    work.state.memory.pause = None
    return None


def _set(work: Work, command: SetKey, now_ms: int) -> Outcome:
    overrides = work.state.memory.overrides
    try:
        value = checked(work.configured, command.key, command.value)
    except KeyRefusedError as error:
        return Refusal(str(error))
    work.state.memory.overrides = {**overrides, command.key: value}
    work.settings = effective(work.configured, work.state.memory.overrides)
    return None


def _unset(work: Work, command: UnsetKey, now_ms: int) -> Outcome:
    overrides = work.state.memory.overrides
    if command.key not in overrides:
        return Refusal(f"{command.key} is not set")
    kept = {key: value for key, value in overrides.items() if key != command.key}
    work.state.memory.overrides = kept
    work.settings = effective(work.configured, kept)
    return None


def _policies(work: Work, command: SetPolicies, now_ms: int) -> Outcome:
    problem = problem_of(command.policies)
    if problem is not None:
        return Refusal(problem)
    is_empty = command.policies == PolicySet()
    work.state.memory.policies = None if is_empty else command.policies
    work.is_answer_due = True
    return None


def _unknown_broker(broker: str, known: Iterable[str]) -> str:
    near = get_close_matches(broker, sorted(known), n=1)
    return f"broker {broker} is not known" + (f"; did you mean {near[0]}?" if near else "")


def _mark(command: Command, now_ms: int) -> Mark:
    who, why = command.who or "unnamed", command.why or "no reason given"
    return Mark(since_ms=now_ms, who=who, why=why)


def _told(command: Command) -> str:
    mark = _mark(command, 0)
    return f"by {mark.who}: {mark.why}"


OPERATORS: dict[type[Command], Callable[[Work, Any, int], Outcome]] = {
    Transfer: _transfer,
    Unload: _unload,
    SplitBundle: _split,
    Drain: _drain,
    Undrain: _undrain,
    Pin: _pin,
    Unpin: _unpin,
    Pause: _pause,
    Resume: _resume,
    SetKey: _set,
    UnsetKey: _unset,
    SetPolicies: _policies,
}
