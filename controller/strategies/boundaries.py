"""Boundary algorithms for splits (pulsar.md §5.3).

A function `(view, bundle) -> boundaries`, ascending and strictly inside the bundle's range; an
empty tuple means that there is no boundary to be had.
"""

from __future__ import annotations

from collections.abc import Callable

from controller.model.bundles import range_midpoint
from controller.strategies.view import ClusterView

BoundaryAlgorithm = Callable[[ClusterView, int], tuple[int, ...]]


def range_equally_divide(view: ClusterView, bundle: int) -> tuple[int, ...]:
    """The middle of the hash range; Pulsar's default."""
    lower, upper = int(view.bundle_lower[bundle]), int(view.bundle_upper[bundle])
    return _inside(range_midpoint(lower, upper), lower, upper)


def topic_count_equally_divide(view: ClusterView, bundle: int) -> tuple[int, ...]:
    """The boundary between the two middle topic hashes, where the report gave hashes.

    Equal hashes may put it on the lower bound; Pulsar then fails late, here it is no boundary.
    """
    boundary = int(view.bundle_topic_boundary[bundle])
    if not boundary:
        return ()
    return _inside(boundary, int(view.bundle_lower[bundle]), int(view.bundle_upper[bundle]))


def _inside(boundary: int, lower: int, upper: int) -> tuple[int, ...]:
    return (boundary,) if lower < boundary < upper else ()


ALGORITHMS: dict[str, BoundaryAlgorithm] = {
    "range_equally_divide": range_equally_divide,
    "topic_count_equally_divide": topic_count_equally_divide,
}
