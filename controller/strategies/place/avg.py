"""AvgShedder as placement: a bundle goes where shedding meant it to go, else anywhere.

Rules (Pulsar's AvgShedder, pulsar.md §3.5):

1. A bundle whose destination is remembered goes there, if that broker is a candidate.
2. Any other goes to a broker drawn from the candidates, which is remembered for it too.
3. Shedding with `avg` remembers the destination of each transfer.

Different from Pulsar, on purpose: the memory is keyed by the bundle's name. Pulsar's key is the
value of its statistics (#26246), which change with every report, and which equal bundles share.
With `parity` as in Pulsar 4.2.
"""

from __future__ import annotations

from dataclasses import dataclass

from controller.strategies.memory import Memory, texts
from controller.strategies.place.booking import Booking
from controller.strategies.protocols import Choice, ShedPlan, Unowned
from controller.strategies.view import ClusterView

REMEMBERED = "destinations"


@dataclass(frozen=True, slots=True)
class AvgPlace:
    """See the module text."""

    parity: bool = False

    def begin(self, view: ClusterView, memory: Memory) -> AvgPlacement:
        """A placement on one view."""
        booking = Booking(view, memory, counts=True)
        return AvgPlacement(booking, texts(memory, REMEMBERED), self.parity)

    def after_shed(self, view: ClusterView, plan: ShedPlan, memory: Memory) -> Memory:
        """Remembers the named destinations, and forgets bundles that are gone."""
        known = texts(memory, REMEMBERED)
        if known and not self.parity:
            names = set(view.bundle_names)
            known = {name: broker for name, broker in known.items() if name in names}
        for transfer in plan.transfers:
            if transfer.destination >= 0:
                key = key_of(view, transfer.bundle, self.parity)
                known[key] = view.broker_names[transfer.destination]
        return {**memory, REMEMBERED: known}


@dataclass(slots=True)
class AvgPlacement:
    """One placing; mutable, never kept between steps."""

    booking: Booking
    known: dict[str, str]
    parity: bool

    @property
    def memory(self) -> Memory:
        """The state of the draws, and the destinations."""
        return {**self.booking.draws, REMEMBERED: self.known}

    def choose(self, bundle: Unowned) -> Choice:
        """See `Placement.choose`."""
        if bundle.pinned >= 0:
            return Choice(bundle.pinned, self.booking.book(bundle, bundle.pinned))
        names = self.booking.view.broker_names
        candidates = self.booking.candidates(bundle)
        key = key_of(self.booking.view, bundle.at, self.parity) if bundle.at >= 0 else bundle.name
        to = self.known.get(key)
        meant = [broker for broker in candidates if names[broker] == to]
        choice = self.booking.draw(bundle, meant or candidates)
        if choice.broker >= 0:
            self.known[key] = names[choice.broker]
        return choice


def key_of(view: ClusterView, bundle: int, parity: bool) -> str:
    """Under what a bundle's destination is remembered."""
    if not parity:
        return view.bundle_names[bundle]
    figures = (*view.bundle_short[bundle].tolist(), *view.bundle_long[bundle].tolist())
    return repr((*figures, int(view.bundle_topics[bundle])))
