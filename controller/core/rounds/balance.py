"""The part of a round that asks the strategies: splits first, then what is shed.

Strategies look in every mode, for the log; they remember and act only in `act`. What a strategy
remembers belongs to it: another one, chosen while the job runs, begins afresh.
"""

from __future__ import annotations

from controller.core.rounds.answers import Desk, choose, open_desk, tell
from controller.core.rounds.budget import Budget
from controller.core.rounds.decide import Wish, write_split, write_unload
from controller.core.view.build import Liveness
from controller.core.work import Work
from controller.strategies.filters import Pipeline
from controller.strategies.memory import Memory, only
from controller.strategies.protocols import PLACED, ShedPlan, SplitPlan, Transfer
from controller.strategies.registry import place_strategy, shed_strategy, split_strategy
from controller.strategies.verdicts import Reason, Verdict, VerdictTally
from controller.strategies.view import ClusterView
from controller.wire.decisions import DecisionEntry


def plan_splits(work: Work, view: ClusterView) -> SplitPlan:
    """What the split strategy in use wants."""
    settings, memory = work.settings, work.state.memory
    return split_strategy(settings).split(view, memory.remembered("split", settings.split))


def plan_shed(work: Work, view: ClusterView, alive: Liveness) -> ShedPlan:
    """What the shed strategy in use wants; nothing while shedding is switched off."""
    settings = work.settings
    remembered: Memory = work.state.memory.remembered("shed", settings.shed)
    if not settings.is_shed_enabled:
        verdict = Verdict("cluster", Reason.SWITCHED_OFF, flips_if="is_shed_enabled is true")
        return ShedPlan((), remembered, (verdict,))
    names = work.state.brokers.names
    left = {name for name, gone in zip(names, alive.is_gone.tolist(), strict=True) if not gone}
    if not settings.parity or settings.shed != "avg":  # Pulsar's avg keeps counts of the dead
        remembered = only(remembered, left)
    return shed_strategy(settings).shed(view, remembered)


def remember(work: Work, view: ClusterView, splits: SplitPlan, shed: ShedPlan) -> None:
    """Keeps the memories of a round that may act."""
    settings, memory = work.settings, work.state.memory
    memory.remember("split", settings.split, splits.memory)
    memory.remember("shed", settings.shed, shed.memory)
    placed: Memory = memory.remembered("place", settings.place)
    after = place_strategy(settings).after_shed(view, shed, placed)
    memory.remember("place", settings.place, after)


def carry_out_splits(
    work: Work, view: ClusterView, plan: SplitPlan, now_ms: int, budget: Budget, tally: VerdictTally
) -> tuple[list[DecisionEntry], set[int]]:
    """Writes the splits that the budget allows; also the bundles that they concern."""
    decisions, splitting = [], set()
    for split in plan.splits:
        name = view.bundle_names[split.bundle]
        owner = int(view.bundle_owner[split.bundle])
        if owner < 0 or not view.bundle_is_settled[split.bundle]:
            tally.add(Verdict(name, Reason.COOL_DOWN, flips_if="it is owned and not in flight"))
            continue
        if not split.boundaries:
            flips_if = "its topics are known, or the algorithm is another one"
            tally.add(Verdict(name, Reason.NO_BOUNDARY, flips_if=flips_if))
            continue
        if not budget.takes((view.broker_names[owner],)):
            tally.add(Verdict(name, Reason.ROUND_LIMIT, flips_if="less is in flight"))
            continue
        splitting.add(split.bundle)
        wish = Wish("split", name, None, None, split.reason, split.detail, split.boundaries)
        decisions.append(write_split(work, wish, now_ms))
    return decisions, splitting


class Mover:
    """Carries out the transfers of a round; asks the placement where a strategy leaves it open."""

    def __init__(self, work: Work, view: ClusterView, alive: Liveness, now_ms: int) -> None:
        self.work = work
        self.view = view
        self.alive = alive
        self.now_ms = now_ms
        self.desk: Desk | None = None
        self.load = view.broker_load.copy()  # with what this round moves
        self.rules = view.filter if isinstance(view.filter, Pipeline) else None

    def carry_out(
        self, transfer: Transfer, budget: Budget, tally: VerdictTally
    ) -> DecisionEntry | None:
        """Writes one transfer or unload; None, with a verdict, if it cannot be now."""
        view, name = self.view, self.view.bundle_names[transfer.bundle]
        if not view.bundle_is_settled[transfer.bundle]:
            tally.add(Verdict(name, Reason.COOL_DOWN, flips_if="it is owned and not in flight"))
            return None
        source, to = view.broker_names[transfer.source], transfer.destination
        if not budget.has_room(source):
            tally.add(Verdict(name, Reason.ROUND_LIMIT, flips_if="less is in flight"))
            return None
        if to == PLACED:
            to = self._place(transfer, tally)
            if to < 0:
                return None
        elif self.rules is not None:
            no = self.rules.refusal(transfer.bundle, transfer.source, to)
            if no is not None:
                tally.add(no)
                return None
        named = (view.broker_names[to],) if to >= 0 else ()
        if not budget.takes((source, *named)):
            tally.add(Verdict(name, Reason.ROUND_LIMIT, flips_if="less is in flight"))
            return None
        wish = self._wish(transfer, to)
        self.load[transfer.source] -= wish.load[0]
        if to >= 0:
            self.load[to] += wish.load[1]
            self._book(transfer.bundle, to)
        return write_unload(self.work, wish, self.now_ms)

    def _place(self, transfer: Transfer, tally: VerdictTally) -> int:
        """The placement's choice for a bundle that leaves its broker; -1 with a verdict if none."""
        name = self.view.bundle_names[transfer.bundle]
        self.desk = self.desk or open_desk(self.work, self.now_ms, self.alive)
        choice = choose(self.work, self.desk, name, leaves=transfer.source)
        tell(choice, name, tally)
        if choice.broker < 0:
            return -1
        if choice.broker == transfer.source:
            flips_if = "the placement prefers another broker"
            tally.add(Verdict(name, Reason.SAME_BROKER, flips_if=flips_if))
            return -1
        if not self.work.settings.parity and self._worsens(transfer, choice.broker):
            flips_if = "the destination would stay below the load of its present broker"
            tally.add(Verdict(name, Reason.WORSENS, flips_if=flips_if))
            return -1
        return choice.broker

    def _book(self, bundle: int, to: int) -> None:
        """Counts a bundle where it goes, for the rules that count bundles."""
        for rules in (self.rules, self.desk.rules if self.desk else None):
            if rules is not None:
                rules.book(self.view.bundle_names[bundle], bundle, to)

    def _worsens(self, transfer: Transfer, to: int) -> bool:
        """True if the destination would be more loaded than the source is before the move."""
        gain = self._loads(transfer, to)[1]
        return bool(self.load[to] + gain > self.load[transfer.source])

    def _wish(self, transfer: Transfer, to: int) -> Wish:
        view = self.view
        return Wish(
            "transfer" if to >= 0 else "unload",
            view.bundle_names[transfer.bundle],
            view.broker_names[transfer.source],
            view.broker_names[to] if to >= 0 else None,
            transfer.reason,
            transfer.detail,
            load=self._loads(transfer, to),
        )

    def _loads(self, transfer: Transfer, to: int) -> tuple[float, float]:
        """What the source loses and the destination gains: scaled by the capacities, if known."""
        load = float(self.view.bundle_load[transfer.bundle])
        have = float(self.view.broker_capacity[transfer.source])
        get = float(self.view.broker_capacity[to]) if to >= 0 else 0.0
        return load, load * have / get if have > 0.0 and get > 0.0 else load
