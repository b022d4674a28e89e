"""UniformLoadShedder: the busiest broker sheds when it differs too much from the idlest.

Rules (Pulsar's UniformLoadShedder, pulsar.md §3.4):

1. Message rate: if (max - min) is more than `rate_difference_percent` of min. Throughput: if max is
   more than `throughput_multiplier` times min. A minimum of 0 counts as 1. 0 switches a test off.
   The message rate goes first; where it is met the throughput is not looked at.
2. (max - min) x `max_unload_ratio` is to leave the busiest broker, if it has more than one bundle
   and that is at least `min_unload_rate` or `min_unload_throughput`.
3. Its bundles by that figure, biggest first, each that still fits; at most `bundles_per_round_max`.
4. Where they go is the place strategy's choice.

Amounts are whole numbers, as in Pulsar: what is left after a bundle is rounded up by less than 1.

Different from Pulsar, on purpose: the minimum is the true one (Pulsar begins its search at
2^31 - 1, so that brokers above 2 GB/s have none) and amounts may be above 2^31 - 1; a bundle
without traffic is never moved; a silent or cooling broker does not take part. With `parity` as in
Pulsar 4.2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controller.strategies.memory import Memory
from controller.strategies.params import UniformParams
from controller.strategies.protocols import ShedPlan, Transfer
from controller.strategies.shed.offload import nothing_to_move
from controller.strategies.verdicts import Reason, Verdict
from controller.strategies.view import ByOwner, ClusterView, Floats, Ints

INT_MAX = 2**31 - 1
ZERO = 1e-6
"""A minimum this near to 0 counts as 1."""


@dataclass(frozen=True, slots=True)
class Gap:
    """The busiest broker and the least busy one by one figure."""

    unit: str
    broker: int
    highest: float
    lowest: float
    sizes: Floats  # of every bundle, in that figure
    least: float  # worth a move
    is_wide: bool


@dataclass(frozen=True, slots=True)
class UniformShed:
    """See the module text."""

    params: UniformParams
    parity: bool = False

    def shed(self, view: ClusterView, memory: Memory) -> ShedPlan:
        """One round; nothing is remembered."""
        able = np.flatnonzero(view.taking_part(self.parity))
        if not len(able):
            verdict = Verdict("cluster", Reason.NO_BROKERS, flips_if="a broker reports its load")
            return ShedPlan((), {}, (verdict,))
        rate, throughput = self._gaps(view, able)
        if not (rate.is_wide or throughput.is_wide):
            return ShedPlan((), {}, (self._balanced(view, rate),))
        transfers, verdicts = self._unload(view, rate if rate.is_wide else throughput)
        return ShedPlan(transfers, {}, verdicts)

    def _gaps(self, view: ClusterView, able: Ints) -> tuple[Gap, Gap]:
        rate_broker, rate_high, rate_low = self._range(view.broker_rate, able)
        broker, high, low = self._range(view.broker_throughput, able)
        percent = self.params.rate_difference_percent
        multiplier = self.params.throughput_multiplier
        return (
            Gap(
                "msg/s",
                rate_broker,
                rate_high,
                rate_low,
                view.bundle_rate,
                self.params.min_unload_rate,
                percent > 0 and (rate_high - rate_low) * 100 / rate_low > percent,
            ),
            Gap(
                "byte/s",
                broker,
                high,
                low,
                view.bundle_throughput,
                self.params.min_unload_throughput,
                multiplier > 0 and high / low > multiplier,
            ),
        )

    def _range(self, figures: Floats, able: Ints) -> tuple[int, float, float]:
        """(busiest broker, its figure, the least figure)."""
        values = figures[able]
        top = int(values.argmax())
        lowest = float(values.min())
        if self.parity:
            lowest = min(lowest, float(INT_MAX))
        return int(able[top]), float(values[top]), 1.0 if lowest <= ZERO else lowest

    def _unload(
        self, view: ClusterView, gap: Gap
    ) -> tuple[tuple[Transfer, ...], tuple[Verdict, ...]]:
        """Rules 2 and 3."""
        amount = (gap.highest - gap.lowest) * self.params.max_unload_ratio
        left = float(min(int(amount), INT_MAX) if self.parity else int(amount))
        name = view.broker_names[gap.broker]
        if left < gap.least:
            inputs = ((f"amount_{gap.unit}", left),)
            flips_if = "the difference times max_unload_ratio reaches the least worth a move"
            return (), (Verdict(name, Reason.TOO_SMALL, inputs, gap.least, flips_if=flips_if),)
        movable = ByOwner(view, view.bundle_is_movable)
        bundles = self._fitting(view, movable, gap, left)
        if not bundles:
            return (), (nothing_to_move(view, movable, gap.broker, left),)
        detail = f"{gap.highest:.0f} {gap.unit} against {gap.lowest:.0f} of the least busy broker"
        return tuple(Transfer(b, gap.broker, -1, "overloaded", detail) for b in bundles), ()

    def _fitting(self, view: ClusterView, movable: ByOwner, gap: Gap, left: float) -> list[int]:
        limit = self.params.bundles_per_round_max
        if view.broker_bundles[gap.broker] <= 1:
            return []
        own = movable.of(gap.broker)
        taken: list[int] = []
        for bundle in view.order(own, gap.sizes[own]).tolist():
            if limit != -1 and len(taken) >= limit:
                break
            size = float(gap.sizes[bundle])
            if size <= left and (size > 0.0 or self.parity):
                taken.append(bundle)
                left -= int(size)
        return taken

    def _balanced(self, view: ClusterView, rate: Gap) -> Verdict:
        return Verdict(
            view.broker_names[rate.broker],
            Reason.BALANCED,
            (("highest_msg/s", rate.highest), ("lowest_msg/s", rate.lowest)),
            self.params.rate_difference_percent,
            flips_if="the difference passes rate_difference_percent, or throughput_multiplier",
        )
