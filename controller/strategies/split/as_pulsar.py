"""The split decisions of Pulsar 4.2 as they are, for `parity`: see `thresholds` for what differs.

Called by `thresholds` only. Bundles are looked at in the order of the view, which stands for the
order of Pulsar's map.
"""

from __future__ import annotations

import numpy as np

from controller.strategies.memory import Memory, counts
from controller.strategies.params import ThresholdSplitParams
from controller.strategies.protocols import Split, SplitPlan
from controller.strategies.split.boundaries import ALGORITHMS
from controller.strategies.split.excess import REASONS, Excess
from controller.strategies.view import ClusterView

HITS = "split"


def split_as_pulsar(
    view: ClusterView,
    memory: Memory,
    params: ThresholdSplitParams,
    excess: Excess,
    is_long_term: bool,
) -> SplitPlan:
    """BundleSplitterTask, or DefaultNamespaceBundleSplitStrategyImpl."""
    if is_long_term:
        return _long_term(view, params, excess)
    reported = np.flatnonzero(view.bundle_is_reported).tolist()
    before = counts(memory, HITS)
    names = view.bundle_names
    hits = {names[b]: before[names[b]] for b in reported if names[b] in before}
    splits: list[Split] = []
    added: dict[int, int] = {}
    failures = 0
    for bundle in reported:
        if view.bundle_topics[bundle] < 2 or view.bundle_owner[bundle] < 0:
            continue
        if view.bundle_upper[bundle] - view.bundle_lower[bundle] <= 1:
            failures += 1
            continue
        if not excess.is_over[bundle]:
            hits.pop(names[bundle], None)
            continue
        hits[names[bundle]] = hits.get(names[bundle], 0) + 1
        if hits[names[bundle]] < params.hit_count:
            continue
        outcome = _cut(view, bundle, params, added)
        failures += outcome is False
        if isinstance(outcome, tuple):
            splits.append(_split(bundle, outcome, excess))
            del hits[names[bundle]]
            if len(splits) == params.splits_per_round_max:
                break
    return SplitPlan(tuple(splits), {HITS: hits} if hits else {}, failures=failures)


def _long_term(view: ClusterView, params: ThresholdSplitParams, excess: Excess) -> SplitPlan:
    """Every bundle that is reported and too big, owned or not; the boundary may be missing."""
    splits: list[Split] = []
    added: dict[int, int] = {}
    for bundle in np.flatnonzero(view.bundle_is_reported & excess.is_over).tolist():
        namespace = int(view.bundle_namespace[bundle])
        count = int(view.namespace_bundles[namespace])
        if view.bundle_topics[bundle] < 2 or count < 0:
            continue
        if count + added.get(namespace, 0) >= params.namespace_bundles_max:
            continue
        added[namespace] = added.get(namespace, 0) + 1
        boundaries = ALGORITHMS[params.algorithm](view, bundle, params)
        splits.append(_split(bundle, boundaries, excess))
    return SplitPlan(tuple(splits), {})


def _cut(
    view: ClusterView, bundle: int, params: ThresholdSplitParams, added: dict[int, int]
) -> tuple[int, ...] | bool | None:
    """The one boundary; False = a failure, None = it has to wait."""
    namespace = int(view.bundle_namespace[bundle])
    count = int(view.namespace_bundles[namespace])
    if count < 0:
        return False
    if count + added.get(namespace, 0) >= params.namespace_bundles_max:
        return None
    if _is_blocked(view, bundle):
        return None
    boundaries = ALGORITHMS[params.algorithm](view, bundle, params)
    if len(boundaries) != 1:
        return False
    added[namespace] = added.get(namespace, 0) + 1
    return boundaries


def _is_blocked(view: ClusterView, bundle: int) -> bool:
    """A bundle is being split whose name begins with this namespace and that shares a bound."""
    namespace = view.namespaces[int(view.bundle_namespace[bundle])]
    lower, upper = int(view.bundle_lower[bundle]), int(view.bundle_upper[bundle])
    return any(
        view.bundle_names[other].startswith(namespace)
        and (view.bundle_lower[other] == lower or view.bundle_upper[other] == upper)
        for other in np.flatnonzero(view.bundle_is_splitting).tolist()
    )


def _split(bundle: int, boundaries: tuple[int, ...], excess: Excess) -> Split:
    reason = REASONS[excess.reason[bundle]]
    detail = f"{reason} is {float(excess.times[bundle]):.2f} times its threshold"
    return Split(bundle, boundaries, reason, detail)
