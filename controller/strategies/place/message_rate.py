"""LeastLongTermMessageRate: the broker whose bundles carry the fewest messages.

Rules (Pulsar's LeastLongTermMessageRate, pulsar.md §4.3):

1. The score of a broker is the sum of its bundles' long-term message rates, in + out, and of those
   of bundles given to it since; a broker above `overloaded_points` has no score.
2. One of the brokers with the least score is drawn; one of all candidates if none has a score.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from controller.strategies.memory import Memory
from controller.strategies.params import MessageRateParams
from controller.strategies.place.booking import Booking
from controller.strategies.protocols import Choice, ShedPlan, Unowned
from controller.strategies.view import ClusterView


@dataclass(frozen=True, slots=True)
class MessageRatePlace:
    """See the module text."""

    params: MessageRateParams

    def begin(self, view: ClusterView, memory: Memory) -> MessageRatePlacement:
        """A placement on one view."""
        return MessageRatePlacement(self.params, Booking(view, memory, counts=True))

    def after_shed(self, view: ClusterView, plan: ShedPlan, memory: Memory) -> Memory:
        """Only the draws are remembered."""
        return memory


@dataclass(slots=True)
class MessageRatePlacement:
    """One placing; mutable, never kept between steps."""

    params: MessageRateParams
    booking: Booking

    @property
    def memory(self) -> Memory:
        """The state of the draws."""
        return self.booking.draws

    def choose(self, bundle: Unowned) -> Choice:
        """See `Placement.choose`."""
        if bundle.pinned >= 0:
            return Choice(bundle.pinned, self.booking.book(bundle, bundle.pinned))
        candidates = self.booking.candidates(bundle)
        scores = [self._score(broker) for broker in candidates]
        least = min(scores, default=math.inf)
        best = [b for b, score in zip(candidates, scores, strict=True) if score == least]
        return self.booking.draw(bundle, best)

    def _score(self, broker: int) -> float:
        if self.booking.load[broker] > self.params.overloaded_points / 100.0:
            return math.inf
        return float(self.booking.long_rate[broker])
