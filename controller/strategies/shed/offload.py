"""Which bundles a broker gives away to lose a given throughput: for overload and threshold."""

from __future__ import annotations

from controller.strategies.verdicts import Reason, Verdict
from controller.strategies.view import ByOwner, ClusterView

EXTRA_RATIO = 0.05
"""Shed so much more than the excess, so that the broker is not at its limit again at once."""


def biggest_until(
    view: ClusterView, movable: ByOwner, broker: int, amount: float, with_idle: bool
) -> list[int]:
    """Bundles by short-term throughput, biggest first, until they sum up to `amount`.

    At least one; none from a broker that has only one. `with_idle`: also bundles without
    traffic, which Pulsar takes where nothing else is left.
    """
    if view.broker_bundles[broker] <= 1:
        return []
    own = movable.of(broker)
    taken: list[int] = []
    marked = 0.0
    for bundle in view.order(own, view.bundle_throughput[own]).tolist():
        if taken and marked >= amount:
            break
        size = float(view.bundle_throughput[bundle])
        if size <= 0.0 and not with_idle:
            break
        taken.append(bundle)
        marked += size
    return taken


def nothing_to_move(view: ClusterView, movable: ByOwner, broker: int, amount: float) -> Verdict:
    """Why a broker that should shed does not."""
    held = int(view.broker_bundles[broker])
    is_sole = held == 1
    return Verdict(
        view.broker_names[broker],
        Reason.SOLE_BUNDLE if is_sole else Reason.NO_BUNDLES,
        (
            ("bundles", float(held)),
            ("movable", float(len(movable.of(broker)))),
            ("amount_byte/s", amount),
        ),
        flips_if="its bundle is split" if is_sole else "a bundle with traffic becomes movable",
    )
