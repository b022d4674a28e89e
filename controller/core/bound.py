"""How far from the optimum: the least greatest load that any k moves can reach (design §4).

LB_k is the least T with T >= sum(w) / m, T >= max(w), and sum over brokers of r_b(T) <= k, where
r_b(T) is the least number of bundles that must leave broker b so that the rest fits under T
(biggest first). Loads are load ratios on brokers of equal capacity; the load that no bundle
explains stays where it is.
"""

from __future__ import annotations

import numpy as np

from controller.strategies.view import Bools, ClusterView, Floats, Ints

BISECTIONS = 40  # halves the interval to below 1e-12 of the greatest load


def load_bound(view: ClusterView, able: Bools, moves_max: int) -> float:
    """LB_k over the brokers in `able` (m booleans) with k = `moves_max`; 0 without brokers."""
    if not able.any():
        return 0.0
    owned = np.flatnonzero((view.bundle_owner >= 0) & (view.bundle_load > 0.0))
    owned = owned[able[view.bundle_owner[owned]]]
    loads, owners = view.bundle_load[owned], view.bundle_owner[owned]
    order = np.lexsort((-loads, owners))
    prefix, starts = _prefix_sums(loads[order], owners[order], len(able))
    mean = float(view.broker_load[able].mean())
    low = max(mean, float(loads.max()) if len(loads) else 0.0)
    high = float(view.broker_load[able].max())
    if _moves_needed(view, able, low, prefix, starts) <= moves_max:
        return min(low, high)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2.0
        if _moves_needed(view, able, middle, prefix, starts) <= moves_max:
            high = middle
        else:
            low = middle
    return high


def _prefix_sums(loads: Floats, owners: Ints, brokers: int) -> tuple[Floats, Ints]:
    """Running sums over all bundles sorted by owner, biggest first; where each owner starts."""
    starts = np.searchsorted(owners, np.arange(brokers + 1))
    return np.concatenate([[0.0], np.cumsum(loads)]), starts


def _moves_needed(
    view: ClusterView, able: Bools, target: float, prefix: Floats, starts: Ints
) -> int:
    total = 0
    for broker in np.flatnonzero(able).tolist():
        excess = float(view.broker_load[broker]) - target
        if excess <= 0.0:
            continue
        first, last = int(starts[broker]), int(starts[broker + 1])
        sums = prefix[first : last + 1] - prefix[first]
        total += int(np.searchsorted(sums, excess))
    return total
