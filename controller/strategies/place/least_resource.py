"""Least loaded broker: LeastResourceUsageWithWeight without its draw, and the default.

Rules (pulsar.md §4.3 and the topic cap of §4.1):

1. Candidates are live brokers whose load is known; if there is none, all live brokers. Of those,
   the ones that the rules of the cluster leave; if that is nobody, live ones without a load.
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
from controller.strategies.view import Bools, ClusterView

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
        heap = _entries(view, able)
        heapq.heapify(heap)
        spare = _entries(view, view.broker_is_live & ~able)
        usual = usual_load(view)
        topics = view.broker_topics.tolist()
        return LeastResourcePlacement(self.params.broker_topics_max, heap, spare, topics, usual)

    def after_shed(self, view: ClusterView, plan: ShedPlan, memory: Memory) -> Memory:
        """Nothing is remembered."""
        return {}


@dataclass(slots=True)
class LeastResourcePlacement:
    """One placing; mutable, never kept between steps."""

    topics_max: int
    heap: list[Entry]
    spare: list[Entry]  # live brokers of which no load is known, while others have one
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
        if pick is not None:
            heapq.heappush(self.heap, (pick[0] + load, pick[1] + 1, pick[2]))
        else:
            pick = self._spared(bundle, load)
        if pick is None:
            verdict = Verdict(bundle.name, Reason.NO_BROKERS, flips_if="a live broker reports")
            return Choice(-1, 0.0, verdict)
        self.topics[pick[2]] += bundle.topics
        return Choice(pick[2], load)

    def _spared(self, bundle: Unowned, load: float) -> Entry | None:
        """Books on a candidate whose load is not known, if there are candidates at all."""
        if bundle.candidates is None:
            return None
        wanted = set(bundle.candidates.tolist())
        found = [entry for entry in self.spare if entry[2] in wanted]
        pick = min(found, key=lambda one: (one[2] == bundle.avoid, one), default=None)
        if pick is not None:
            self.spare.remove(pick)
            self.spare.append((pick[0] + load, pick[1] + 1, pick[2]))
        return pick

    def _pinned(self, bundle: Unowned, load: float) -> Choice:
        """Books on a named broker, whether its load is known or not."""
        for entries in (self.heap, self.spare):
            for at, entry in enumerate(entries):
                if entry[2] == bundle.pinned:
                    entries[at] = (entry[0] + load, entry[1] + 1, entry[2])
        heapq.heapify(self.heap)
        self.topics[bundle.pinned] += bundle.topics
        return Choice(bundle.pinned, load)

    def _pop(self, bundle: Unowned) -> Entry | None:
        wanted = None if bundle.candidates is None else set(bundle.candidates.tolist())
        passed: list[Entry] = []
        barred: list[Entry] = []
        pick: Entry | None = None
        while self.heap and pick is None:
            entry = heapq.heappop(self.heap)
            if wanted is not None and entry[2] not in wanted:
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


def _entries(view: ClusterView, which: Bools) -> list[Entry]:
    return [
        (float(view.broker_load_ema[b]), int(view.broker_bundles[b]), b)
        for b in np.flatnonzero(which).tolist()
    ]
