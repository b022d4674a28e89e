"""AvgShedder: pairs the hottest broker with the coldest, the second with the second, and so on.

Rules (Pulsar's AvgShedder, PIP-364; pulsar.md §3.5):

1. The score of a broker is its load ratio in points, in-flight moves applied.
2. A pair whose difference is at least the low threshold counts a low hit for both brokers, and
   a high hit if it is at least the high threshold; a smaller difference clears both. Counts
   belong to brokers, not to pairs: a broker may act with another partner.
3. A pair acts when any of its four counts reaches its limit; then all four are cleared.
4. Half (`max_unload_ratio`) of the difference in message rate is moved, or of the difference in
   throughput where the rate is too small to matter; bundles by size, biggest first, each that
   still fits.

Different from Pulsar, on purpose: the destination travels with the decision instead of being
remembered by a mutable key (#26246); counts of brokers that are gone are dropped; a silent or
cooling broker is left out of the pairing, and its counts are kept; where the capacities of a pair
differ, the amount is worked out from the load ratios, because the hotter broker may well have the
smaller traffic (PIP-364 asks for the loads to meet, and stalls there); bundles that the rules of
the cluster keep off the destination are passed over. With `parity` all is as in Pulsar 4.2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controller.strategies.memory import Memory, counts
from controller.strategies.params import AvgParams
from controller.strategies.protocols import ShedPlan, Transfer
from controller.strategies.verdicts import Reason, Verdict
from controller.strategies.view import ByOwner, ClusterView, Floats

Hits = dict[str, int]


@dataclass(frozen=True, slots=True)
class AvgShed:
    """See the module text."""

    params: AvgParams
    parity: bool = False

    def shed(self, view: ClusterView, memory: Memory) -> ShedPlan:
        """One round: counts hits for every pair and moves load in the pairs that act."""
        low, high = self._hits(view, memory)
        pairs = self._pairs(view)
        wide = [pair for pair in pairs if self._count(view, pair, low, high)]
        if not wide:
            kept = {} if self.parity else _kept(view, low, high)
            return ShedPlan((), kept, _balanced(view, pairs, self.params))
        transfers: list[Transfer] = []
        verdicts: list[Verdict] = []
        movable: ByOwner | None = None
        for cold, hot in wide:
            if not self._triggers(view, cold, hot, low, high):
                verdicts.append(self._waits(view, cold, hot, low, high))
                continue
            for broker in (view.broker_names[cold], view.broker_names[hot]):
                low.pop(broker, None)
                high.pop(broker, None)
            movable = movable or ByOwner(view, view.bundle_is_movable)
            moved, refusals = self._unload(view, movable, cold, hot)
            transfers += moved
            verdicts += refusals
        return ShedPlan(tuple(transfers), {"high": high, "low": low}, tuple(verdicts))

    def _hits(self, view: ClusterView, memory: Memory) -> tuple[Hits, Hits]:
        """Low and high counts; of brokers that are still there, unless Pulsar is to be equalled."""
        low, high = counts(memory, "low"), counts(memory, "high")
        if self.parity:
            return low, high
        names = set(view.broker_names)
        return (
            {b: n for b, n in low.items() if b in names},
            {b: n for b, n in high.items() if b in names},
        )

    def _pairs(self, view: ClusterView) -> list[tuple[int, int]]:
        """(coldest, hottest), (second, second last), ...; an odd middle broker meets itself."""
        able = np.flatnonzero(view.taking_part(self.parity))
        ranked = able[np.lexsort((able, view.broker_load[able]))].tolist()
        return [(ranked[i], ranked[-1 - i]) for i in range((len(ranked) + 1) // 2)]

    def _count(self, view: ClusterView, pair: tuple[int, int], low: Hits, high: Hits) -> bool:
        """Counts the hits of one pair; True if the pair is a candidate (low threshold met)."""
        difference = _difference(view, *pair)
        for broker in (view.broker_names[pair[0]], view.broker_names[pair[1]]):
            if difference < self.params.low_threshold_points:
                low.pop(broker, None)
            else:
                low[broker] = low.get(broker, 0) + 1
            if difference < self.params.high_threshold_points:
                high.pop(broker, None)
            else:
                high[broker] = high.get(broker, 0) + 1
        return difference >= self.params.low_threshold_points

    def _triggers(self, view: ClusterView, cold: int, hot: int, low: Hits, high: Hits) -> bool:
        names = (view.broker_names[cold], view.broker_names[hot])
        return any(
            high.get(name, 0) >= self.params.hit_count_high
            or low.get(name, 0) >= self.params.hit_count_low
            for name in names
        )

    def _waits(self, view: ClusterView, cold: int, hot: int, low: Hits, high: Hits) -> Verdict:
        names = (view.broker_names[cold], view.broker_names[hot])
        low_hits = max(low.get(name, 0) for name in names)
        high_hits = max(high.get(name, 0) for name in names)
        left = self.params.hit_count_low - low_hits
        if high_hits:
            left = min(left, self.params.hit_count_high - high_hits)
        return Verdict(
            view.broker_names[hot],
            Reason.HIT_COUNT,
            (("difference_points", _difference(view, cold, hot)), ("partner", names[0])),
            self.params.low_threshold_points,
            low_hits,
            f"the difference stays for {left} more rounds",
        )

    def _unload(
        self, view: ClusterView, movable: ByOwner, cold: int, hot: int
    ) -> tuple[list[Transfer], list[Verdict]]:
        """Moves the share of the difference that the settings allow, biggest bundles first."""
        amount, sizes, unit = self._amount(view, cold, hot)
        if amount <= 0.0:
            return [], [self._too_small(view, cold, hot)]
        own = movable.of(hot)
        bundles = view.order(own, sizes[own])
        taken: list[Transfer] = []
        returning = barred = 0
        left = amount
        detail = (
            f"{view.broker_names[hot]} is {_difference(view, cold, hot):.1f} points above "
            f"{view.broker_names[cold]}"
        )
        for bundle, size in zip(bundles.tolist(), sizes[bundles].tolist(), strict=True):
            if not 0.0 < size <= left:
                continue
            if view.bundle_left[bundle] == cold:
                returning += 1
                continue
            if not self.parity and not view.may_go(bundle, cold):
                barred += 1
                continue
            left -= size
            taken.append(Transfer(bundle, hot, cold, "overloaded", detail))
        if taken:
            return taken, []
        if barred and barred + returning == len(bundles):
            return [], [_barred(view, hot, cold, barred)]
        return [], [_nothing_fits(view, hot, len(bundles), returning, amount, unit)]

    def _amount(self, view: ClusterView, cold: int, hot: int) -> tuple[float, Floats, str]:
        """What to move: (amount, size of each bundle in the same unit, unit); 0 = too little."""
        rate = self._gap(view, view.broker_rate, cold, hot)
        if rate > self.params.min_unload_rate:
            return rate, view.bundle_rate, "msg/s"
        throughput = self._gap(view, view.broker_throughput, cold, hot)
        if throughput > self.params.min_unload_throughput:
            return throughput, view.bundle_throughput, "byte/s"
        return 0.0, view.bundle_rate, "msg/s"

    def _gap(self, view: ClusterView, traffic: Floats, cold: int, hot: int) -> float:
        """Traffic to move from hot to cold: the allowed share of the difference.

        With equal capacities Pulsar's: traffic(hot) - traffic(cold). Else a message costs the cold
        broker capacity(hot) / capacity(cold) times as much load as the hot one, and x messages
        change the difference of the loads by cost(hot) * x + cost(cold) * x; half of the
        difference, doubled share, keeps the meaning of `max_unload_ratio`.
        """
        ratio = self.params.max_unload_ratio
        have, get = float(view.broker_capacity[hot]), float(view.broker_capacity[cold])
        if self.parity or have == get or have <= 0.0 or get <= 0.0:
            return float(traffic[hot] - traffic[cold]) * ratio
        load = float(view.broker_load[hot])
        if load <= 0.0 or traffic[hot] <= 0.0:
            return 0.0
        cost = load / float(traffic[hot])
        difference = load - float(view.broker_load[cold])
        return 2.0 * ratio * difference / (cost + cost * have / get)

    def _too_small(self, view: ClusterView, cold: int, hot: int) -> Verdict:
        rate = float(view.broker_rate[hot] - view.broker_rate[cold])
        return Verdict(
            view.broker_names[hot],
            Reason.TOO_SMALL,
            (("rate_difference", rate), ("partner", view.broker_names[cold])),
            self.params.min_unload_rate,
            flips_if="the pair differs by more than min_unload_rate or min_unload_throughput",
        )


def _difference(view: ClusterView, cold: int, hot: int) -> float:
    """In points. Scores are rounded before they are subtracted, as Pulsar's: 60 - 45 is 15."""
    return float(view.broker_load[hot] * 100.0 - view.broker_load[cold] * 100.0)


