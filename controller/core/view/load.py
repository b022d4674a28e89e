"""Load ratios of brokers and the share of them that a bundle accounts for.

Load ratio = the greatest of the weighted usages of cpu, direct memory, bandwidth in and out, as
a fraction (1.0 = full); heap is left out (#19559). Percentages are computed in single precision
as Pulsar does (pulsar.md §2.1), so that thresholds fall on the same side.
"""

from __future__ import annotations

import numpy as np

from controller.core.state.columns import Columns
from controller.strategies.params import ResourceWeights
from controller.strategies.view import Floats, Ints

CPU, HEAP, DIRECT, BANDWIDTH_IN, BANDWIDTH_OUT = range(0, 10, 2)
CPU_LIMIT = CPU + 1


def percent(usage: float, limit: float) -> float:
    """Usage in points of the limit, single precision; 0 where the limit is not known."""
    if limit <= 0.0:
        return 0.0
    return float(np.float32(np.float32(usage) / np.float32(limit)) * np.float32(100.0))


def load_ratio(usage: tuple[float, ...], weights: ResourceWeights) -> float:
    """Load ratio of a broker from its ten usage figures (`Report.usage`)."""
    weighted = (
        (CPU, weights.cpu),
        (DIRECT, weights.direct_memory),
        (BANDWIDTH_IN, weights.bandwidth_in),
        (BANDWIDTH_OUT, weights.bandwidth_out),
    )
    return max(percent(usage[at], usage[at + 1]) * weight for at, weight in weighted) / 100.0


def attributed_load(bundles: Columns, brokers: Columns, serving: Ints) -> Floats:
    """Load ratio that each bundle accounts for on its broker: n floats, 0 where unserved.

    Proportional: half by its share of the broker's message rate, half by its share of the
    throughput, of what the broker's bundles report. The broker's background load is spread over
    its bundles with that, which errs on the side of moving less.
    """
    rate = bundles["short"][:, 0].astype(np.float64) + bundles["short"][:, 1]
    throughput = bundles["short"][:, 2].astype(np.float64) + bundles["short"][:, 3]
    served = serving >= 0
    at = serving[served]
    share = np.zeros(len(serving), np.float64)
    parts = np.zeros(len(serving), np.float64)
    for values in (rate, throughput):
        totals = np.bincount(at, values[served], minlength=brokers.size)[at]
        known = totals > 0.0
        share[np.flatnonzero(served)[known]] += values[served][known] / totals[known]
        parts[np.flatnonzero(served)[known]] += 1.0
    share = np.divide(share, parts, out=share, where=parts > 0.0)
    load = np.zeros(len(serving), np.float64)
    load[served] = share[served] * brokers["load"][at]
    return load
