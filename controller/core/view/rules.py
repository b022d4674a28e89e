"""The rules of the cluster on a view: policies that operators sent, and what brokers say.

A view gets a filter only if there is something to filter: policies, filter settings that are not
the default, or a broker that does not serve all kinds of topics. Without, nothing is computed.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from controller.core.state.columns import Columns
from controller.core.state.memory import Traits
from controller.core.state.tables import ASSIGNING, RELEASING
from controller.core.work import Work
from controller.strategies.filters import BrokerTraits, Pipeline
from controller.strategies.params import FilterParams
from controller.strategies.policies import (
    NO_POLICIES,
    Policies,
    compiled,
    domain_of,
    has_policy,
)
from controller.strategies.view import ClusterView, Ints

SILENT = Traits()  # of a broker whose reports say nothing


def with_rules(work: Work, view: ClusterView, index: Ints) -> ClusterView:
    """The view with its filter; `index` leads from broker slots to the view's indices."""
    memory, params = work.state.memory, work.settings.filters
    kinds_served = all(
        one.serves_persistent and one.serves_non_persistent for one in memory.traits.values()
    )
    if memory.policies is None and params == FilterParams() and kinds_served:
        return view
    policies = NO_POLICIES if memory.policies is None else compiled(memory.policies)
    pipeline = Pipeline(
        view,
        policies,
        params,
        _traits(work, policies, view.broker_names),
        index[_expected(work)],
        counts_load=not work.settings.parity,
    )
    has = np.array([has_policy(policies, name) for name in view.namespaces] or [False], np.bool_)
    return replace(view, filter=pipeline, bundle_has_policy=has[view.bundle_namespace])


def keepers(bundles: Columns) -> Ints:
    """By bundle, the slot of the broker that serves and keeps it or is about to get it, or -1."""
    state, destination = bundles["state"], bundles["destination"]
    coming = np.isin(state, (ASSIGNING, RELEASING)) & (destination >= 0)
    kept = np.where(coming, destination, np.where(state == RELEASING, -1, bundles["serving"]))
    return kept.astype(np.int64)


def _expected(work: Work) -> Ints:
    """As `keepers`, with our decisions that the channel does not show yet."""
    bundles, brokers = work.state.bundles, work.state.brokers
    keeper = keepers(bundles)
    for name, move in work.state.memory.moves.items():
        if move.moves_load and move.seen_ms == 0:
            keeper[bundles.slots[name]] = brokers.slots.get(move.destination or "", -1)
    return keeper


def _traits(work: Work, policies: Policies, brokers: tuple[str, ...]) -> BrokerTraits:
    said = [work.state.memory.traits.get(name, SILENT) for name in brokers]
    return BrokerTraits(
        tuple(one.version for one in said),
        tuple(domain_of(policies, name, one.zone) for name, one in zip(brokers, said, strict=True)),
        np.array([one.serves_persistent for one in said], np.bool_),
        np.array([one.serves_non_persistent for one in said], np.bool_),
    )
