"""What all placements that draw share: candidates, the load of an unknown bundle, and bookings.

A placement gives bundles to brokers one by one. With `counts` what it gave away counts for the
next choice, so that many bundles placed at once spread out; Pulsar records this too
(preallocation), but most of its strategies do not read it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from controller.strategies.chance import KIND, Chance
from controller.strategies.memory import Memory
from controller.strategies.protocols import Choice, Unowned
from controller.strategies.verdicts import Reason, Verdict
from controller.strategies.view import RATE_IN, RATE_OUT, ClusterView, Floats

MIN_BUNDLE_LOAD = 0.001
"""Assumed load ratio of a bundle when no bundle has any: enough to spread a cold start."""
NEW_BUNDLE_RATE = 100.0
"""Messages/s, in + out, expected of a bundle without traffic so far (pulsar.md §2.2)."""


def usual_load(view: ClusterView) -> float:
    """Load ratio to expect of a bundle of which nothing is known; in any order of the bundles."""
    known = view.bundle_load[view.bundle_load > 0.0].tolist()
    return max(math.fsum(known) / len(known) if known else 0.0, MIN_BUNDLE_LOAD)


def expected_rate(long: Floats) -> float:
    """Messages/s to expect of a bundle with these four long-term averages."""
    return float(long[RATE_IN] + long[RATE_OUT]) or NEW_BUNDLE_RATE


class Booking:
    """Loads and rates of the brokers with what was given away, and the draws."""

    def __init__(self, view: ClusterView, memory: Memory, *, counts: bool) -> None:
        self.view = view
        self.counts = counts
        self.load = view.broker_load.copy()
        self.load_ema = view.broker_load_ema.copy()
        self.long_rate = view.broker_long_rate.copy()
        self.rate = view.broker_rate.copy()
        self.bundles = view.broker_bundles.copy()
        self.usual = usual_load(view)
        kept = memory.get(KIND, {})
        self.chance = Chance(int(kept["state"])) if "state" in kept else Chance()

    @property
    def draws(self) -> dict[str, dict[str, int | float | str]]:
        """The generator's part of the memory."""
        return {KIND: {"state": self.chance.state}}

    def candidates(self, bundle: Unowned) -> list[int]:
        """Brokers to choose from; the one to avoid only where there is no other."""
        if bundle.candidates is not None:
            found = bundle.candidates.tolist()
        else:
            found = np.flatnonzero(self.view.broker_is_live).tolist()
        return [b for b in found if b != bundle.avoid] or found

    def book(self, bundle: Unowned, broker: int) -> float:
        """Adds the bundle to a broker; returns the load ratio that comes with it."""
        load = bundle.load if bundle.load > 0.0 else self.usual
        if self.counts:
            self.load[broker] += load
            self.load_ema[broker] += load
            self.long_rate[broker] += self._rate(bundle)
            self.rate[broker] += self.view.bundle_rate[bundle.at] if bundle.at >= 0 else 0.0
            self.bundles[broker] += 1
        return load

    def draw(self, bundle: Unowned, best: Sequence[int]) -> Choice:
        """One of the brokers that cannot be told apart, booked; or a refusal."""
        if not best:
            verdict = Verdict(bundle.name, Reason.NO_BROKERS, flips_if="a live broker may have it")
            return Choice(-1, 0.0, verdict)
        broker = self.chance.one_of(best)
        return Choice(broker, self.book(bundle, broker), None, tuple(best))

    def _rate(self, bundle: Unowned) -> float:
        if bundle.at < 0:
            return NEW_BUNDLE_RATE
        return expected_rate(self.view.bundle_long[bundle.at])
