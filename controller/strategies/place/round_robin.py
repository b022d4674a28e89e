"""RoundRobinBrokerSelector: one broker after the other.

Rules (Pulsar's RoundRobinBrokerSelector, pulsar.md §4.3):

1. A counter, taken modulo the number of candidates, picks from a remembered order of them.
2. The order is that of the candidates when it was last taken over; it is taken over anew when
   their number has changed, or when the pick is no candidate any more.
3. The counter goes on from 2^31 - 1 to 0.
"""

from __future__ import annotations

from dataclasses import dataclass

from controller.strategies.memory import Memory, counts
from controller.strategies.place.booking import Booking
from controller.strategies.protocols import Choice, ShedPlan, Unowned
from controller.strategies.view import ClusterView

COUNTER, ORDER = "round_robin", "round_robin_order"
NEXT = "next"
COUNTER_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class RoundRobinPlace:
    """See the module text."""

    def begin(self, view: ClusterView, memory: Memory) -> RoundRobinPlacement:
        """A placement on one view."""
        places = counts(memory, ORDER)
        order = sorted(places, key=places.__getitem__)
        number = counts(memory, COUNTER).get(NEXT, 0)
        return RoundRobinPlacement(Booking(view, {}, counts=True), number, order)

    def after_shed(self, view: ClusterView, plan: ShedPlan, memory: Memory) -> Memory:
        """Shedding changes nothing."""
        return memory


@dataclass(slots=True)
class RoundRobinPlacement:
    """One placing; mutable, never kept between steps."""

    booking: Booking
    number: int
    order: list[str]  # broker names

    @property
    def memory(self) -> Memory:
        """The counter and the order."""
        places = {name: place for place, name in enumerate(self.order)}
        return {COUNTER: {NEXT: self.number}, ORDER: places}

    def choose(self, bundle: Unowned) -> Choice:
        """See `Placement.choose`."""
        if bundle.pinned >= 0:
            return Choice(bundle.pinned, self.booking.book(bundle, bundle.pinned))
        candidates = self.booking.candidates(bundle)
        if not candidates:
            return self.booking.draw(bundle, ())
        names = self.booking.view.broker_names
        by_name = {names[broker]: broker for broker in candidates}
        at = self.number % len(by_name)
        self.number = 0 if self.number >= COUNTER_MAX else self.number + 1
        if len(self.order) != len(by_name) or self.order[at] not in by_name:
            self.order = list(by_name)
        return self.booking.draw(bundle, (by_name[self.order[at]],))
