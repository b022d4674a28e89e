"""The cluster view: the frozen picture that a decision is made on, in-flight moves applied.

Built by `controller.core.view` for the job, and by `controller.decide` from a recorded scenario;
read by every strategy. Arrays are read-only and must not be written. Brokers are indexed in name
order, bundles by their place in the controller's table; ties between bundles are broken by
`bundle_order` (namespace, lower bound), never by place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from controller.wire.topics import TopicLoads

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

RATE_IN, RATE_OUT, THROUGHPUT_IN, THROUGHPUT_OUT = range(4)
"""Columns of arrays of four figures: messages/s in and out, bytes/s in and out."""


class BrokerFilter(Protocol):
    """Which brokers the rules of the cluster allow for a bundle (pulsar.md §4.2)."""

    def allowed(self, bundle: int) -> Bools | None:
        """A flag for each broker of the view; None = the rules cannot be read, so nothing moves."""
        ...


@dataclass(frozen=True, slots=True)
class ClusterView:
    """One moment of one cluster. m brokers, n bundles.

    Loads are load ratios (1.0 = full), rates messages/s, throughputs bytes/s, both in + out.
    """

    now_ms: int
    broker_names: tuple[str, ...]  # m, ascending
    broker_load: Floats  # m: latest load ratio, in-flight moves applied
    broker_load_ema: Floats  # m: smoothed, in-flight moves applied
    broker_rate: Floats  # m
    broker_throughput: Floats  # m
    broker_throughput_ema: Floats  # m: smoothed
    broker_long_rate: Floats  # m: sum of the long-term averages of its bundles
    broker_topics: Ints  # m
    broker_bundles: Ints  # m: bundles that it serves or will serve
    broker_capacity: Floats  # m: cpu limit in points; 0 = unknown
    broker_reported_ms: Ints  # m: when its load was reported, 0 = no load known
    broker_unloaded_ms: Ints  # m: when a bundle last left it, 0 = never
    broker_is_registered: Bools  # m: speaks
    broker_is_live: Bools  # m: may be given a bundle: speaks, and is neither drained nor leaving
    broker_can_shed: Bools  # m: load known and fresh, not cooling: may lose or gain load
    bundle_names: Sequence[str]  # n
    bundle_owner: Ints  # n: broker index, -1 = not owned or not settled
    bundle_is_movable: Bools  # n: settled, not cooling, not excluded
    bundle_is_settled: Bools  # n: owned, not in flight, not pinned
    bundle_is_reported: Bools  # n: some report told of it
    bundle_is_splitting: Bools  # n: being split now
    bundle_is_excluded: Bools  # n: namespaces that are never shed or split
    bundle_is_pinned: Bools  # n: an operator keeps it where it is, whole
    bundle_has_policy: Bools  # n: isolation policy or anti-affinity group
    bundle_left: Ints  # n: broker index it may not return to now, -1 = none
    bundle_short: Floats  # n x 4: short-term averages
    bundle_long: Floats  # n x 4: long-term averages
    bundle_now: Floats  # n x 4: last sample
    bundle_rate: Floats  # n: short-term average
    bundle_throughput: Floats  # n: short-term average
    bundle_load: Floats  # n: load ratio attributed on its owner
    bundle_topics: Ints  # n
    bundle_sessions: Ints  # n: producers + consumers
    bundle_namespace: Ints  # n: index into `namespaces`
    bundle_lower: Ints  # n
    bundle_upper: Ints  # n
    bundle_topic_boundary: Ints  # n: boundary that halves the topic count, 0 = unknown
    namespaces: tuple[str, ...]
    namespace_bundles: Ints  # bundles of each namespace that exist now; -1 = not known
    namespace_rank: Ints  # position of each namespace in name order
    topics: Mapping[int, TopicLoads] = field(
        default_factory=dict
    )  # by bundle, where known; by hash
    tops: Mapping[int, Ints] | None = None  # by broker: its bundles as reported, smallest first
    filter: BrokerFilter | None = None  # None = every live broker may have every bundle

    def order(self, bundles: Ints, by: Floats | None = None) -> Ints:
        """Sorts bundle indices: `by` descending if given, then namespace, then lower bound."""
        keys: list[npt.NDArray[np.generic]] = [
            self.bundle_lower[bundles],
            self.namespace_rank[self.bundle_namespace[bundles]],
        ]
        if by is not None:
            keys.append(-by)
        return bundles[np.lexsort(keys)]

    def taking_part(self, parity: bool) -> Bools:
        """Brokers that a round looks at: m flags.

        With `parity` all that may be given a bundle and whose load is known, however old it is:
        Pulsar's modular manager trusts a report while its node exists.
        """
        has_load = self.broker_reported_ms > 0
        return has_load & self.broker_is_live if parity else self.broker_can_shed

    def allowed(self, bundle: int) -> Bools | None:
        """Brokers that the filter leaves for a bundle, None if the filter failed."""
        if self.filter is None:
            return self.broker_is_live
        return self.filter.allowed(bundle)

    def may_go(self, bundle: int, broker: int) -> bool:
        """False if the filter keeps the bundle from the broker; nothing to look up without one."""
        if self.filter is None:
            return True
        allowed = self.filter.allowed(bundle)
        return allowed is not None and bool(allowed[broker])


class ByOwner:
    """Some bundles of a view grouped by owner; looking one owner up costs nothing more."""

    def __init__(self, view: ClusterView, which: Bools) -> None:
        bundles = np.flatnonzero(which & (view.bundle_owner >= 0))
        self._bundles = bundles[np.argsort(view.bundle_owner[bundles], kind="stable")]
        owners = np.arange(len(view.broker_names) + 1)
        self._starts = np.searchsorted(view.bundle_owner[self._bundles], owners)

    def of(self, owner: int) -> Ints:
        """Bundles of one broker, in ascending order."""
        return self._bundles[self._starts[owner] : self._starts[owner + 1]]
