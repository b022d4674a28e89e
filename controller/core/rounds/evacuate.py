"""Moves bundles off brokers that leave or drain, and pinned bundles to their brokers.

Rules:

1. Only what a live broker owns and what is not in flight moves, within the budget of the tick;
   what does not fit, or finds no broker, waits for the next tick. Bundles without an owner are
   placed before.
2. Leaving brokers come first (they wait for it), then draining ones, then pins; bundles of
   excluded namespaces last. What belongs to one broker (heartbeat, SLA monitor) stays.
3. Cool-downs and no-return do not count here: an operator or the broker itself wants the move.
4. A pause stops all but the bundles of leaving brokers: those stop anyway.

Called by `controller.core.rounds.ticks` at every tick.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controller.core.rounds.answers import Desk, choose, tell
from controller.core.rounds.budget import Budget
from controller.core.rounds.decide import Wish, write_unload
from controller.core.state.tables import OWNED
from controller.core.view.build import Liveness, belongs_to_a_broker, is_in_flight
from controller.core.work import Work
from controller.strategies.verdicts import Reason, Verdict, VerdictTally
from controller.strategies.view import Bools, Ints
from controller.wire.decisions import DecisionEntry

IS_LEAVING, IS_DRAINING, IS_PINNED, STAYS = range(4)
REASONS = ("leaving", "drain", "pinned")


@dataclass(frozen=True, slots=True)
class Misplaced:
    """Bundles that should be elsewhere: slots, and by slot why (an index of `REASONS`)."""

    slots: Ints
    why: Ints


def find_misplaced(work: Work, alive: Liveness, mode: str) -> Misplaced:
    """Bundles to move now, in no order."""
    bundles, memory = work.state.bundles, work.state.memory
    why = np.full(bundles.size, STAYS, np.int64)
    is_idle = not (alive.is_leaving.any() or alive.is_draining.any() or memory.pins)
    if is_idle or mode not in ("act", "paused"):
        return Misplaced(np.flatnonzero(why < STAYS), why)
    owner = bundles["serving"]
    if mode == "act":
        _mark_pins(work, alive, why)
        why[np.append(alive.is_draining, False)[owner]] = IS_DRAINING
    why[np.append(alive.is_leaving, False)[owner]] = IS_LEAVING
    stays = (bundles["state"] != OWNED) | belongs_to_a_broker(work)[bundles["namespace"]]
    stays |= ~np.append(alive.is_live, False)[owner]  # its bundles are orphans, sooner or later
    for name, move in memory.moves.items():
        if is_in_flight(move):
            stays[bundles.slots[name]] = True
    why[stays] = STAYS
    return Misplaced(np.flatnonzero(why < STAYS), why)


def _mark_pins(work: Work, alive: Liveness, why: Ints) -> None:
    bundles, brokers = work.state.bundles, work.state.brokers
    owner, can_receive = bundles["serving"], alive.can_receive
    for name, pin in work.state.memory.pins.items():
        slot, home = bundles.slots.get(name, -1), brokers.slots.get(pin.broker, -1)
        if slot >= 0 and home >= 0 and can_receive[home] and owner[slot] != home:
            why[slot] = IS_PINNED


def evacuate(
    work: Work, desk: Desk, misplaced: Misplaced, now_ms: int, budget: Budget, tally: VerdictTally
) -> list[DecisionEntry]:
    """Transfers in the order of rule 2, as many as the budget allows."""
    view, brokers, bundles = desk.view, work.state.brokers, work.state.bundles
    ordered = view.order(misplaced.slots)
    for key in (misplaced.why, view.bundle_is_excluded):
        ordered = ordered[np.argsort(key[ordered], kind="stable")]
    decisions: list[DecisionEntry] = []
    waiting = 0
    for slot in ordered.tolist():
        name, source = bundles.names[slot], brokers.names[int(bundles["serving"][slot])]
        if not budget.has_room(source):
            waiting += 1
            continue
        choice = choose(work, desk, name)
        tell(choice, name, tally)
        if choice.broker < 0:
            continue
        destination = view.broker_names[choice.broker]
        if not budget.takes((source, destination)):
            waiting += 1
            continue
        why = int(misplaced.why[slot])
        load = (float(view.bundle_load[slot]), choice.load)
        detail = _detail(work, why, name, source)
        wish = Wish("transfer", name, source, destination, REASONS[why], detail, load=load)
        decisions.append(write_unload(work, wish, now_ms))
    tally.count(Reason.ROUND_LIMIT, waiting)
    return decisions


def _detail(work: Work, why: int, bundle: str, source: str) -> str:
    memory = work.state.memory
    if why == IS_LEAVING:
        return f"{source} is leaving"
    if why == IS_DRAINING:
        mark = memory.drains[source]
        return f"{source} is drained by {mark.who}: {mark.why}"
    pin = memory.pins[bundle]
    return f"pinned to {pin.broker} by {pin.mark.who}: {pin.mark.why}"


def tell_standing_orders(work: Work, alive: Liveness, tally: VerdictTally) -> None:
    """Verdicts of a round: brokers that are given nothing, pinned bundles that are not at home."""
    memory, brokers, bundles = work.state.memory, work.state.brokers, work.state.bundles
    emptied: Bools = alive.is_leaving | alive.is_draining
    left = np.bincount(bundles["serving"][bundles["serving"] >= 0], minlength=brokers.size)
    for slot in sorted(np.flatnonzero(emptied).tolist(), key=brokers.names.__getitem__):
        name = brokers.names[slot]
        mark = memory.drains.get(name)
        who = "its agent" if mark is None or alive.is_leaving[slot] else mark.who
        inputs = (("bundles_left", float(left[slot])), ("who", who))
        flips_if = "it is undrained" if who != "its agent" else "it starts again"
        tally.add(Verdict(name, Reason.DRAINING, inputs, flips_if=flips_if))
    for name in sorted(memory.pins):
        slot, pin = bundles.slots.get(name, -1), memory.pins[name]
        home = brokers.slots.get(pin.broker, -1)
        if slot < 0 or (home >= 0 and int(bundles["serving"][slot]) == home):
            continue
        inputs_of_pin = (("broker", pin.broker), ("who", pin.mark.who))
        tally.add(Verdict(name, Reason.PINNED, inputs_of_pin, flips_if="its broker can take it"))
