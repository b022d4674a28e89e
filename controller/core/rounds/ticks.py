"""Ticks: upkeep at each of them, and a balancing round at every tick that ends an interval.

Called by `step` when the log's time passes a tick by `settle_ms`. A tick's own time is the time
it was due, so a tick that is made up for later decides as it would have then. Upkeep repairs
orphans and answers waiting requests; a round does that, then splits and sheds, and says why not.
"""

from __future__ import annotations

import numpy as np

from controller.core.rounds.answers import assign_waiting, is_warm, open_desk
from controller.core.rounds.decide import Wish, write_split, write_unload
from controller.core.rounds.log import answer_tally, log_round
from controller.core.rounds.repair import find_orphans, repair
from controller.core.state.tables import ASSIGNING, INIT, RELEASING, SPLITTING
from controller.core.view.bound import load_bound
from controller.core.view.build import Liveness, build_view, is_in_flight, is_settled, liveness
from controller.core.work import Work
from controller.strategies.protocols import Transfer
from controller.strategies.registry import shed_strategy, split_strategy
from controller.strategies.verdicts import Reason, Verdict, VerdictTally
from controller.strategies.view import ClusterView
from controller.wire.decisions import DecisionEntry, RoundStatistics


def run_tick(work: Work, tick_ms: int) -> None:
    """Runs upkeep, and the round if one is due at this tick."""
    now_ms = tick_ms + work.settings.rounds.settle_ms
    work.flush()
    work.desk = None
    tally = VerdictTally(work.settings.log.verdicts_top)
    alive = liveness(work, now_ms)
    if alive.is_safe_mode:
        work.state.memory.grace_ms = now_ms
    mode = _mode(work, now_ms, alive)
    decisions = _upkeep(work, now_ms, mode, alive, tally)
    if tick_ms % work.settings.rounds.interval_ms == 0:
        _round(work, tick_ms, now_ms, mode, alive, decisions, tally)
    elif decisions:
        answer_tally(work, now_ms, decisions, tally)


def _upkeep(
    work: Work, now_ms: int, mode: str, alive: Liveness, tally: VerdictTally
) -> list[DecisionEntry]:
    """Repairs what is orphaned or stuck and answers requests that had to wait."""
    _expire(work, now_ms, alive, tally)
    orphans = find_orphans(work, now_ms, alive)
    if mode == "safe_mode" and len(orphans):
        tally.count(Reason.SAFE_MODE, len(orphans))
        orphans = orphans[:0]
    idle = not len(orphans) and not work.state.memory.requests
    if idle or mode == "warm_up" or not alive.is_live.any():
        return []
    desk = open_desk(work, now_ms, alive)
    decisions = repair(work, desk, orphans, now_ms, alive, tally)
    assigned, refused = assign_waiting(work, desk, now_ms)
    tally.extend(tuple(refused))
    return decisions + assigned


def _round(
    work: Work,
    tick_ms: int,
    now_ms: int,
    mode: str,
    alive: Liveness,
    decisions: list[DecisionEntry],
    tally: VerdictTally,
) -> None:
    work.state.memory.round_number += 1
    view, _ = build_view(work, now_ms, alive)
    statistics = _statistics(work, view, alive)
    decisions += _split_and_shed(work, view, mode, now_ms, tally)
    log_round(work, tick_ms, mode, statistics, decisions, tally)


def _mode(work: Work, now_ms: int, alive: Liveness) -> str:
    memory = work.state.memory
    if not is_warm(work, now_ms):
        return "warm_up"
    if 0 < memory.paused_until_ms <= now_ms:
        memory.paused_until_ms = 0  # pauses end by themselves
    if memory.paused_until_ms:
        return "paused"
    return "safe_mode" if alive.is_safe_mode else "act"


