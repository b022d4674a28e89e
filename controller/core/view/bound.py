"""How far from the optimum: the least greatest load that any k moves can reach (design §4).

LB_k is the least T with T >= sum(w) / m, T >= max(w), and sum over brokers of r_b(T) <= k, where
r_b(T) is the least number of bundles that must leave broker b so that the rest fits under T
(biggest first). Loads are load ratios on brokers of equal capacity; the load that no bundle
explains stays where it is.
"""

from __future__ import annotations

import numpy as np

from controller.strategies.view import Bools, ClusterView, Floats, Ints

BISECTIONS = 30  # halves the interval to below 1e-9 of the greatest load


def load_bound(view: ClusterView, able: Bools, moves_max: int) -> float:
    """LB_k over the brokers in `able` (m booleans) with k = `moves_max`; 0 without brokers."""
    if not able.any():
        return 0.0
    owned = np.flatnonzero((view.bundle_owner >= 0) & (view.bundle_load > 0.0))
    owned = owned[able[view.bundle_owner[owned]]]
    loads, owners = view.bundle_load[owned], view.bundle_owner[owned]
    low = max(float(view.broker_load[able].mean()), float(loads.max()) if len(loads) else 0.0)
    high = float(view.broker_load[able].max())
    stairs = _Stairs(np.where(able, view.broker_load, 0.0), loads, owners)
    if stairs.moves_needed(low) <= moves_max:
        return min(low, high)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2.0
        if stairs.moves_needed(middle) <= moves_max:
            high = middle
        else:
            low = middle
    return high


class _Stairs:
    """Running sums of each broker's bundles, biggest first, in one ascending array.

    Broker b's sums are shifted by b times more than any sum can be, so that one binary search
    over the array answers for all brokers at once.
    """

    def __init__(self, broker_load: Floats, loads: Floats, owners: Ints) -> None:
        self.broker_load = broker_load
        self.width = float(loads.sum()) + float(broker_load.max()) + 1.0
        order = np.argsort(owners * self.width - loads, kind="stable")
        sums = np.concatenate([[0.0], np.cumsum(loads[order])])
        self.starts = np.searchsorted(owners[order], np.arange(len(broker_load)))
        own = sums[1:] - sums[self.starts][owners[order]]
        self.keys = owners[order] * self.width + own

    def moves_needed(self, target: float) -> int:
        """Least number of bundles that must leave so that no broker is above the target."""
        over = np.flatnonzero(self.broker_load > target)
        excess = self.broker_load[over] - target
        at = np.searchsorted(self.keys, over * self.width + excess)
        return int((at - self.starts[over] + 1).sum())
