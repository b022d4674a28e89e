"""The filter pipeline: which brokers may be given a bundle, by the rules of the cluster.

Rules, in this order (pulsar.md §4.1 and §4.2):

1. Isolation. A namespace with a policy is served by its live primaries, and by its secondaries
   too while fewer than `min_limit` primaries are live; any other namespace by shared brokers,
   those that are nobody's primary. Hard: nobody left means no broker.
2. Persistence: brokers that serve the kind of topics that is asked for, which is hard too; if none
   is named, those that serve both, where there are any.
3. Topic cap: brokers with fewer than `broker_topics_max` topics.
4. Anti-affinity: with `uses_failure_domains` the domains whose candidates have the fewest bundles
   of the group; then the brokers with the fewest.
5. Even spread, if `is_spread_even` or for pulsar/system: brokers with the fewest bundles of the
   namespace.
6. Version, if `prefers_later_versions`: brokers of the highest version among those left.
7. For a placement only: brokers above `overloaded_points` are left out while another one is below
   that, first among those left so far, then among those of rules 1 and 2.

Rules 3 to 6 are soft: one that leaves nobody is passed over. Counts are of owned bundles and of
those on their way, without the bundle that is asked about. What belongs to one broker (heartbeat,
SLA monitor) is not filtered.

Different from Pulsar, on purpose: rule 7 looks before the strategy chooses. Pulsar lets it choose
and, if that broker is overloaded, asks it again without rules 3 to 6, even where they leave others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from controller.load.namespaces import SYSTEM_NAMESPACE, belongs_to_a_broker
from controller.strategies.params import FilterParams
from controller.strategies.policies import Policies, Roles, isolation_of, roles_of
from controller.strategies.verdicts import Reason, Verdict
from controller.strategies.versions import version_key
from controller.strategies.view import Bools, ClusterView, Ints

PERSISTENT, NON_PERSISTENT = "persistent", "non-persistent"


@dataclass(frozen=True, slots=True)
class BrokerTraits:
    """What brokers say of themselves besides their load; by view index."""

    versions: tuple[str | None, ...]
    domains: tuple[str, ...]
    serves_persistent: Bools
    serves_non_persistent: Bools


@dataclass(frozen=True, slots=True)
class Candidates:
    """Brokers that a placement may choose from."""

    brokers: Ints  # view indices, ascending; empty = isolation leaves nobody
    is_cap_skipped: bool = False  # all are full, and one of them is taken all the same


def isolated(view: ClusterView, policies: Policies, roles: Roles, namespace: str) -> Bools:
    """Rule 1."""
    live = view.broker_is_live
    if belongs_to_a_broker(namespace):
        return live
    at = isolation_of(policies, namespace)
    if at < 0:
        return live & roles.shared
    primaries = live & roles.primary[at]
    if int(primaries.sum()) >= policies.isolation[at].min_limit:
        return primaries
    return primaries | (live & roles.secondary[at])


def able(traits: BrokerTraits, left: Bools, kind: str | None) -> Bools:
    """Rule 2; `kind` None = both."""
    if kind != NON_PERSISTENT:
        left = left & traits.serves_persistent
    return left if kind == PERSISTENT else left & traits.serves_non_persistent


def apart(left: Bools, counts: Ints, domains: tuple[str, ...] | None) -> Bools:
    """Rule 4; `domains` None = they do not count."""
    if domains is not None:
        sums: dict[str, int] = {}
        for at in np.flatnonzero(left).tolist():
            sums[domains[at]] = sums.get(domains[at], 0) + int(counts[at])
        fewest = min(sums.values(), default=0)
        left = left & np.array([sums.get(name) == fewest for name in domains], np.bool_)
    return least(left, counts)


def least(left: Bools, counts: Ints) -> Bools:
    """Brokers with the least count (rules 4 and 5)."""
    return left & (counts == counts[left].min()) if left.any() else left


def latest(left: Bools, versions: tuple[str | None, ...]) -> Bools:
    """Rule 6."""
    found = {at: version_key(versions[at]) for at in np.flatnonzero(left).tolist()}
    highest = max(found.values(), default=version_key(None))
    return left & np.array([found.get(at) == highest for at in range(len(left))], np.bool_)


class Pipeline:
    """The rules on one view; what is placed since then is booked, so that the next one counts it.

    Answers are kept per namespace and present broker, so that asking for every bundle costs
    little. Booking k bundles leaves what a new pipeline on a view with these k pending would see.
    """

    def __init__(
        self,
        view: ClusterView,
        policies: Policies,
        params: FilterParams,
        traits: BrokerTraits,
        keeper: Ints,
        *,
        counts_load: bool,
    ) -> None:
        """`keeper`: by bundle, the broker that has it or will have it; -1 = none."""
        self.view, self.policies, self.params, self.traits = view, policies, params, traits
        self.roles = roles_of(policies, view.broker_names)
        self.keeper = keeper
        self.counts_load = counts_load
        self.topics = view.broker_topics.copy()
        self.load = view.broker_load.copy()
        self.booked: dict[str, tuple[int, int]] = {}  # bundle -> keeper on the view, and now
        self._hard: dict[str, Bools] = {}
        self._soft: dict[tuple[str, int, str | None], tuple[Bools, bool]] = {}
        self._counts: dict[tuple[bool, str], Ints] = {}  # (is it a group, name) -> by broker

    def allowed(self, bundle: int) -> Bools:
        """Brokers that rules 1 to 6 leave for a bundle of the view."""
        return self._left(self.view.bundle_names[bundle], bundle, None)[0]

    def isolated(self, bundle: int) -> Bools:
        """Brokers that rule 1 leaves for a bundle of the view."""
        return self._isolated(namespace_of(self.view.bundle_names[bundle]))

    def candidates(self, name: str, slot: int, kind: str | None = None) -> Candidates:
        """Brokers that a placement may choose from (rules 1 to 7)."""
        left, is_skipped = self._left(name, slot, kind)
        calm = self.load <= self.params.overloaded_points / 100.0
        for these in (left, self._able(namespace_of(name), kind)):
            if (these & calm).any():
                return Candidates(np.flatnonzero(these & calm), is_skipped)
        return Candidates(np.flatnonzero(left), is_skipped)

    def book(self, name: str, slot: int, broker: int, topics: int = 0, load: float = 0.0) -> None:
        """Counts a bundle on the broker that it was given to, and no more on the one before."""
        if self.counts_load:
            self.topics[broker] += topics
            self.load[broker] += load
        before, first = self._keeper(name, slot), self._first(name, slot)
        self.booked[name] = (first, broker)
        for key in self._keys(namespace_of(name)):
            if key in self._counts:
                _move(self._counts[key], before, broker)
        self._soft.clear()

    def nobody(self, name: str, kind: str | None = None) -> Verdict:
        """Why a bundle gets no broker."""
        if kind is not None and self._isolated(namespace_of(name)).any():
            flips_if = "a broker that may have it serves such topics"
            return Verdict(name, Reason.ISOLATION, (("topics", kind),), flips_if=flips_if)
        at = isolation_of(self.policies, namespace_of(name))
        if at < 0:
            return Verdict(name, Reason.ISOLATION, flips_if="a shared broker is live")
        policy = self.policies.isolation[at].name
        flips_if = "a broker that the policy names is live"
        return Verdict(name, Reason.ISOLATION, (("policy", policy),), flips_if=flips_if)

    def full(self, name: str) -> Verdict:
        """That a bundle went to a broker which has too many topics."""
        cap = float(self.params.broker_topics_max)
        flips_if = "a broker that may have it has fewer topics"
        return Verdict(name, Reason.BROKERS_FULL, (), cap, flips_if=flips_if)

    def refusal(self, bundle: int, source: int, destination: int) -> Verdict | None:
        """Why a bundle of the view may not leave `source` for `destination`; None = it may.

        Without a destination (negative) any other broker must remain.
        """
        name = self.view.bundle_names[bundle]
        if destination < 0:
            others = self.isolated(bundle).copy()
            others[source] = False
            return None if others.any() else self.nobody(name)
        if self.allowed(bundle)[destination]:
            return None
        inputs = (("broker", self.view.broker_names[destination]),)
        if not self.isolated(bundle)[destination]:
            flips_if = "an isolation policy lets the broker have it"
            return Verdict(name, Reason.ISOLATION, inputs, flips_if=flips_if)
        flips_if = "topics, anti-affinity, even spread and version speak for the broker"
        return Verdict(name, Reason.FILTERED, inputs, flips_if=flips_if)

    def _left(self, name: str, slot: int, kind: str | None) -> tuple[Bools, bool]:
        namespace, at = namespace_of(name), self._keeper(name, slot)
        key = (namespace, at, kind)
        if key not in self._soft:
            self._soft[key] = self._filtered(namespace, at, kind)
        return self._soft[key]

    def _filtered(self, namespace: str, at: int, kind: str | None) -> tuple[Bools, bool]:
        """Rules 1 to 6, and whether the topic cap left nobody and was passed over."""
        left = self._able(namespace, kind)
        if not left.any() or belongs_to_a_broker(namespace):
            return left, False
        below = left & (self.topics < self.params.broker_topics_max)
        is_skipped = not below.any()
        left = _if_any(below, left)
        for rule in self._soft_rules(namespace, at):
            left = _if_any(rule(left), left)
        return left, is_skipped

    def _soft_rules(self, namespace: str, at: int) -> Iterable[Callable[[Bools], Bools]]:
        """Rules 4 to 6, those that hold for the namespace."""
        params, traits = self.params, self.traits
        group = self.policies.groups.get(namespace)
        if group is not None:
            domains = traits.domains if params.uses_failure_domains else None
            counts = self._others((True, group), at)
            yield lambda left: apart(left, counts, domains)
        if params.is_spread_even or namespace == SYSTEM_NAMESPACE:
            yield lambda left: least(left, self._others((False, namespace), at))
        if params.prefers_later_versions:
            yield lambda left: latest(left, traits.versions)

    def _able(self, namespace: str, kind: str | None) -> Bools:
        """Rules 1 and 2."""
        left = self._isolated(namespace)
        if belongs_to_a_broker(namespace):
            return left
        served = able(self.traits, left, kind)
        return _if_any(served, left) if kind is None else served

    def _isolated(self, namespace: str) -> Bools:
        if namespace not in self._hard:
            self._hard[namespace] = isolated(self.view, self.policies, self.roles, namespace)
        return self._hard[namespace]

    def _first(self, name: str, slot: int) -> int:
        """Who had the bundle when the view was made; -1 for one that is new since then."""
        if name in self.booked:
            return self.booked[name][0]
        return int(self.keeper[slot]) if 0 <= slot < len(self.keeper) else -1

    def _keeper(self, name: str, slot: int) -> int:
        return self.booked[name][1] if name in self.booked else self._first(name, slot)

    def _keys(self, namespace: str) -> list[tuple[bool, str]]:
        group = self.policies.groups.get(namespace)
        return [(False, namespace)] + ([] if group is None else [(True, group)])

    def _others(self, key: tuple[bool, str], at: int) -> Ints:
        """Counts without the bundle itself, which is at broker `at`."""
        if key not in self._counts:
            self._counts[key] = self._counted(key)
        counts = self._counts[key]
        if at < 0:
            return counts
        counts = counts.copy()
        counts[at] -= 1
        return counts

    def _counted(self, key: tuple[bool, str]) -> Ints:
        """Bundles by broker of a namespace, or of all namespaces of a group."""
        view, (is_group, wanted) = self.view, key
        groups = self.policies.groups
        flags = [(groups.get(n) if is_group else n) == wanted for n in view.namespaces]
        if not flags:
            counts = np.zeros(len(view.broker_names), np.int64)
        else:
            of_it = np.array(flags, np.bool_)[view.bundle_namespace] & (self.keeper >= 0)
            counts = np.bincount(self.keeper[of_it], minlength=len(view.broker_names))
        for name, (first, now) in self.booked.items():
            if key in self._keys(namespace_of(name)):
                _move(counts, first, now)
        return counts


def namespace_of(bundle: str) -> str:
    """The namespace in a bundle's name."""
    return bundle.rpartition("/")[0]


def _if_any(left: Bools, before: Bools) -> Bools:
    """What a soft rule leaves, or all if that is nobody."""
    return left if left.any() else before


def _move(counts: Ints, before: int, now: int) -> None:
    if before >= 0:
        counts[before] -= 1
    counts[now] += 1
