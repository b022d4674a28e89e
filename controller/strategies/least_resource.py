"""LeastResourceUsageWithWeight: a bundle goes to a broker that is clearly below the average.

Rules (pulsar.md §4.3 and the topic cap of §4.1):

1. Candidates are live brokers whose load is known; if there is none, all live brokers.
2. A broker whose topics, with those given to it in this call, reach `broker_topics_max` is left
   out, unless that leaves nobody.
3. Best are the brokers whose smoothed load is at least `difference_points` below the average;
   of the best (or of all, if there is none) the least loaded is taken, then the one with the
   fewest bundles, then the first by name. The least loaded broker is always among the best, so
   the choice needs no average; Pulsar draws at random from the best, which cannot be replayed.

Loads count bundles that were given away in the same call (preallocation): many bundles placed
at once spread out. A bundle whose load is unknown counts as an average one.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from controller.strategies.params import LeastResourceParams
from controller.strategies.protocols import PlacePlan
from controller.strategies.verdicts import Reason, Verdict
from controller.strategies.view import ClusterView, Ints

MIN_BUNDLE_LOAD = 0.001
"""Assumed load ratio of a bundle when no bundle has any: enough to spread a cold start."""


@dataclass(frozen=True, slots=True)
class LeastResourcePlace:
    """See the module text."""

    params: LeastResourceParams

    def place(self, view: ClusterView, bundles: Ints) -> PlacePlan:
        """Chooses a broker for each bundle, O(log m) each."""
        able = view.broker_is_live & view.broker_can_shed
        if not able.any():
            able = view.broker_is_live
        heap = [
            (float(view.broker_load_ema[b]), int(view.broker_bundles[b]), int(b))
            for b in np.flatnonzero(able)
        ]
        heapq.heapify(heap)
        topics = view.broker_topics.tolist()
        expected = _expected_loads(view, bundles)
        chosen: list[int] = []
        verdicts: list[Verdict] = []
        for bundle, load in zip(bundles.tolist(), expected, strict=True):
            broker = self._pop(heap, topics, int(view.bundle_topics[bundle]), load, view, bundle)
            chosen.append(broker)
            if broker < 0:
                verdicts.append(
                    Verdict(
                        view.bundle_names[bundle],
                        Reason.NO_BROKERS,
                        flips_if="a live broker reports",
                    )
                )
        return PlacePlan(tuple(chosen), tuple(verdicts))

    def _pop(
        self,
        heap: list[tuple[float, int, int]],
        topics: list[int],
        bundle_topics: int,
        load: float,
        view: ClusterView,
        bundle: int,
    ) -> int:
        """The least loaded broker that is not full and not the one the bundle must not rejoin."""
        passed: list[tuple[float, int, int]] = []
        pick: tuple[float, int, int] | None = None
        while heap and pick is None:
            entry = heapq.heappop(heap)
            full = topics[entry[2]] >= self.params.broker_topics_max
            if full or entry[2] == int(view.bundle_left[bundle]):
                passed.append(entry)
            else:
                pick = entry
        if pick is None and passed:
            pick = passed.pop(0)
        for entry in passed:
            heapq.heappush(heap, entry)
        if pick is None:
            return -1
        heapq.heappush(heap, (pick[0] + load, pick[1] + 1, pick[2]))
        topics[pick[2]] += bundle_topics
        return pick[2]


def _expected_loads(view: ClusterView, bundles: Ints) -> list[float]:
    """Load each bundle will add: its attributed load, or an average one where unknown."""
    known = view.bundle_load[view.bundle_load > 0.0]
    usual = max(float(known.mean()) if len(known) else 0.0, MIN_BUNDLE_LOAD)
    loads = view.bundle_load[bundles]
    return np.where(loads > 0.0, loads, usual).tolist()
