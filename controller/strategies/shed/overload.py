"""OverloadShedder: a broker above a fixed limit gives away what is above it, and a little more.

Rules (Pulsar's OverloadShedder, pulsar.md §3.2):

1. A broker whose load ratio is at least `overloaded_points` sheds
   (load - limit + 0.05) x its throughput, if it has more than one bundle.
2. Its bundles by short-term throughput, biggest first, until the amount is reached; at least one.
3. Where they go is the place strategy's choice.

Different from Pulsar, on purpose: a bundle without traffic is never moved (it relieves nobody;
#23626); a silent or cooling broker does not take part. With `parity` as in Pulsar 4.2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controller.strategies.memory import Memory
from controller.strategies.params import OverloadParams
from controller.strategies.protocols import ShedPlan, Transfer
from controller.strategies.shed.offload import EXTRA_RATIO, biggest_until, nothing_to_move
from controller.strategies.verdicts import Reason, Verdict
from controller.strategies.view import ByOwner, ClusterView


@dataclass(frozen=True, slots=True)
class OverloadShed:
    """See the module text."""

    params: OverloadParams
    parity: bool = False

    def shed(self, view: ClusterView, memory: Memory) -> ShedPlan:
        """One round; nothing is remembered."""
        limit = self.params.overloaded_points / 100.0
        able = view.taking_part(self.parity)
        hot = np.flatnonzero(able & (view.broker_load >= limit))
        if not len(hot):
            return ShedPlan((), {}, (self._balanced(view, able),))
        movable = ByOwner(view, view.bundle_is_movable)
        transfers: list[Transfer] = []
        verdicts: list[Verdict] = []
        for broker in hot.tolist():
            excess = float(view.broker_load[broker]) - limit
            amount = float(view.broker_throughput[broker]) * (excess + EXTRA_RATIO)
            detail = f"{excess * 100:.1f} points above the limit of {limit * 100:g}"
            bundles = biggest_until(view, movable, broker, amount, self.parity)
            transfers += [Transfer(b, broker, -1, "overloaded", detail) for b in bundles]
            if not bundles:
                verdicts.append(nothing_to_move(view, movable, broker, amount))
        return ShedPlan(tuple(transfers), {}, tuple(verdicts))

    def _balanced(self, view: ClusterView, able: np.ndarray) -> Verdict:
        if not able.any():
            return Verdict("cluster", Reason.NO_BROKERS, flips_if="a broker reports its load")
        hottest = int(np.argmax(np.where(able, view.broker_load, -1.0)))
        points = float(view.broker_load[hottest]) * 100.0
        return Verdict(
            view.broker_names[hottest],
            Reason.BALANCED,
            (("load_points", points),),
            self.params.overloaded_points,
            flips_if="its load reaches overloaded_points",
        )
