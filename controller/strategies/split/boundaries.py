"""Boundary algorithms on a view: where a bundle is cut (pulsar.md §5.3).

A function `(view, bundle, params) -> boundaries`, ascending and strictly inside the bundle's
range; an empty tuple means that there is no boundary to be had. Where topics are not known one by
one, their halving boundary may be (reports with hashes only).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from controller.model.boundaries import flow_boundaries, range_midpoint, topic_count_boundary
from controller.strategies.params import ThresholdSplitParams
from controller.strategies.view import ClusterView

BoundaryAlgorithm = Callable[[ClusterView, int, ThresholdSplitParams], tuple[int, ...]]


def range_equally_divide(
    view: ClusterView, bundle: int, params: ThresholdSplitParams
) -> tuple[int, ...]:
    """The middle of the hash range; Pulsar's default."""
    lower, upper = int(view.bundle_lower[bundle]), int(view.bundle_upper[bundle])
    return _inside(view, bundle, (range_midpoint(lower, upper),))


def topic_count_equally_divide(
    view: ClusterView, bundle: int, params: ThresholdSplitParams
) -> tuple[int, ...]:
    """The boundary between the two middle topic hashes, where the report gave hashes.

    Equal hashes may put it on the lower bound; Pulsar then fails late, here it is no boundary.
    """
    loads = view.topics.get(bundle)
    if loads is None:
        boundary = int(view.bundle_topic_boundary[bundle]) or None
    else:
        boundary = topic_count_boundary(loads.hashes.tolist())
    return () if boundary is None else _inside(view, bundle, (boundary,))


def flow_or_qps_equally_divide(
    view: ClusterView, bundle: int, params: ThresholdSplitParams
) -> tuple[int, ...]:
    """As many boundaries as keep every part below the limits, where topics' loads are known."""
    loads = view.topics.get(bundle)
    if loads is None:
        return ()
    columns = (loads.hashes.tolist(), loads.rates.tolist(), loads.throughputs.tolist())
    difference = params.flow_difference_points / 100.0
    topics = list(zip(*columns, strict=True))
    cuts = flow_boundaries(topics, params.rate_max, params.throughput_max, difference)
    return _inside(view, bundle, cuts)


def specified_positions_divide(
    view: ClusterView, bundle: int, params: ThresholdSplitParams
) -> tuple[int, ...]:
    """None: positions are an operator's to give (`bundlectl send split --at`)."""
    return ()


def _inside(view: ClusterView, bundle: int, boundaries: Iterable[int]) -> tuple[int, ...]:
    lower, upper = int(view.bundle_lower[bundle]), int(view.bundle_upper[bundle])
    return tuple(sorted({b for b in boundaries if lower < b < upper}))


ALGORITHMS: dict[str, BoundaryAlgorithm] = {
    "range_equally_divide": range_equally_divide,
    "topic_count_equally_divide": topic_count_equally_divide,
    "flow_or_qps_equally_divide": flow_or_qps_equally_divide,
    "specified_positions_divide": specified_positions_divide,
}
