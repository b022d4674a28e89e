"""LeastResourceUsageWithWeight: a broker clearly below the average usage, drawn among those.

Rules (Pulsar's classes of that name, pulsar.md §4.3):

1. Candidates whose usage is at least `margin_points` below the mean usage of the candidates are
   equally good; if there are none, all candidates are. One of them is drawn.
2. Extensible form: usage is the smoothed load of the reports. Brokers without a report count
   neither for the mean nor as good, but may be drawn where nobody is good.
3. Modular form: the strategy smooths for itself, at every choice, the loads of the candidates; a
   broker without bundles or without messages begins anew.

Different from Pulsar, on purpose: what was given away since the view was made counts, so that many
bundles placed at once do not all meet on the few brokers that were idle (in the modular form less
so: its smoothing takes a tenth of it at each choice). With `parity` as in Pulsar 4.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from controller.strategies.memory import Memory, numbers
from controller.strategies.params import UsageParams
from controller.strategies.place.booking import Booking
from controller.strategies.protocols import Choice, ShedPlan, Unowned
from controller.strategies.view import ClusterView

HISTORY = "history"


@dataclass(frozen=True, slots=True)
class UsagePlace:
    """See the module text."""

    params: UsageParams
    is_modular: bool
    parity: bool = False

    def begin(self, view: ClusterView, memory: Memory) -> UsagePlacement:
        """A placement on one view."""
        booking = Booking(view, memory, counts=not self.parity)
        return UsagePlacement(self.params, self.is_modular, booking, numbers(memory, HISTORY))

    def after_shed(self, view: ClusterView, plan: ShedPlan, memory: Memory) -> Memory:
        """Shedding changes nothing."""
        return memory


@dataclass(slots=True)
class UsagePlacement:
    """One placing; mutable, never kept between steps."""

    params: UsageParams
    is_modular: bool
    booking: Booking
    history: dict[str, float]

    @property
    def memory(self) -> Memory:
        """The state of the draws, and the modular form's usages."""
        return {**self.booking.draws, HISTORY: self.history}

    def choose(self, bundle: Unowned) -> Choice:
        """See `Placement.choose`."""
        if bundle.pinned >= 0:
            return Choice(bundle.pinned, self.booking.book(bundle, bundle.pinned))
        candidates = self.booking.candidates(bundle)
        best = self._below(candidates, self._usages(candidates))
        return self.booking.draw(bundle, best or candidates)

    def _below(self, candidates: Sequence[int], usages: Sequence[float | None]) -> list[int]:
        known = [usage for usage in usages if usage is not None]
        if not known:
            return []
        mean = sum(known) / len(known)
        margin = self.params.margin_points / 100.0
        return [
            broker
            for broker, usage in zip(candidates, usages, strict=True)
            if usage is not None and usage + margin <= mean
        ]

    def _usages(self, candidates: Sequence[int]) -> list[float | None]:
        """Usage of each candidate; None = no report."""
        if self.is_modular:
            return [self._smoothed(broker) for broker in candidates]
        has_report = self.booking.view.broker_reported_ms > 0
        return [float(self.booking.load_ema[b]) if has_report[b] else None for b in candidates]

    def _smoothed(self, broker: int) -> float:
        view, ratio = self.booking.view, self.params.history_ratio
        name, load = view.broker_names[broker], float(self.booking.load[broker])
        is_idle = self.booking.bundles[broker] == 0 or self.booking.rate[broker] == 0.0
        before = None if is_idle else self.history.get(name)
        self.history[name] = load if before is None else ratio * before + (1 - ratio) * load
        return self.history[name]
