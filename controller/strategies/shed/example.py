"""Template of a strategy: `biggest_first`, the simplest shedder that still does some good.

Copy this file, rename the class, move your parameters to `params.py`, add one line to
`registry.py`, and add scenarios to tests/strategies. The anatomy is the same in every file:

1. the module text states the rules, numbered, with their source;
2. a frozen dataclass holds the parameters and nothing else;
3. one public method takes the view and the memory and returns a plan with all refusals.

Rules of this one:

1. Only the hottest broker sheds, and only if it is `gap_points` above the coldest.
2. It gives its biggest movable bundle that closes the gap without turning it round, and that the
   rules of the cluster let go to the coldest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controller.strategies.memory import Memory
from controller.strategies.params import BiggestFirstParams
from controller.strategies.protocols import ShedPlan, Transfer
from controller.strategies.verdicts import Reason, Verdict
from controller.strategies.view import ClusterView


@dataclass(frozen=True, slots=True)
class BiggestFirstShed:
    """See the module text."""

    params: BiggestFirstParams

    def shed(self, view: ClusterView, memory: Memory) -> ShedPlan:
        """One round: at most one transfer."""
        able = np.flatnonzero(view.broker_can_shed)
        if len(able) < 2:
            return ShedPlan((), {}, (Verdict("cluster", Reason.NO_BROKERS),))
        ranked = able[np.lexsort((able, view.broker_load[able]))]
        cold, hot = int(ranked[0]), int(ranked[-1])
        gap = float(view.broker_load[hot] - view.broker_load[cold])
        if gap * 100.0 < self.params.gap_points:
            return ShedPlan((), {}, (self._balanced(view, hot, gap),))
        own = np.flatnonzero(
            (view.bundle_owner == hot)
            & view.bundle_is_movable
            & (view.bundle_left != cold)
            & (view.bundle_load > 0.0)
            & (view.bundle_load < gap)
        )
        ordered = view.order(own, view.bundle_load[own]).tolist()
        bundle = next((one for one in ordered if view.may_go(one, cold)), -1)
        if bundle < 0:
            return ShedPlan((), {}, (Verdict(view.broker_names[hot], Reason.NO_BUNDLES),))
        detail = f"{view.broker_names[hot]} is {gap * 100:.1f} points above the coldest"
        return ShedPlan((Transfer(bundle, hot, cold, "overloaded", detail),), {})

    def _balanced(self, view: ClusterView, hot: int, gap: float) -> Verdict:
        return Verdict(
            view.broker_names[hot],
            Reason.BALANCED,
            (("gap_points", gap * 100.0),),
            self.params.gap_points,
            flips_if="the gap reaches gap_points",
        )
