"""One pair of `transfer`: which bundles go from the hot broker to the cold one, and back.

Rules (pulsar.md §3.7, step 4):

1. The hot broker's top bundles are looked at from the smallest on. One of them always stays.
2. A bundle that would pass the target may still go, if bundles of the cold broker that come back
   for it leave both brokers below the hot one's throughput, the hot one clearly (three quarters)
   and not below the cold one. What was passed over of the cold broker is not looked at again.
3. The first bundle that neither fits nor can be swapped ends the pair.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from controller.load.top import top_k
from controller.strategies.params import TransferParams
from controller.strategies.protocols import UNNAMED, Transfer
from controller.strategies.shed.transfer_stats import Spread
from controller.strategies.view import THROUGHPUT_IN, THROUGHPUT_OUT, ClusterView, Ints

CLEARLY_BELOW = 0.75
"""After a swap the hot broker has less than this share of its throughput."""


@dataclass(slots=True)
class Pair:
    """Two brokers at work; throughputs in bytes/s."""

    hot: int
    cold: int
    top: list[int]  # bundles of the hot broker, smallest first
    back: Iterator[int] | None  # bundles of the cold broker; None = it may not swap
    hot_bytes: float
    cold_bytes: float
    target: float
    load_per_byte: float
    params: TransferParams
    parity: bool
    marked: float = 0.0  # bytes/s that go
    gained: float = 0.0  # bytes/s that come back
    transfers: list[Transfer] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        view: ClusterView,
        spread: Spread,
        hot: int,
        cold: int,
        params: TransferParams,
        parity: bool,
    ) -> Pair:
        """The pair before anything moved."""
        load = float(spread.load[hot])
        offload = (load - float(spread.load[cold])) / 2.0
        hot_bytes = float(view.broker_throughput[hot])
        may_swap = params.names_destination and _has_report(view, cold)
        return cls(
            hot,
            cold,
            _top(view, hot, params).tolist(),
            iter(_top(view, cold, params).tolist()) if may_swap else None,
            hot_bytes,
            float(view.broker_throughput[cold]),
            hot_bytes * offload / load if load > 0.0 else 0.0,
            load / hot_bytes if hot_bytes > 0.0 else 0.0,
            params,
            parity,
        )


def work_off(view: ClusterView, pair: Pair, reason: str) -> None:
    """Chooses the transfers of a pair, into `pair.transfers`."""
    remaining = len(pair.top)
    detail = f"{view.broker_names[pair.hot]} against {view.broker_names[pair.cold]}"
    for bundle in pair.top:
        if not view.bundle_is_movable[bundle] or view.bundle_owner[bundle] != pair.hot:
            continue
        if not _may_go(view, bundle, pair.hot, pair.cold, pair):
            continue
        if remaining <= 1:
            break
        size = _bytes(view, bundle)
        if size == 0.0:
            continue
        returning: list[int] = []
        if pair.marked - pair.gained + size > pair.target:
            swap = _swap(view, pair, size)
            if swap is None:
                break
            returning = swap
        for other in returning:
            pair.transfers.append(Transfer(other, pair.cold, pair.hot, reason, f"swap, {detail}"))
            if not pair.parity or pair.params.counts_gain:
                pair.gained += _bytes(view, other)
        to = pair.cold if pair.params.names_destination else UNNAMED
        pair.transfers.append(Transfer(bundle, pair.hot, to, reason, detail))
        pair.marked += size
        remaining -= 1


def _swap(view: ClusterView, pair: Pair, size: float) -> list[int] | None:
    """Bundles of the cold broker that make room for one of `size`; None = there are none."""
    if pair.back is None:
        return None
    net = pair.marked - pair.gained + size
    hot_after, cold_after = pair.hot_bytes - net, pair.cold_bytes + net
    may_move = view.bundle_is_settled if pair.parity else view.bundle_is_movable
    found: list[int] = []
    for bundle in pair.back:
        if not may_move[bundle]:
            continue
        if not pair.parity and view.bundle_owner[bundle] != pair.cold:
            continue
        if not _may_go(view, bundle, pair.cold, pair.hot, pair):
            continue
        back = _bytes(view, bundle)
        if back == 0.0:
            continue
        if not (hot_after + back < pair.hot_bytes and cold_after - back < pair.hot_bytes):
            continue
        found.append(bundle)
        hot_after, cold_after = hot_after + back, cold_after - back
        if cold_after <= hot_after < pair.hot_bytes * CLEARLY_BELOW:
            return found
    return None


def _may_go(view: ClusterView, bundle: int, source: int, destination: int, pair: Pair) -> bool:
    """True if the rules of the cluster let the bundle go there (or anywhere, for an unload)."""
    if not pair.parity and view.bundle_left[bundle] == destination:
        return False
    if view.bundle_has_policy[bundle] and not pair.params.sheds_bundles_with_policies:
        return False
    allowed = view.allowed(bundle)
    if allowed is None or not allowed[destination]:
        return False
    if pair.params.names_destination:
        return source != destination
    others = allowed.copy()
    others[source] = False
    return bool(others.any())


def _bytes(view: ClusterView, bundle: int) -> float:
    """Throughput of the last sample, in + out."""
    now = view.bundle_now[bundle]
    return float(now[THROUGHPUT_IN] + now[THROUGHPUT_OUT])


def _has_report(view: ClusterView, broker: int) -> bool:
    return view.tops is None or broker in view.tops


def _top(view: ClusterView, broker: int, params: TransferParams) -> Ints:
    """The largest bundles of a broker as it reported them, or as it would have."""
    if view.tops is not None:
        return view.tops.get(broker, np.empty(0, np.int64))
    own = view.order(np.flatnonzero((view.bundle_owner == broker) & ~view.bundle_is_excluded))
    figures = np.zeros((len(own), 7))
    figures[:, :4] = view.bundle_now[own]
    figures[:, 4] = view.bundle_sessions[own]
    figures[:, 5] = view.bundle_topics[own]
    return own[top_k(figures, params.top_bundles_max, np.arange(len(own)))]
