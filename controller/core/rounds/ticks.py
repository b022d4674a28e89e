"""Ticks: upkeep at each of them, and a balancing round at every tick that ends an interval.

Called by `step` when the log's time passes a tick by `settle_ms`. A tick's own time is the time
it was due, so a tick that is made up for later decides as it would have then. Upkeep repairs
orphans, answers waiting requests, empties brokers that drain or leave, and tidies the channel; a
round does that, then splits and sheds, and says why not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controller.core.rounds.answers import assign_waiting, is_warm, open_desk
from controller.core.rounds.balance import (
    Mover,
    carry_out_splits,
    plan_shed,
    plan_splits,
    remember,
)
from controller.core.rounds.budget import Budget
from controller.core.rounds.evacuate import evacuate, find_misplaced, tell_standing_orders
from controller.core.rounds.forget import expire
from controller.core.rounds.log import answer_tally, log_round
from controller.core.rounds.monitor import monitor, tell_losers
from controller.core.rounds.repair import find_orphans, repair
from controller.core.view.bound import load_bound
from controller.core.view.build import Liveness, build_view, is_in_flight, liveness
from controller.core.work import Work
from controller.strategies.memory import counts
from controller.strategies.verdicts import Reason, Verdict, VerdictTally
from controller.strategies.view import ClusterView
from controller.wire.decisions import DecisionEntry, RoundStatistics


@dataclass(frozen=True, slots=True)
class Tick:
    """One tick: its time, what it may do, who lives, what is left to begin, and the refusals."""

    tick_ms: int
    now_ms: int
    mode: str
    alive: Liveness
    budget: Budget
    tally: VerdictTally


def run_tick(work: Work, tick_ms: int) -> None:
    """Runs upkeep, and the round if one is due at this tick."""
    now_ms = tick_ms + work.settings.rounds.settle_ms
    memory = work.state.memory
    work.flush()
    work.desk = None
    alive = liveness(work, now_ms)
    if alive.is_safe_mode:
        memory.grace_ms = now_ms
    if 0 < memory.paused_until_ms <= now_ms:
        memory.paused_until_ms, memory.pause = 0, None  # pauses end by themselves
    tally = VerdictTally(work.settings.log.verdicts_top)
    tick = Tick(tick_ms, now_ms, mode_of(work, now_ms, alive), alive, Budget(work), tally)
    is_news = tell_losers(work, tally)
    decisions = _upkeep(work, tick)
    if tick_ms % work.settings.rounds.interval_ms == 0:
        _round(work, tick, decisions)
    elif decisions or is_news:
        answer_tally(work, now_ms, decisions, tally)


def mode_of(work: Work, now_ms: int, alive: Liveness) -> str:
    """What rounds may do now; the strictest of the modes that hold."""
    if not is_warm(work, now_ms):
        return "warm_up"
    if alive.is_safe_mode:
        return "safe_mode"
    until_ms = work.state.memory.paused_until_ms
    return "paused" if until_ms < 0 or until_ms > now_ms else "act"


def _upkeep(work: Work, tick: Tick) -> list[DecisionEntry]:
    """Repairs, answers, evacuates and tidies, in this order: bundles without an owner first."""
    now_ms, mode, alive, tally = tick.now_ms, tick.mode, tick.alive, tick.tally
    expire(work, now_ms, alive, tally)
    orphans = find_orphans(work, now_ms, alive)
    if mode == "safe_mode" and len(orphans):
        tally.count(Reason.SAFE_MODE, len(orphans))
        orphans = orphans[:0]
    misplaced = find_misplaced(work, alive, mode)
    is_idle = not (len(orphans) or len(misplaced.slots) or work.state.memory.requests)
    if mode == "warm_up" or not alive.is_live.any():
        return []
    decisions: list[DecisionEntry] = []
    if not is_idle:
        desk = open_desk(work, now_ms, alive)
        decisions += repair(work, desk, orphans, now_ms, alive, tally)
        assigned, refused = assign_waiting(work, desk, now_ms)
        tally.extend(tuple(refused))
        decisions += assigned
        decisions += evacuate(work, desk, misplaced, now_ms, tick.budget, tally)
    return decisions + monitor(work, now_ms, mode, alive, tally)


def _round(work: Work, tick: Tick, decisions: list[DecisionEntry]) -> None:
    work.state.memory.round_number += 1
    view, _ = build_view(work, tick.now_ms, tick.alive)
    statistics = _statistics(work, view, tick.alive)
    tell_standing_orders(work, tick.alive, tick.tally)
    decisions += _split_and_shed(work, view, tick)
    log_round(work, tick.tick_ms, tick.mode, tick.alive.health, statistics, decisions, tick.tally)


def _split_and_shed(work: Work, view: ClusterView, tick: Tick) -> list[DecisionEntry]:
    """Strategies look in every mode, for the log; hits count and writes happen only in `act`."""
    tally = tick.tally
    splits, shed = plan_splits(work, view), plan_shed(work, view, tick.alive)
    tally.extend(splits.verdicts)
    tally.extend(shed.verdicts)
    _count_frozen(view, tally)
    if tick.mode != "act":
        _tell_mode(work, tick, len(splits.splits) + len(shed.transfers))
        return []
    remember(work, view, splits, shed)
    decisions, splitting = carry_out_splits(work, view, splits, tick.now_ms, tick.budget, tally)
    mover = Mover(work, view, tick.alive, tick.now_ms)
    for transfer in shed.transfers:
        if transfer.bundle in splitting:
            name = view.bundle_names[transfer.bundle]
            tally.add(Verdict(name, Reason.ROUND_LIMIT, flips_if="its split has ended"))
            continue
        decision = mover.carry_out(transfer, tick.budget, tally)
        decisions += [] if decision is None else [decision]
    return decisions


def _tell_mode(work: Work, tick: Tick, planned: int) -> None:
    """Counts what a round in `act` would have done; a pause says whose it is."""
    if tick.mode != "paused":
        tick.tally.count(Reason.WARM_UP if tick.mode == "warm_up" else Reason.SAFE_MODE, planned)
        return
    mark, until_ms = work.state.memory.pause, work.state.memory.paused_until_ms
    who, why = (mark.who, mark.why) if mark is not None else ("unnamed", "no reason given")
    left_s = (until_ms - tick.now_ms) / 1000
    flips_if = "it is resumed" + (f", or {left_s:.0f} s pass" if until_ms > 0 else "")
    tick.tally.add(
        Verdict("cluster", Reason.PAUSED, (("who", who), ("why", why)), flips_if=flips_if)
    )
    tick.tally.count(Reason.PAUSED, planned)


def _count_frozen(view: ClusterView, tally: VerdictTally) -> None:
    """A broker without fresh load freezes itself only; the log says so for each."""
    for at in np.flatnonzero(view.broker_is_live & ~view.broker_can_shed).tolist():
        tally.add(
            Verdict(
                view.broker_names[at],
                Reason.STALE_LOAD,
                flips_if="it publishes a load report (or its cool-down ends)",
            )
        )


def _statistics(work: Work, view: ClusterView, alive: Liveness) -> RoundStatistics:
    memory = work.state.memory
    able = view.broker_can_shed
    loads = view.broker_load[able]
    mean = float(loads.mean()) if len(loads) else 0.0
    biggest = float(view.bundle_load.max()) if len(view.bundle_load) else 0.0
    return RoundStatistics(
        brokersLive=int(alive.is_live.sum()),
        brokersFrozen=int((view.broker_is_live & ~able).sum()),
        brokersSilent=alive.silent,
        bundles=len(work.state.bundles),
        bundlesOwned=int((view.bundle_owner >= 0).sum()),
        inFlight=sum(is_in_flight(move) for move in memory.moves.values()),
        requests=len(memory.requests),
        loadMean=mean,
        loadMax=float(loads.max()) if len(loads) else 0.0,
        loadMin=float(loads.min()) if len(loads) else 0.0,
        imbalance=float(loads.max()) / mean if mean > 0.0 else 1.0,
        splitFloor=biggest / mean if mean > 0.0 else 0.0,
        loadBound=load_bound(view, able, work.settings.actions.moves_per_round_max),
        loads={view.broker_names[b]: float(view.broker_load[b]) for b in np.flatnonzero(able)},
        hitsLow=max(counts(memory.shed, "low").values(), default=0),
        hitsHigh=max(counts(memory.shed, "high").values(), default=0),
    )
