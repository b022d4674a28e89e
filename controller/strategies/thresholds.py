"""Split by thresholds: a bundle too big for `hit_count` rounds in a row is cut in two.

Rules (Pulsar's DefaultNamespaceBundleSplitStrategyImpl, pulsar.md §5.2):

1. A reason is the first of: topics, sessions, message rate, bandwidth, each strictly greater
   than its threshold, by the latest sample. Never with fewer than two topics: one hot topic
   cannot be split, and the operator is told to add partitions instead.
2. A bundle acts when its count of consecutive rounds with a reason reaches `hit_count`; a round
   without reason, or the end of the bundle, clears it.
3. A namespace has at most `namespace_bundles_max` bundles, splits of this round included; at
   most `splits_per_round_max` splits a round, biggest first (Pulsar follows map order, #25031).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controller.strategies.boundaries import ALGORITHMS
from controller.strategies.params import ThresholdSplitParams
from controller.strategies.protocols import Memory, Split, SplitPlan
from controller.strategies.verdicts import Reason, Verdict
from controller.strategies.view import Bools, ClusterView, Floats, Ints

REASONS = ("topics", "sessions", "msg_rate", "bandwidth")


@dataclass(frozen=True, slots=True)
class ThresholdSplit:
    """See the module text."""

    params: ThresholdSplitParams

    def split(self, view: ClusterView, memory: Memory) -> SplitPlan:
        """One round: counts hits of bundles that are too big and splits those that are due."""
        if not self.params.is_enabled:
            return SplitPlan((), {})
        excess, reasons = self._excess(view)
        big = np.flatnonzero((excess > 1.0) & (view.bundle_owner >= 0) & ~view.bundle_is_excluded)
        ranked = view.order(big, excess[big])
        before = memory.get("split", {})
        hits: dict[str, int] = {}
        splits: list[Split] = []
        verdicts: list[Verdict] = []
        added: dict[int, int] = {}
        for bundle in ranked.tolist():
            name = view.bundle_names[bundle]
            reason = REASONS[reasons[bundle]]
            if view.bundle_topics[bundle] < 2:
                verdicts.append(_hot_topic(view, bundle, reason, float(excess[bundle])))
                continue
            hits[name] = before.get(name, 0) + 1
            verdict = self._refusal(view, bundle, reason, hits[name], len(splits), added)
            if verdict is not None:
                verdicts.append(verdict)
                continue
            boundaries = ALGORITHMS[self.params.algorithm](view, bundle)
            if not boundaries:
                verdicts.append(Verdict(name, Reason.NO_BOUNDARY, flips_if="topic hashes differ"))
                continue
            del hits[name]
            namespace = int(view.bundle_namespace[bundle])
            added[namespace] = added.get(namespace, 0) + len(boundaries)
            detail = f"{reason} is {float(excess[bundle]):.2f} times its threshold"
            splits.append(Split(bundle, boundaries, reason, detail))
        return SplitPlan(tuple(splits), {"split": hits}, tuple(verdicts))

    def _excess(self, view: ClusterView) -> tuple[Floats, Ints]:
        """How far each bundle is above its thresholds (1.0 = at it), and the first reason."""
        limits = (
            (view.bundle_topics, self.params.topics_max),
            (view.bundle_sessions, self.params.sessions_max),
            (view.bundle_rate_now, self.params.rate_max),
            (view.bundle_throughput_now, self.params.throughput_max),
        )
        excess = np.zeros(len(view.bundle_owner), np.float64)
        reasons = np.zeros(len(view.bundle_owner), np.int64)
        for index, (values, limit) in enumerate(limits):
            if limit <= 0:
                continue
            ratio = values / float(limit)
            first: Bools = (excess <= 1.0) & (ratio > 1.0)
            reasons[first] = index
            excess = np.where(first, ratio, excess)
        return excess, reasons

    def _refusal(
        self,
        view: ClusterView,
        bundle: int,
        reason: str,
        hits: int,
        done: int,
        added: dict[int, int],
    ) -> Verdict | None:
        """Why a big bundle is not split in this round; None = it may be."""
        name = view.bundle_names[bundle]
        namespace = int(view.bundle_namespace[bundle])
        count = int(view.namespace_bundles[namespace]) + added.get(namespace, 0)
        checks = (
            (
                hits < self.params.hit_count,
                Reason.HIT_COUNT,
                f"{reason} stays above its threshold for {self.params.hit_count - hits} rounds",
            ),
            (
                bool(view.bundle_is_pinned[bundle]),
                Reason.PINNED,
                "the bundle is unpinned",
            ),
            (
                not view.bundle_is_movable[bundle],
                Reason.COOL_DOWN,
                "the bundle is neither in flight nor cooling down",
            ),
            (
                view.bundle_upper[bundle] - view.bundle_lower[bundle] <= 1,
                Reason.NOT_SPLITTABLE,
                "the hash range holds more than one hash",
            ),
            (
                count >= self.params.namespace_bundles_max,
                Reason.NAMESPACE_FULL,
                f"namespace_bundles_max is above {count}",
            ),
            (
                done >= self.params.splits_per_round_max,
                Reason.ROUND_LIMIT,
                "fewer bundles are due in the same round",
            ),
        )
        for failed, why, flips_if in checks:
            if failed:
                return Verdict(name, why, (("reason", reason),), None, hits, flips_if)
        return None


def _hot_topic(view: ClusterView, bundle: int, reason: str, excess: float) -> Verdict:
    partitions = int(np.ceil(excess)) + 1
    return Verdict(
        view.bundle_names[bundle],
        Reason.HOT_TOPIC,
        (("reason", reason), ("times_threshold", excess)),
        flips_if=f"the topic gets {partitions} partitions; one topic cannot be split",
    )
