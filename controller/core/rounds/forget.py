"""Forgets what is over at each tick: moves that ended, brokers and bundles that are long gone."""

from __future__ import annotations

import numpy as np

from controller.core.state.tables import ASSIGNING, INIT, RELEASING, SPLITTING
from controller.core.view.build import Liveness, is_settled
from controller.core.work import Work
from controller.strategies.verdicts import Reason, Verdict, VerdictTally


def expire(work: Work, now_ms: int, alive: Liveness, tally: VerdictTally) -> None:
    """Forgets moves that are settled or never came back, and what is long gone.

    A broker that died is a new one when it returns: what had left it may come back.
    """
    memory, bundles = work.state.memory, work.state.bundles
    patience_ms = work.settings.actions.pending_timeout_ms
    for name in list(memory.moves):
        move = memory.moves[name]
        lost = move.seen_ms == 0 and now_ms - move.decided_ms > patience_ms
        if lost:
            tally.add(Verdict(name, Reason.LOST_RACE, (("decision_id", move.decision_id),)))
        if lost or is_settled(work, move):
            del memory.moves[name]
    if alive.is_gone.any() and not alive.is_safe_mode:
        bundles["left"][np.append(alive.is_gone, False)[bundles["left"]]] = -1
    _forget_brokers(work, now_ms)
    _forget_bundles(work, now_ms)


def _forget_brokers(work: Work, now_ms: int) -> None:
    """Brokers that are long gone and that nothing depends on.

    The source of an Owned record is history; only that of a record in flight still matters.
    """
    brokers, bundles = work.state.brokers, work.state.bundles
    old = now_ms - brokers["last_seen_ms"] > work.settings.liveness.forget_after_ms
    if not old.any():
        return
    named = np.zeros(brokers.size + 1, np.bool_)  # the last entry stands for "none"
    in_flight = np.isin(bundles["state"], (ASSIGNING, RELEASING, SPLITTING))
    for slots in (bundles["destination"], bundles["serving"], bundles["source"][in_flight]):
        named[slots] = True
    for name, slot in sorted(brokers.slots.items()):
        if old[slot] and not named[slot]:
            brokers.remove(name)
            work.state.memory.traits.pop(name, None)
            for column in ("left", "source"):
                bundles[column][bundles[column] == slot] = -1


def _forget_bundles(work: Work, now_ms: int) -> None:
    """Bundles that only a report or a request named, long ago: say, a parent after its split."""
    bundles, memory = work.state.bundles, work.state.memory
    age_ms = now_ms - bundles["sampled_ms"]
    old = (bundles["state"] == INIT) & (age_ms > work.settings.liveness.forget_after_ms)
    for slot in np.flatnonzero(old).tolist():
        name = bundles.names[slot]
        if name and name not in memory.requests and name not in memory.moves:
            work.forget_bundle(name)
