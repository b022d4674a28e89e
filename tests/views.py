"""Builds cluster views for strategy tests: brokers and bundles in plain words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from controller.strategies.view import ClusterView

NOW_MS = 10_000_000


@dataclass(frozen=True)
class B:
    """A bundle of a test: rates in msg/s, throughputs in byte/s, load in points."""

    owner: str | None
    rate: float = 0.0
    throughput: float = 0.0
    topics: int = 10
    sessions: int = 0
    load: float = 0.0
    namespace: str = "t/n"
    is_movable: bool = True
    is_excluded: bool = False
    is_pinned: bool = False
    left: str | None = None
    topic_boundary: int = 0
    is_splitting: bool = False
    has_policy: bool = False


def make_view(
    points: Mapping[str, float],
    bundles: Sequence[B],
    *,
    frozen: Sequence[str] = (),
    rates: Mapping[str, float] | None = None,
    throughputs: Mapping[str, float] | None = None,
    topics: Mapping[str, int] | None = None,
    capacities: Mapping[str, float] | None = None,
    silent: Sequence[str] = (),
    unloaded: Mapping[str, int] | None = None,
) -> ClusterView:
    """`points` are load ratios in points by broker; rates default to the sums of the bundles.

    Rates and throughputs of bundles go in; `unloaded`: ms since a bundle last left the broker.
    """
    names = tuple(sorted(points))
    index = {name: i for i, name in enumerate(names)}
    namespaces = tuple(dict.fromkeys(b.namespace for b in bundles)) or ("t/n",)
    width = 0x1000000
    owner = np.array([index[b.owner] if b.owner else -1 for b in bundles], np.int64)
    lower = np.arange(len(bundles), dtype=np.int64) * width

    loads = np.array([points[n] / 100.0 for n in names], np.float64)
    ns = np.array([namespaces.index(b.namespace) for b in bundles], np.int64)
    ranks = np.array([sorted(namespaces).index(n) for n in namespaces], np.int64)
    return ClusterView(
        now_ms=NOW_MS,
        broker_names=names,
        broker_load=loads,
        broker_load_ema=loads.copy(),
        broker_rate=_totals(names, bundles, "rate", rates),
        broker_throughput=_totals(names, bundles, "throughput", throughputs),
        broker_throughput_ema=_totals(names, bundles, "throughput", throughputs),
        broker_long_rate=_totals(names, bundles, "rate", rates),
        broker_topics=np.array([(topics or {}).get(n, 0) for n in names], np.int64),
        broker_bundles=np.array([int((owner == i).sum()) for i in range(len(names))], np.int64),
        broker_capacity=np.array([(capacities or {}).get(n, 100.0) for n in names], np.float64),
        broker_reported_ms=np.array([0 if n in silent else NOW_MS for n in names], np.int64),
        broker_unloaded_ms=np.array(
            [NOW_MS - unloaded[n] if unloaded and n in unloaded else 0 for n in names], np.int64
        ),
        broker_is_registered=np.ones(len(names), np.bool_),
        broker_is_live=np.ones(len(names), np.bool_),
        broker_can_shed=np.array([n not in (*frozen, *silent) for n in names], np.bool_),
        bundle_names=[
            f"{b.namespace}/0x{lo:08x}_0x{lo + width:08x}"
            for b, lo in zip(bundles, lower.tolist(), strict=True)
        ],
        bundle_owner=owner,
        bundle_left=np.array([index.get(b.left or "", -1) for b in bundles], np.int64),
        bundle_namespace=ns,
        bundle_lower=lower,
        bundle_upper=lower + width,
        namespaces=namespaces,
        namespace_bundles=np.bincount(ns, minlength=len(namespaces)),
        namespace_rank=ranks,
        **_flags(bundles),
        **_figures(bundles),
    )


def _flags(bundles: Sequence[B]) -> dict[str, Any]:
    """What is true of each bundle."""
    return {
        "bundle_is_movable": np.array([b.is_movable and not b.is_pinned for b in bundles], bool),
        "bundle_is_settled": np.array([not b.is_pinned and b.owner is not None for b in bundles]),
        "bundle_is_reported": np.ones(len(bundles), np.bool_),
        "bundle_is_splitting": np.array([b.is_splitting for b in bundles], np.bool_),
        "bundle_has_policy": np.array([b.has_policy for b in bundles], np.bool_),
        "bundle_is_excluded": np.array([b.is_excluded for b in bundles], np.bool_),
        "bundle_is_pinned": np.array([b.is_pinned for b in bundles], np.bool_),
    }


def _figures(bundles: Sequence[B]) -> dict[str, Any]:
    """What each bundle carries."""
    return {
        "bundle_short": _four(bundles),
        "bundle_long": _four(bundles),
        "bundle_now": _four(bundles),
        "bundle_rate": np.array([b.rate for b in bundles], np.float64),
        "bundle_throughput": np.array([b.throughput for b in bundles], np.float64),
        "bundle_load": np.array([b.load / 100.0 for b in bundles], np.float64),
        "bundle_topics": np.array([b.topics for b in bundles], np.int64),
        "bundle_sessions": np.array([b.sessions for b in bundles], np.int64),
        "bundle_topic_boundary": np.array([b.topic_boundary for b in bundles], np.int64),
    }


def _four(bundles: Sequence[B]) -> np.ndarray:
    """Four figures of each bundle: all of its traffic goes in."""
    return np.array([(b.rate, 0.0, b.throughput, 0.0) for b in bundles], np.float64).reshape(-1, 4)


def _totals(
    names: Sequence[str],
    bundles: Sequence[B],
    figure: str,
    given: Mapping[str, float] | None,
) -> np.ndarray:
    """A figure of each broker: given, or the sum over its bundles."""
    sums = {n: sum(getattr(b, figure) for b in bundles if b.owner == n) for n in names}
    return np.array([(given or {}).get(n, sums[n]) for n in names], np.float64)
