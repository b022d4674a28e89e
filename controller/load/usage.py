"""Load ratios of a broker from its ten usage figures, in Pulsar's three forms.

A usage tuple holds (usage, limit) of cpu, heap, direct memory, bandwidth in and bandwidth out in
turn (`wire.reports.Report.usage`); the two of a pair have one unit. Percentages are computed in
single precision as Pulsar does (ResourceUsage), so that thresholds fall on the same side; what
comes after is double. Ratios are fractions (1.0 = full) and may be above 1. The core, the
agents' reporter and the averages of this room call this.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

CPU, HEAP, DIRECT, BANDWIDTH_IN, BANDWIDTH_OUT = range(0, 10, 2)
CPU_LIMIT = CPU + 1

Usage = tuple[float, ...]

# Points. Far above any machine; a limit of nearly 0 would else make averages infinite for good.
PERCENT_MAX = 1e9


@dataclass(frozen=True, slots=True)
class ResourceWeights:
    """Weight of each resource in a load ratio; 0 leaves it out (Pulsar's names beside)."""

    cpu: float = 1.0  # loadBalancerCPUResourceWeight
    memory: float = 0.0  # loadBalancerMemoryResourceWeight, the heap: noisy with collections
    direct_memory: float = 0.0  # loadBalancerDirectMemoryResourceWeight
    bandwidth_in: float = 1.0  # loadBalancerBandwidthInResourceWeight
    bandwidth_out: float = 1.0  # loadBalancerBandwidthOutResourceWeight


UNWEIGHTED = ResourceWeights(direct_memory=1.0)


def percent(usage: float, limit: float) -> float:
    """Usage in points of the limit, single precision; 0 where the limit is not known.

    A limit that is 0 in single precision is not known either. Never above `PERCENT_MAX`.
    """
    single_limit = np.float32(limit)
    if single_limit <= 0.0:
        return 0.0
    if usage >= limit * (PERCENT_MAX / 100.0):
        return PERCENT_MAX
    return float(np.float32(np.float32(usage) / single_limit) * np.float32(100.0))


def load_ratio(usage: Usage, weights: ResourceWeights) -> float:
    """Weighted maximum of the modular load manager: heap left out whatever its weight (#19559)."""
    return _greatest(usage, _without_heap(weights))


def weighted_max(usage: Usage, weights: ResourceWeights) -> float:
    """Weighted maximum of the extensible load manager: as `load_ratio`, and heap at its weight."""
    return _greatest(usage, (*_without_heap(weights), (HEAP, weights.memory)))


def max_usage(usage: Usage) -> float:
    """Greatest usage of all but heap, unweighted: `maxResourceUsage` of Pulsar's reports."""
    return _greatest(usage, _without_heap(UNWEIGHTED))


def _without_heap(weights: ResourceWeights) -> tuple[tuple[int, float], ...]:
    return (
        (CPU, weights.cpu),
        (DIRECT, weights.direct_memory),
        (BANDWIDTH_IN, weights.bandwidth_in),
        (BANDWIDTH_OUT, weights.bandwidth_out),
    )


def _greatest(usage: Usage, weighted: Iterable[tuple[int, float]]) -> float:
    return max(percent(usage[at], usage[at + 1]) * weight for at, weight in weighted) / 100.0
