"""ThresholdShedder: a broker clearly above the average gives away what is above it.

Rules (Pulsar's ThresholdShedder, pulsar.md §3.3):

1. A broker's usage is smoothed by the strategy itself: the first is taken as it is, then
   history_ratio x history + (1 - history_ratio) x load, once a round.
2. A broker at least `margin_points` above the mean usage sheds
   (usage - mean - margin + 0.05) x its throughput, unless that is less than
   `min_unload_throughput`; bundles as in `overload`.
3. Lower boundary, if enabled and nothing was selected: if some broker is more than the margin
   below the mean, the most loaded broker that is above mean - margin and has more than one bundle
   sheds margin / 2 of its throughput (#18215: many equal brokers, one idle).
4. Where bundles go is the place strategy's choice.

Different from Pulsar, on purpose: in a round that looks at the lower boundary usages move once, not
twice; a bundle without traffic is never moved; a silent or cooling broker does not take part.
With `parity` as in Pulsar 4.2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controller.strategies.memory import Memory, numbers
from controller.strategies.params import ThresholdParams
from controller.strategies.protocols import ShedPlan, Transfer
from controller.strategies.shed.offload import EXTRA_RATIO, biggest_until, nothing_to_move
from controller.strategies.verdicts import Reason, Verdict
from controller.strategies.view import ByOwner, ClusterView, Floats

HISTORY = "history"
LOWER_BOUNDARY_RATIO = 0.5


@dataclass(frozen=True, slots=True)
class Usages:
    """Smoothed usages of the brokers that take part (indices of the view), and their mean."""

    brokers: list[int]
    values: list[float]
    mean: float


@dataclass(frozen=True, slots=True)
class ThresholdShed:
    """See the module text."""

    params: ThresholdParams
    parity: bool = False

    def shed(self, view: ClusterView, memory: Memory) -> ShedPlan:
        """One round."""
        history = numbers(memory, HISTORY)
        usages = self._smooth(view, history)
        if usages.mean <= 0.0:
            verdict = Verdict("cluster", Reason.NO_BROKERS, flips_if="a broker reports a load")
            return ShedPlan((), {HISTORY: history}, (verdict,))
        movable = ByOwner(view, view.bundle_is_movable)
        transfers, verdicts = self._above(view, movable, usages)
        if not transfers and self.params.is_lower_boundary_enabled:
            usages = self._smooth(view, history) if self.parity else usages
            transfers, more = self._below(view, movable, usages)
            verdicts += more
        if not transfers and not verdicts:
            verdicts = [self._balanced(view, usages)]
        figures = {"mean": usages.mean, "max": max(usages.values, default=0.0)}
        return ShedPlan(tuple(transfers), {HISTORY: history}, tuple(verdicts), figures=figures)

    def _smooth(self, view: ClusterView, history: dict[str, float]) -> Usages:
        """Moves the history of every broker on by one load, in place."""
        brokers = np.flatnonzero(view.taking_part(self.parity)).tolist()
        ratio = self.params.history_ratio
        values = []
        for broker in brokers:
            name, load = view.broker_names[broker], float(view.broker_load[broker])
            before = history.get(name)
            history[name] = load if before is None else ratio * before + (1 - ratio) * load
            values.append(history[name])
        return Usages(brokers, values, sum(values) / len(values) if values else 0.0)

    def _above(
        self, view: ClusterView, movable: ByOwner, usages: Usages
    ) -> tuple[list[Transfer], list[Verdict]]:
        """Rule 2."""
        margin = self.params.margin_points / 100.0
        transfers: list[Transfer] = []
        verdicts: list[Verdict] = []
        for broker, usage in zip(usages.brokers, usages.values, strict=True):
            if usage < usages.mean + margin:
                continue
            share = usage - usages.mean - margin + EXTRA_RATIO
            amount = float(view.broker_throughput[broker]) * share
            if amount < self.params.min_unload_throughput:
                verdicts.append(self._too_small(view, broker, amount))
                continue
            detail = f"{(usage - usages.mean) * 100:.1f} points above the mean usage"
            bundles = biggest_until(view, movable, broker, amount, self.parity)
            transfers += [Transfer(b, broker, -1, "overloaded", detail) for b in bundles]
            if not bundles:
                verdicts.append(nothing_to_move(view, movable, broker, amount))
        return transfers, verdicts

    def _below(
        self, view: ClusterView, movable: ByOwner, usages: Usages
    ) -> tuple[list[Transfer], list[Verdict]]:
        """Rule 3."""
        margin = self.params.margin_points / 100.0
        if not any(usage < usages.mean - margin for usage in usages.values):
            return [], []
        hottest = self._hottest(view, usages, usages.mean - margin)
        if hottest < 0:
            return [], []
        amount = float(view.broker_throughput[hottest]) * margin * LOWER_BOUNDARY_RATIO
        if amount < self.params.min_unload_throughput:
            return [], [self._too_small(view, hottest, amount)]
        bundles = biggest_until(view, movable, hottest, amount, self.parity)
        if not bundles:
            return [], [nothing_to_move(view, movable, hottest, amount)]
        detail = f"a broker is more than {margin * 100:g} points below the mean usage"
        return [Transfer(b, hottest, -1, "underloaded", detail) for b in bundles], []

    def _hottest(self, view: ClusterView, usages: Usages, above: float) -> int:
        """The broker with the greatest usage above a bound, with more than one bundle; or -1."""
        best, most = -1, above
        for broker, usage in zip(usages.brokers, usages.values, strict=True):
            if usage > most and view.broker_bundles[broker] > 1:
                best, most = broker, usage
        return best

    def _too_small(self, view: ClusterView, broker: int, amount: float) -> Verdict:
        return Verdict(
            view.broker_names[broker],
            Reason.TOO_SMALL,
            (("amount_byte/s", amount),),
            self.params.min_unload_throughput,
            flips_if="the amount reaches min_unload_throughput",
        )

    def _balanced(self, view: ClusterView, usages: Usages) -> Verdict:
        values: Floats = np.array(usages.values)
        hottest = int(values.argmax())
        return Verdict(
            view.broker_names[usages.brokers[hottest]],
            Reason.BALANCED,
            (("usage", float(values[hottest])), ("mean", usages.mean)),
            self.params.margin_points,
            flips_if="its usage is margin_points above the mean",
        )
