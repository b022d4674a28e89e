"""Builds cluster views for strategy tests: brokers and bundles in plain words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from controller.strategies.view import ClusterView


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


def make_view(
    points: Mapping[str, float],
    bundles: Sequence[B],
    *,
    frozen: Sequence[str] = (),
    rates: Mapping[str, float] | None = None,
    throughputs: Mapping[str, float] | None = None,
    topics: Mapping[str, int] | None = None,
) -> ClusterView:
    """`points` are load ratios in points by broker; rates default to the sums of the bundles."""
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
        now_ms=0,
        broker_names=names,
        broker_load=loads,
        broker_load_ema=loads.copy(),
        broker_rate=_totals(names, bundles, "rate", rates),
        broker_throughput=_totals(names, bundles, "throughput", throughputs),
        broker_topics=np.array([(topics or {}).get(n, 0) for n in names], np.int64),
        broker_bundles=np.array([int((owner == i).sum()) for i in range(len(names))], np.int64),
        broker_capacity=np.full(len(names), 100.0),
        broker_is_live=np.ones(len(names), np.bool_),
        broker_can_shed=np.array([n not in frozen for n in names], np.bool_),
        bundle_names=[
            f"{b.namespace}/0x{lo:08x}_0x{lo + width:08x}"
            for b, lo in zip(bundles, lower.tolist(), strict=True)
        ],
        bundle_owner=owner,
        bundle_is_movable=np.array([b.is_movable and not b.is_pinned for b in bundles], np.bool_),
        bundle_is_excluded=np.array([b.is_excluded for b in bundles], np.bool_),
        bundle_is_pinned=np.array([b.is_pinned for b in bundles], np.bool_),
        bundle_left=np.array([index.get(b.left or "", -1) for b in bundles], np.int64),
        bundle_rate=np.array([b.rate for b in bundles], np.float64),
        bundle_throughput=np.array([b.throughput for b in bundles], np.float64),
        bundle_load=np.array([b.load / 100.0 for b in bundles], np.float64),
        bundle_rate_now=np.array([b.rate for b in bundles], np.float64),
        bundle_throughput_now=np.array([b.throughput for b in bundles], np.float64),
        bundle_topics=np.array([b.topics for b in bundles], np.int64),
        bundle_sessions=np.array([b.sessions for b in bundles], np.int64),
        bundle_namespace=ns,
        bundle_lower=lower,
        bundle_upper=lower + width,
        bundle_topic_boundary=np.array([b.topic_boundary for b in bundles], np.int64),
        namespaces=namespaces,
        namespace_bundles=np.bincount(ns, minlength=len(namespaces)),
        namespace_rank=ranks,
    )


def _totals(
    names: Sequence[str],
    bundles: Sequence[B],
    figure: str,
    given: Mapping[str, float] | None,
) -> np.ndarray:
    """A figure of each broker: given, or the sum over its bundles."""
    sums = {n: sum(getattr(b, figure) for b in bundles if b.owner == n) for n in names}
    return np.array([(given or {}).get(n, sums[n]) for n in names], np.float64)
