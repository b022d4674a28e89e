"""Split by thresholds: a bundle that is too big for long enough is cut.

Rules (pulsar.md §5):

1. A reason is the first of: topics, sessions, message rate, bandwidth, each strictly greater than
   its threshold. Instantaneous form (Pulsar's DefaultNamespaceBundleSplitStrategyImpl): by the
   latest sample. Long-term form (BundleSplitterTask): rate and bandwidth by the long-term averages.
2. Instantaneous form: a bundle acts when its count of consecutive rounds with a reason reaches
   `hit_count`; a round without reason, or the end of the bundle, clears it; at most
   `splits_per_round_max` a round. The long-term form has neither count nor limit.
3. Never with fewer than two topics: one hot topic cannot be split, and the operator is told to add
   partitions instead.
4. A namespace has at most `namespace_bundles_max` bundles, splits of this round included.
5. A bundle beside one that is being split, with which it shares a bound, waits.

Different from Pulsar, on purpose: biggest first, where Pulsar follows the order of a map; only the
same namespace counts in rule 5 (Pulsar: one whose name begins alike); several boundaries are
several children (Pulsar refuses them, #22254); a bundle that nobody owns is not split, however
long an old report of it stands (#25031); excluded, pinned and cooling bundles are left alone.
With `parity` as in Pulsar 4.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from controller.strategies.memory import Memory, counts
from controller.strategies.params import ThresholdSplitParams
from controller.strategies.protocols import Split, SplitPlan
from controller.strategies.split.as_pulsar import HITS, split_as_pulsar
from controller.strategies.split.boundaries import ALGORITHMS
from controller.strategies.split.excess import REASONS, Excess, excess_of
from controller.strategies.verdicts import Reason, Verdict
from controller.strategies.view import ClusterView

PARTITIONS_MAX = 10_000  # of an advice; a threshold of 0 would ask for infinitely many
FAILURES = (Reason.NO_BOUNDARY, Reason.NOT_SPLITTABLE, Reason.UNKNOWN_NAMESPACE)
"""What Pulsar counts as a failure, not as a reason to wait."""


Bound = tuple[int, str, int]


@dataclass(slots=True)
class Round:
    """What one round has done so far."""

    hits: dict[str, int]
    splits: list[Split] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    added: dict[int, int] = field(default_factory=dict)  # bundles by namespace
    bounds: set[Bound] = field(default_factory=set)  # of bundles that are being split now
    failures: int = 0

    def refuse(self, verdict: Verdict) -> None:
        """One bundle that is not split; failures are what Pulsar counts as such."""
        self.verdicts.append(verdict)
        self.failures += verdict.reason in FAILURES


@dataclass(frozen=True, slots=True)
class ThresholdSplit:
    """See the module text."""

    params: ThresholdSplitParams
    is_long_term: bool = False
    parity: bool = False

    def split(self, view: ClusterView, memory: Memory) -> SplitPlan:
        """One round: counts hits of bundles that are too big and splits those that are due."""
        if not self.params.is_enabled:
            return SplitPlan((), {})
        excess = excess_of(view, self.params, self.is_long_term)
        if self.parity:
            return split_as_pulsar(view, memory, self.params, excess, self.is_long_term)
        may = excess.is_over & (view.bundle_owner >= 0) & ~view.bundle_is_excluded
        big = np.flatnonzero(may)
        done = Round(counts(memory, HITS))
        for bundle in np.flatnonzero(view.bundle_is_splitting).tolist():
            done.bounds.update(bounds_of(view, bundle))
        hits: dict[str, int] = {}
        for bundle in view.order(big, excess.times[big]).tolist():
            self._look_at(view, bundle, excess, done, hits)
        kept = {HITS: hits} if hits else {}
        return SplitPlan(tuple(done.splits), kept, tuple(done.verdicts), done.failures)

    def _look_at(
        self, view: ClusterView, bundle: int, excess: Excess, done: Round, hits: dict[str, int]
    ) -> None:
        name = view.bundle_names[bundle]
        reason, times = REASONS[excess.reason[bundle]], float(excess.times[bundle])
        if view.bundle_topics[bundle] < 2:
            done.refuse(_hot_topic(name, reason, times))
            return
        hits[name] = done.hits.get(name, 0) + 1
        verdict = self._refusal(view, bundle, reason, hits[name], done)
        if verdict is not None:
            done.refuse(verdict)
            return
        boundaries = ALGORITHMS[self.params.algorithm](view, bundle, self.params)
        namespace = int(view.bundle_namespace[bundle])
        room = self._room(view, namespace, done)
        if not boundaries:
            done.refuse(_no_boundary(view, bundle, reason, times))
            return
        if len(boundaries) > room:
            flips_if = f"namespace_bundles_max is raised by {len(boundaries) - room}"
            done.refuse(
                Verdict(name, Reason.NAMESPACE_FULL, (("reason", reason),), None, None, flips_if)
            )
            return
        del hits[name]
        done.added[namespace] = done.added.get(namespace, 0) + len(boundaries)
        detail = f"{reason} is {times:.2f} times its threshold"
        done.splits.append(Split(bundle, boundaries, reason, detail))

    def _room(self, view: ClusterView, namespace: int, done: Round) -> int:
        """How many more bundles the namespace may have."""
        have = int(view.namespace_bundles[namespace]) + done.added.get(namespace, 0)
        return self.params.namespace_bundles_max - have

    def _refusal(
        self, view: ClusterView, bundle: int, reason: str, hits: int, done: Round
    ) -> Verdict | None:
        """Why a big bundle is not split in this round; None = it may be."""
        needed = 1 if self.is_long_term else self.params.hit_count
        if hits < needed:
            why = Reason.HIT_COUNT
            flips_if = f"{reason} stays above its threshold for {needed - hits} rounds"
        else:
            found = next(self._obstacles(view, bundle, done), None)
            if found is None:
                return None
            why, flips_if = found
        name = view.bundle_names[bundle]
        return Verdict(name, why, (("reason", reason),), None, hits, flips_if)

    def _obstacles(
        self, view: ClusterView, bundle: int, done: Round
    ) -> Iterator[tuple[Reason, str]]:
        """What speaks against splitting a bundle that is due, the weightiest first."""
        namespace = int(view.bundle_namespace[bundle])
        if view.bundle_is_pinned[bundle]:
            yield Reason.PINNED, "the bundle is unpinned"
        if not view.bundle_is_movable[bundle]:
            yield Reason.COOL_DOWN, "the bundle is neither in flight nor cooling down"
        if view.bundle_upper[bundle] - view.bundle_lower[bundle] <= 1:
            yield Reason.NOT_SPLITTABLE, "the hash range holds more than one hash"
        if view.namespace_bundles[namespace] < 0:
            yield Reason.UNKNOWN_NAMESPACE, "the bundles of the namespace are known"
        if self._room(view, namespace, done) < 1:
            yield Reason.NAMESPACE_FULL, "namespace_bundles_max is raised"
        if done.bounds and not done.bounds.isdisjoint(bounds_of(view, bundle)):
            yield Reason.OVERLAP, "the split of a bundle that shares a bound has ended"
        if not self.is_long_term and len(done.splits) >= self.params.splits_per_round_max:
            yield Reason.ROUND_LIMIT, "fewer bundles are due in the same round"


def bounds_of(view: ClusterView, bundle: int) -> tuple[Bound, Bound]:
    """Where a bundle begins and ends, as (namespace, side, hash)."""
    namespace = int(view.bundle_namespace[bundle])
    lower, upper = int(view.bundle_lower[bundle]), int(view.bundle_upper[bundle])
    return (namespace, "lower", lower), (namespace, "upper", upper)


def _hot_topic(name: str, reason: str, times: float) -> Verdict:
    """As many partitions as bring each below the threshold, and one to spare."""
    count = int(np.ceil(min(times, PARTITIONS_MAX - 1))) + 1
    return Verdict(
        name,
        Reason.HOT_TOPIC,
        (("reason", reason), ("times_threshold", times)),
        flips_if=f"add partitions: {count}; one topic cannot be split",
    )


def _no_boundary(view: ClusterView, bundle: int, reason: str, times: float) -> Verdict:
    """No boundary: one topic carries it all, or nothing is known of the topics."""
    name, loads = view.bundle_names[bundle], view.topics.get(bundle)
    if loads is not None and np.count_nonzero(loads.rates + loads.throughputs) == 1:
        return _hot_topic(name, reason, times)
    flips_if = "topic hashes differ" if loads is not None else "reports say which topics it has"
    return Verdict(name, Reason.NO_BOUNDARY, (("reason", reason),), flips_if=flips_if)
