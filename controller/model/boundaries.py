"""Where to cut a bundle: the four boundary algorithms of Pulsar (pulsar.md §5.3), on plain hashes.

All return candidates in ascending order; whether they lie strictly inside the bundle's range is the
caller's to check (equal topic hashes may put one on a bound). An empty answer means that there is
nothing to cut. Called by the split strategies and by `bundlectl decide`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise


def range_midpoint(lower: int, upper: int) -> int:
    """`range_equally_divide`: the middle, rounded down."""
    return lower + (upper - lower) // 2


def topic_count_boundary(sorted_hashes: Sequence[int]) -> int | None:
    """`topic_count_equally_divide`: between the two middle hashes; None for fewer than two topics.

    Equal hashes may put it on a bound of the bundle, where no split is possible.
    """
    if len(sorted_hashes) < 2:
        return None
    middle = len(sorted_hashes) // 2
    before, after = sorted_hashes[middle - 1], sorted_hashes[middle]
    return range_midpoint(before, after)


def positions_inside(positions: Iterable[int], lower: int, upper: int) -> list[int]:
    """`specified_positions_divide`: those of the given positions that lie strictly inside."""
    return sorted(p for p in positions if lower < p < upper)


def flow_boundaries(
    topics: Sequence[tuple[int, float, float]],
    rate_max: float,
    throughput_max: float,
    difference_ratio: float,
) -> list[int]:
    """`flow_or_qps_equally_divide`: each part carries at most the given rate and throughput.

    topics: (hash, messages/s, bytes/s) each, in + out; those without traffic are left out. Nothing
    is cut while both sums are below their maximum times (1 + difference_ratio). Of topics with
    equal hashes the last one's figures count for each of them, as in Pulsar.
    """
    flows = {h: (rate, throughput) for h, rate, throughput in topics if rate or throughput}
    hashes = sorted(h for h, rate, throughput in topics if rate or throughput)
    if len(hashes) < 2:
        return []
    slack = 1.0 + difference_ratio
    total_rate = sum(flows[h][0] for h in hashes)
    total_throughput = sum(flows[h][1] for h in hashes)
    if total_rate < rate_max * slack and total_throughput < throughput_max * slack:
        return []
    cuts: list[int] = []
    rate, throughput = flows[hashes[0]]
    for before, here in pairwise(hashes):
        more_rate, more_throughput = flows[here]
        if rate + more_rate > rate_max or throughput + more_throughput > throughput_max:
            cuts.append(range_midpoint(before, here) + 1)
            rate, throughput = 0.0, 0.0
        rate, throughput = rate + more_rate, throughput + more_throughput
    return cuts