def _kept(view: ClusterView, low: Hits, high: Hits) -> Memory:
    """No candidate pair clears all counts (rule 2) but those of brokers that took no part."""
    able = {n for n, can in zip(view.broker_names, view.broker_can_shed, strict=True) if can}
    return {
        "high": {b: n for b, n in high.items() if b not in able},
        "low": {b: n for b, n in low.items() if b not in able},
    }


def _balanced(
    view: ClusterView, pairs: list[tuple[int, int]], params: AvgParams
) -> tuple[Verdict, ...]:
    if not pairs or pairs[0][0] == pairs[0][1]:
        return (Verdict("cluster", Reason.NO_BROKERS, flips_if="two brokers report their load"),)
    cold, hot = pairs[0]
    return (
        Verdict(
            view.broker_names[hot],
            Reason.BALANCED,
            (
                ("difference_points", _difference(view, cold, hot)),
                ("partner", view.broker_names[cold]),
            ),
            params.low_threshold_points,
            flips_if="the difference reaches low_threshold_points",
        ),
    )


def _barred(view: ClusterView, hot: int, cold: int, bundles: int) -> Verdict:
    return Verdict(
        view.broker_names[hot],
        Reason.FILTERED,
        (("candidates", float(bundles)), ("partner", view.broker_names[cold])),
        flips_if="the rules of the cluster let one of its bundles go to the partner",
    )


def _nothing_fits(
    view: ClusterView, hot: int, candidates: int, returning: int, amount: float, unit: str
) -> Verdict:
    reason = Reason.DOES_NOT_FIT if candidates else Reason.NO_BUNDLES
    if candidates and returning == candidates:
        reason = Reason.NO_RETURN
    return Verdict(
        view.broker_names[hot],
        reason,
        (("candidates", float(candidates)), (f"amount_{unit}", amount)),
        flips_if="a bundle with load, smaller than the amount, becomes movable",
    )
