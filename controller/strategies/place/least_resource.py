"""Least loaded broker: LeastResourceUsageWithWeight without its draw, and the default.

Rules (pulsar.md §4.3 and the topic cap of §4.1):

1. Candidates are live brokers whose load is known; if there is none, all live brokers.
2. A broker whose topics, with those given to it since it reported, reach `broker_topics_max` is
   left out, and so is the broker that the bundle must not return to; unless nobody else is left.
3. The least loaded by smoothed load is taken, then the one with the fewest bundles, then the
   first by name. Pulsar draws at random from the brokers that are so many points below the
   average (or from all, if there is none), which cannot be replayed; the least loaded broker is
   always among them, so the choice needs neither the average nor the points.

A pinned bundle goes to its broker without any of this. Loads count bundles that were given away
before (preallocation): many bundles placed at once spread out. A bundle whose load is unknown
counts as an average one.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from controller.strategies.memory import Memory
from controller.strategies.params import LeastResourceParams
from controller.strategies.place.booking import usual_load
from controller.strategies.protocols import Choice, ShedPlan, Unowned
from controller.strategies.verdicts import Reason, Verdict
from controller.strategies.view import ClusterView

Entry = tuple[float, int, int]
"""(smoothed load, bundles, broker index): ordered as rule 3 wants it."""


@dataclass(frozen=True, slots=True)
class LeastResourcePlace:
    """See the module text."""

    params: LeastResourceParams

    def begin(self, view: ClusterView, memory: Memory) -> LeastResourcePlacement:
        """A heap of the candidates; each choice is O(log m). Nothing is remembered."""
        able = view.broker_can_shed
        if not able.any():
            able = view.broker_is_live
        heap: list[Entry] = [
            (float(view.broker_load_ema[b]), int(view.broker_bundles[b]), b)
            for b in np.flatnonzero(able).tolist()
        ]
        heapq.heapify(heap)
        usual = usual_load(view)
        topics = view.broker_topics.tolist()
        return LeastResourcePlacement(self.params.broker_topics_max, heap, topics, usual)

    def after_shed(self, view: ClusterView, plan: ShedPlan, memory: Memory) -> Memory:
        """Nothing is remembered."""
        return {}


@dataclass(slots=True)
class LeastResourcePlacement:
    """One placing; mutable, never kept between steps."""

    topics_max: int
    heap: list[Entry]
    topics: list[int]  # by broker index
    usual_load: float  # of a bundle of which nothing is known

    @property
    def memory(self) -> Memory:
        """Nothing is remembered."""
        return {}

    def choose(self, bundle: Unowned) -> Choice:
        """The least loaded broker that may have it."""
        load = bundle.load if bundle.load > 0.0 else self.usual_load
        if bundle.pinned >= 0:
            return self._pinned(bundle, load)
        pick = self._pop(bundle)
        if pick is None:
            verdict = Verdict(bundle.name, Reason.NO_BROKERS, flips_if="a live broker reports")
            return Choice(-1, 0.0, verdict)
        heapq.heappush(self.heap, (pick[0] + load, pick[1] + 1, pick[2]))
        self.topics[pick[2]] += bundle.topics
        return Choice(pick[2], load)

    def _pinned(self, bundle: Unowned, load: float) -> Choice:
        """Books on a named broker, which is no candidate if its load is not known."""
        for at, entry in enumerate(self.heap):
            if entry[2] == bundle.pinned:
                self.heap[at] = (entry[0] + load, entry[1] + 1, entry[2])
                heapq.heapify(self.heap)
                break
        self.topics[bundle.pinned] += bundle.topics
        return Choice(bundle.pinned, load)

    def _pop(self, bundle: Unowned) -> Entry | None:
        passed: list[Entry] = []
        barred: list[Entry] = []
        pick: Entry | None = None
        while self.heap and pick is None:
            entry = heapq.heappop(self.heap)
            if self._is_barred(entry[2], bundle):
                barred.append(entry)
            elif self.topics[entry[2]] >= self.topics_max or entry[2] == bundle.avoid:
                passed.append(entry)
            else:
                pick = entry
        if pick is None and passed:
            pick = passed.pop(0)
        passed += barred
        for entry in passed:
            heapq.heappush(self.heap, entry)
        return pick

    def _is_barred(self, broker: int, bundle: Unowned) -> bool:
        """True if the rules of the cluster keep the bundle from the broker."""
        return bundle.candidates is not None and broker not in bundle.candidates