def _expire(work: Work, now_ms: int, alive: Liveness, tally: VerdictTally) -> None:
    """Forgets moves that are settled or never came back.

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
            bundles.remove(name)


def _split_and_shed(
    work: Work, view: ClusterView, mode: str, now_ms: int, tally: VerdictTally
) -> list[DecisionEntry]:
    """Strategies look in every mode, for the log; hits count and writes happen only in `act`."""
    memory, settings = work.state.memory, work.settings
    split_plan = split_strategy(settings).split(view, memory.hits_split)
    shed_plan = shed_strategy(settings).shed(view, memory.hits_shed)
    tally.extend(split_plan.verdicts)
    tally.extend(shed_plan.verdicts)
    _count_frozen(view, tally)
    planned = len(split_plan.splits) + len(shed_plan.transfers)
    if mode != "act":
        reason = {"warm_up": Reason.WARM_UP, "paused": Reason.PAUSED}.get(mode, Reason.SAFE_MODE)
        tally.count(reason, planned)
        return []
    memory.hits_split = {kind: dict(hits) for kind, hits in split_plan.memory.items()}
    memory.hits_shed = {kind: dict(hits) for kind, hits in shed_plan.memory.items()}
    budget = Budget(work)
    decisions = []
    splitting = set()
    for split in split_plan.splits:
        name = view.bundle_names[split.bundle]
        if not budget.takes(name, (view.broker_names[int(view.bundle_owner[split.bundle])],)):
            tally.add(Verdict(name, Reason.ROUND_LIMIT, flips_if="less is in flight"))
            continue
        splitting.add(split.bundle)
        wish = Wish("split", name, None, None, split.reason, split.detail, split.boundaries)
        decisions.append(write_split(work, wish, now_ms))
    for transfer in shed_plan.transfers:
        name = view.bundle_names[transfer.bundle]
        pair = (view.broker_names[transfer.source], view.broker_names[transfer.destination])
        if transfer.bundle in splitting or not budget.takes(name, pair):
            tally.add(Verdict(name, Reason.ROUND_LIMIT, flips_if="less is in flight"))
            continue
        decisions.append(write_unload(work, _wish(view, transfer), now_ms))
    return decisions


def _wish(view: ClusterView, transfer: Transfer) -> Wish:
    """The load that the destination gains is scaled by the capacities, where both are known."""
    load = float(view.bundle_load[transfer.bundle])
    have = float(view.broker_capacity[transfer.source])
    get = float(view.broker_capacity[transfer.destination])
    gain = load * have / get if have > 0.0 and get > 0.0 else load
    return Wish(
        "transfer",
        view.bundle_names[transfer.bundle],
        view.broker_names[transfer.source],
        view.broker_names[transfer.destination],
        transfer.reason,
        transfer.detail,
        load=(load, gain),
    )


class Budget:
    """Moves that one round may still begin: per round, in flight in total, and per broker."""

    def __init__(self, work: Work) -> None:
        self.actions = work.settings.actions
        self.begun = 0
        self.in_flight = 0
        self.per_broker: dict[str, int] = {}
        for move in work.state.memory.moves.values():
            if is_in_flight(move) and move.kind in ("transfer", "unload", "split"):
                self._book((move.source, move.destination))

    def takes(self, bundle: str, brokers: tuple[str, ...]) -> bool:
        """Books one more move if every limit allows it."""
        per_broker_max = self.actions.in_flight_per_broker_max
        if (
            self.begun >= self.actions.moves_per_round_max
            or self.in_flight >= self.actions.in_flight_max
            or any(self.per_broker.get(broker, 0) >= per_broker_max for broker in brokers)
        ):
            return False
        self.begun += 1
        self._book(brokers)
        return True

    def _book(self, brokers: tuple[str | None, ...]) -> None:
        self.in_flight += 1
        for broker in brokers:
            if broker is not None:
                self.per_broker[broker] = self.per_broker.get(broker, 0) + 1


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
        brokersLive=int(view.broker_is_live.sum()),
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
        hitsLow=max(memory.hits_shed.get("low", {}).values(), default=0),
        hitsHigh=max(memory.hits_shed.get("high", {}).values(), default=0),
    )
