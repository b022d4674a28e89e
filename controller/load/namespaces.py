"""Namespaces whose bundles are not shed, and so need no place among the largest of a report.

Rules of Pulsar's TopKBundles: heartbeat and SLA namespaces belong to one broker, pulsar/system
holds the load balancer's own topics, operators may exclude more by name, and namespaces with an
isolation policy or an anti-affinity group are left alone unless a switch says otherwise. The
reporter calls this, and the core for what belongs to a broker.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

SYSTEM_NAMESPACE = "pulsar/system"


def belongs_to_a_broker(namespace: str) -> bool:
    """True for heartbeat and SLA namespaces, whose bundles never leave their broker.

    `pulsar/<cluster>/<host:port>` (heartbeat v1), `pulsar/<host:port>` (v2), `sla-monitor/…`.
    """
    is_heartbeat = namespace.startswith("pulsar/") and ":" in namespace
    return is_heartbeat or namespace.startswith("sla-monitor/")


def is_never_shed(namespace: str) -> bool:
    """True for the namespaces that no setting makes movable."""
    return namespace == SYSTEM_NAMESPACE or belongs_to_a_broker(namespace)


def left_out(
    namespaces: Sequence[str],
    excluded: Collection[str] = (),
    with_policies: Collection[str] = (),
    *,
    sheds_with_policies: bool = False,
) -> NDArray[np.bool_]:
    """Which of n namespaces (one per bundle, repeats allowed) have no place in a top-k report.

    excluded: loadBalancerSheddingExcludedNamespaces, exact names; with_policies: namespaces with
    an isolation policy or an anti-affinity group, left out too unless `sheds_with_policies`
    (loadBalancerSheddingBundlesWithPoliciesEnabled).
    """
    out = {*excluded} if sheds_with_policies else {*excluded, *with_policies}
    out |= {name for name in set(namespaces) if is_never_shed(name)}
    return np.fromiter((name in out for name in namespaces), np.bool_, len(namespaces))
