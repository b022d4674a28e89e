"""Policies in the form that filters ask: patterns compiled, answers kept.

Rules (Pulsar's namespace isolation, pulsar.md §4.1 and §4.2):

1. A pattern fits a name as a whole, as in Pulsar. A broker fits by its id or by its host, the id
   without its port.
2. The first isolation policy that fits a namespace counts, in the order in which they were sent.
3. A broker that is a primary of any policy is not shared: it serves only what a policy sends.
4. A broker without a domain of its own is in its zone, as its reports say it, else in `default`.

Called by `controller.strategies.filters` and by the core, which makes them of what was sent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from controller.strategies.view import Bools
from controller.wire.policies import PolicySet

DEFAULT_DOMAIN = "default"

_PORT = re.compile(r":\d+\Z")
Patterns = tuple[re.Pattern[str], ...]


@dataclass(frozen=True, slots=True)
class Isolation:
    """One isolation policy."""

    name: str
    namespaces: Patterns
    primary: Patterns
    secondary: Patterns
    min_limit: int


@dataclass(frozen=True, slots=True, eq=False)
class Policies:
    """All policies of a cluster. Two are the same only if they are one object: they are cached."""

    isolation: tuple[Isolation, ...]
    groups: Mapping[str, str]  # namespace -> anti-affinity group
    domains: Mapping[str, str]  # broker -> failure domain


@dataclass(frozen=True, slots=True)
class Roles:
    """Which brokers fit which isolation policy: one flag per broker, by position of the policy."""

    primary: tuple[Bools, ...]
    secondary: tuple[Bools, ...]
    shared: Bools  # in nobody's primary list


NO_POLICIES = Policies((), {}, {})


@lru_cache(maxsize=64)
def compiled(policies: PolicySet) -> Policies:
    """Policies that `problem_of` finds nothing wrong with; equal ones give the same object."""
    return Policies(
        tuple(
            Isolation(
                one.name,
                _compiled(one.namespaces),
                _compiled(one.primary),
                _compiled(one.secondary),
                one.minLimit,
            )
            for one in policies.isolation
        ),
        {name: one.group for one in policies.antiAffinity for name in one.namespaces},
        {name: one.name for one in policies.failureDomains for name in one.brokers},
    )


@lru_cache(maxsize=200_000)
def isolation_of(policies: Policies, namespace: str) -> int:
    """Position of the isolation policy of a namespace, -1 = none (rule 2)."""
    for at, one in enumerate(policies.isolation):
        if _fits(one.namespaces, namespace):
            return at
    return -1


def has_policy(policies: Policies, namespace: str) -> bool:
    """True if an isolation policy or an anti-affinity group speaks of the namespace."""
    return namespace in policies.groups or isolation_of(policies, namespace) >= 0


@lru_cache(maxsize=64)
def roles_of(policies: Policies, brokers: tuple[str, ...]) -> Roles:
    """Which brokers fit which policy (rules 1 and 3)."""
    primary = tuple(_flags(one.primary, brokers) for one in policies.isolation)
    secondary = tuple(_flags(one.secondary, brokers) for one in policies.isolation)
    shared = np.ones(len(brokers), np.bool_)
    for flags in primary:
        shared &= ~flags
    return Roles(primary, secondary, shared)


def domain_of(policies: Policies, broker: str, zone: str | None) -> str:
    """Failure domain of a broker (rule 4)."""
    return policies.domains.get(broker) or zone or DEFAULT_DOMAIN


def _compiled(patterns: tuple[str, ...]) -> Patterns:
    return tuple(map(re.compile, patterns))


def _fits(patterns: Patterns, name: str) -> bool:
    return any(pattern.fullmatch(name) for pattern in patterns)


def _flags(patterns: Patterns, brokers: tuple[str, ...]) -> Bools:
    fits = [_fits(patterns, name) or _fits(patterns, _PORT.sub("", name)) for name in brokers]
    return np.array(fits, np.bool_)
