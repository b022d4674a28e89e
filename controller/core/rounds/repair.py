"""Repairs ownership in a round: orphans of brokers that are gone, and records that are stuck.

Orphan = the broker that should act on the record gave no sign of life for `takeover_after_ms`
(longer than its lease, so it has stopped serving), or said that it is gone; or the record is
Owned and names nobody. A broker that speaks again before its turn came keeps what is left: an
agent speaks only while it may serve. Stuck = in flight for longer than `in_flight_timeout_ms`.
Both get a forced record (pulsar.md §6.8). In safe mode nothing is repaired: then the pipeline is
suspected, not the brokers.
"""

from __future__ import annotations

import numpy as np

from controller.core.rounds.answers import Desk, choose, tell
from controller.core.rounds.decide import Wish, write_override
from controller.core.rounds.monitor import records_allowed
from controller.core.state.tables import ASSIGNING, GONE, OWNED, RELEASING, SPLITTING
from controller.core.view.build import Liveness, is_in_flight
from controller.core.work import Work
from controller.strategies.verdicts import Reason, VerdictTally
from controller.strategies.view import Ints
from controller.wire.channel import ServiceUnitState
from controller.wire.decisions import DecisionEntry


def find_orphans(work: Work, now_ms: int, alive: Liveness) -> Ints:
    """Slots of bundles to repair: orphaned, or stuck in flight; in no order."""
    bundles = work.state.bundles
    state = bundles["state"]
    gone = np.append(alive.is_gone, False)  # the last entry stands for "no broker"
    gone_destination, gone_source = gone[bundles["destination"]], gone[bundles["source"]]
    orphan = (
        ((state == OWNED) & (gone_destination | (bundles["destination"] < 0)))
        | ((state == ASSIGNING) & gone_destination)
        | ((state == RELEASING) & (gone_source | gone_destination))
        | ((state == SPLITTING) & gone_source)
    )
    # Stuck needs a live actor: one that is merely silent gets the time that orphans get.
    actor = np.where(state == ASSIGNING, bundles["destination"], bundles["source"])
    in_flight = np.isin(state, (ASSIGNING, RELEASING, SPLITTING))
    has_actor = in_flight & np.append(alive.is_live, True)[actor]
    age_ms = now_ms - bundles["since_ms"]
    stuck = has_actor & ~orphan & (age_ms >= work.settings.actions.in_flight_timeout_ms)
    for name, move in work.state.memory.moves.items():
        if move.seen_ms == 0 and is_in_flight(move):  # a repair of ours is on its way already
            slot = bundles.slots[name]
            orphan[slot] = stuck[slot] = False
    return np.flatnonzero(orphan | stuck)


def repair(
    work: Work, desk: Desk, slots: Ints, now_ms: int, alive: Liveness, tally: VerdictTally
) -> list[DecisionEntry]:
    """Forced records for the bundles in `slots`: excluded namespaces last, bounded."""
    ordered = desk.view.order(slots)
    ordered = ordered[np.argsort(desk.view.bundle_is_excluded[ordered], kind="stable")]
    limit = records_allowed(work)
    tally.count(Reason.ROUND_LIMIT, max(0, len(ordered) - limit))
    decisions = []
    for slot in ordered[:limit].tolist():
        decision = _override(work, desk, slot, now_ms, alive, tally)
        if decision is not None:
            decisions.append(decision)
    return decisions


def _override(
    work: Work, desk: Desk, slot: int, now_ms: int, alive: Liveness, tally: VerdictTally
) -> DecisionEntry | None:
    bundles, brokers = work.state.bundles, work.state.brokers
    name, state = bundles.names[slot], int(bundles["state"][slot])
    destination, source = int(bundles["destination"][slot]), int(bundles["source"][slot])
    last = source if state in (RELEASING, SPLITTING) else destination
    actors = (source, destination) if state == RELEASING else (last,)
    dead = next((broker for broker in actors if broker >= 0 and not alive.is_live[broker]), -1)
    keeper = _keeper(state, destination, source, alive)
    if keeper >= 0:
        chosen, load = brokers.names[keeper], 0.0
    else:
        choice = choose(work, desk, name)
        tell(choice, name, tally)
        if choice.broker < 0:
            return None
        chosen, load = desk.view.broker_names[choice.broker], choice.load
    wish = Wish(
        "override",
        name,
        brokers.names[last] if last >= 0 else None,
        chosen,
        "orphan" if dead >= 0 or state == OWNED else "stuck",
        _why(work, state, dead, now_ms),
        load=(0.0, load),
    )
    children = work.state.memory.children.get(name)
    if state == SPLITTING and children:  # one without children could only lose its range
        return write_override(work, wish, now_ms, ServiceUnitState.Splitting, children)
    return write_override(work, wish, now_ms, ServiceUnitState.Owned, None)


def _why(work: Work, state: int, dead: int, now_ms: int) -> str:
    brokers = work.state.brokers
    if dead < 0:
        return "names no owner" if state == OWNED else "in flight too long"
    if int(brokers["status"][dead]) == GONE:
        return f"{brokers.names[dead]} has stopped"
    silent_s = (now_ms - int(brokers["last_seen_ms"][dead])) / 1000
    return f"{brokers.names[dead]} silent for {silent_s:.1f} s"


def _keeper(state: int, destination: int, source: int, alive: Liveness) -> int:
    """The live broker of a record in flight that should simply go on with the bundle, or -1.

    A destination that is live finishes a move whose source died; a source that is live keeps
    the bundle when its destination died or nothing moved in time.
    """
    candidates = (source, destination) if state in (RELEASING, SPLITTING) else (destination,)
    for broker in candidates:
        if broker >= 0 and alive.is_live[broker]:
            return broker
    return -1
