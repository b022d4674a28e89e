"""The filter pipeline: each rule, their order, emptied sets, and a second implementation."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.strategies.filters import NON_PERSISTENT, PERSISTENT, BrokerTraits, Pipeline
from controller.strategies.params import AvgParams, BiggestFirstParams, FilterParams
from controller.strategies.policies import compiled, domain_of, has_policy, isolation_of, roles_of
from controller.strategies.shed.avg import AvgShed
from controller.strategies.shed.example import BiggestFirstShed
from controller.strategies.verdicts import Reason
from controller.strategies.versions import version_key
from controller.strategies.view import ClusterView
from controller.wire.policies import (
    AntiAffinityGroup,
    FailureDomain,
    IsolationPolicy,
    PolicySet,
)
from tests.views import B, make_view

NO_RULES = FilterParams()


def policy(
    namespaces: str, primary: str, secondary: Sequence[str] = (), limit: int = 1, name: str = "p"
) -> IsolationPolicy:
    return IsolationPolicy(
        name=name,
        namespaces=(namespaces,),
        primary=(primary,),
        secondary=tuple(secondary),
        minLimit=limit,
    )


def group(name: str, *namespaces: str) -> AntiAffinityGroup:
    return AntiAffinityGroup(group=name, namespaces=namespaces)


def pipeline(
    view: ClusterView,
    policies: PolicySet | None = None,
    params: FilterParams = NO_RULES,
    *,
    versions: Mapping[str, str] | None = None,
    zones: Mapping[str, str] | None = None,
    not_persistent: Sequence[str] = (),
    not_non_persistent: Sequence[str] = (),
) -> Pipeline:
    names, rules = view.broker_names, compiled(policies or PolicySet())
    traits = BrokerTraits(
        tuple((versions or {}).get(name) for name in names),
        tuple(domain_of(rules, name, (zones or {}).get(name)) for name in names),
        np.array([name not in not_persistent for name in names]),
        np.array([name not in not_non_persistent for name in names]),
    )
    return Pipeline(view, rules, params, traits, view.bundle_owner.copy(), counts_load=True)


def named(view: ClusterView, flags: np.ndarray) -> set[str]:
    return {view.broker_names[at] for at in np.flatnonzero(flags).tolist()}


def left(rules: Pipeline, bundle: int = 0) -> set[str]:
    return named(rules.view, rules.allowed(bundle))


def candidates(rules: Pipeline, bundle: int = 0, kind: str | None = None) -> set[str]:
    name = rules.view.bundle_names[bundle]
    found = rules.candidates(name, bundle, kind).brokers
    assert found.tolist() == sorted(found.tolist())
    return {rules.view.broker_names[at] for at in found.tolist()}


def even(brokers: str = "abcd", bundles: Sequence[B] = (B(None),)) -> ClusterView:
    return make_view(dict.fromkeys(brokers, 10.0), bundles)


def without(view: ClusterView, *dead: str) -> ClusterView:
    return replace(
        view, broker_is_live=np.array([name not in dead for name in view.broker_names], np.bool_)
    )


# ---------------------------------------------------------------------------- isolation


def test_a_namespace_with_a_policy_stays_on_its_primaries() -> None:
    rules = pipeline(even(), PolicySet(isolation=(policy("t/.*", "[ab]", ["c"]),)))
    assert left(rules) == candidates(rules) == {"a", "b"}


def test_other_namespaces_stay_on_brokers_that_are_nobodys_primary() -> None:
    rules = pipeline(even(), PolicySet(isolation=(policy("x/.*", "[ab]", ["c"]),)))
    assert left(rules) == {"c", "d"}, "a secondary is shared"


@pytest.mark.parametrize(
    ("limit", "dead", "expected"),
    [
        (1, "", "ab"),
        (1, "a", "b"),
        (2, "a", "bc"),
        (2, "ab", "c"),
        (3, "", "abc"),
        (0, "ab", ""),
        (1, "abc", ""),
    ],
)
def test_secondaries_join_below_the_limit(limit: int, dead: str, expected: str) -> None:
    view = without(even(), *dead)
    rules = pipeline(view, PolicySet(isolation=(policy("t/n", "[ab]", ["c"], limit),)))
    assert left(rules) == candidates(rules) == set(expected)
    if not expected:
        assert rules.nobody(view.bundle_names[0]).reason is Reason.ISOLATION


def test_patterns_fit_as_a_whole_and_brokers_by_id_or_host() -> None:
    rules = compiled(PolicySet(isolation=(policy("t/n", "b1"), policy("t/.*", "b2:80", name="q"))))
    assert [isolation_of(rules, n) for n in ("t/n", "t/nn", "xt/n", "t")] == [0, 1, -1, -1]
    roles = roles_of(rules, ("b1", "b11", "b1:80", "b2:80", "b2", "b2:8080"))
    assert roles.primary[0].tolist() == [True, False, True, False, False, False]
    assert roles.primary[1].tolist() == [False, False, False, True, False, False]
    assert roles.shared.tolist() == [False, True, False, False, True, True]


def test_a_namespace_has_a_policy_by_isolation_or_by_group() -> None:
    rules = compiled(PolicySet(isolation=(policy("t/.*", "a"),), antiAffinity=(group("g", "u/n"),)))
    assert [has_policy(rules, n) for n in ("t/n", "u/n", "u/m")] == [True, True, False]


@pytest.mark.parametrize("namespace", ["pulsar/a:80", "pulsar/main/a:80", "sla-monitor/main/a:80"])
def test_what_belongs_to_a_broker_is_not_filtered(namespace: str) -> None:
    view = even(bundles=[B(None, namespace=namespace)])
    rules = pipeline(view, PolicySet(isolation=(policy(".*", "[ab]"),)))
    assert left(rules) == set("abcd")


# ------------------------------------------------------------------------ the soft rules


def test_brokers_that_serve_the_kind_of_topics_or_both() -> None:
    rules = pipeline(even(), not_persistent=["a"], not_non_persistent=["b"])
    assert candidates(rules) == {"c", "d"}
    assert candidates(rules, kind=PERSISTENT) == {"b", "c", "d"}
    assert candidates(rules, kind=NON_PERSISTENT) == {"a", "c", "d"}


def test_a_kind_of_topics_that_is_named_is_a_hard_rule() -> None:
    rules = pipeline(even("ab"), not_persistent="a", not_non_persistent="ab")
    assert candidates(rules) == {"a", "b"}, "nobody serves both, and nobody says which it needs"
    assert candidates(rules, kind=PERSISTENT) == {"b"}
    assert candidates(rules, kind=NON_PERSISTENT) == set()
    verdict = rules.nobody(rules.view.bundle_names[0], NON_PERSISTENT)
    assert verdict.reason is Reason.ISOLATION and verdict.inputs == (("topics", "non-persistent"),)


def test_full_brokers_are_left_out_unless_all_are() -> None:
    view = make_view(dict.fromkeys("abc", 10.0), [B(None)], topics={"a": 9, "b": 10, "c": 11})
    assert left(pipeline(view, params=FilterParams(broker_topics_max=10))) == {"a"}
    rules = pipeline(view, params=FilterParams(broker_topics_max=9))
    assert left(rules) == set("abc")
    assert rules.candidates(view.bundle_names[0], 0).is_cap_skipped
    assert rules.full(view.bundle_names[0]).reason is Reason.BROKERS_FULL


def test_what_is_booked_fills_a_broker() -> None:
    view = make_view(dict.fromkeys("ab", 10.0), [B(None), B(None)])
    rules = pipeline(view, params=FilterParams(broker_topics_max=10))
    rules.book(view.bundle_names[0], 0, 0, topics=10, load=0.1)
    assert left(rules, 1) == {"b"}


def test_the_brokers_with_the_fewest_bundles_of_the_group() -> None:
    bundles = [B(None, namespace="t/a"), B("a", namespace="t/b"), B("b", namespace="t/c")]
    view = even("abc", [*bundles, B("c", namespace="t/other")])
    rules = pipeline(view, PolicySet(antiAffinity=(group("g", "t/a", "t/b", "t/c"),)))
    assert left(rules) == {"c"}
    assert left(rules, 1) == {"a", "c"}, "its own place does not speak against it"
    assert left(rules, 3) == set("abc")


def test_domains_come_before_brokers() -> None:
    bundles = [B(None, namespace="t/a"), B("a", namespace="t/b"), B("c", namespace="t/b")]
    bundles += [B("c", namespace="t/b"), B("d", namespace="t/b")]
    domains = (FailureDomain(name="x", brokers=("a", "b")), FailureDomain(name="y", brokers=("c",)))
    policies = PolicySet(antiAffinity=(group("g", "t/a", "t/b"),), failureDomains=domains)
    view = even("abcd", bundles)
    by_zone = {"b": "not its domain", "d": "y"}
    on = FilterParams(uses_failure_domains=True)
    assert left(pipeline(view, policies, zones=by_zone)) == {"b"}
    assert left(pipeline(view, policies, on, zones=by_zone)) == {"b"}, "x has 1, y has 3"
    full = without(view, "b")
    assert left(pipeline(full, policies, on, zones=by_zone)) == {"a"}, "d has 1 too, but y 3"
    assert left(pipeline(full, policies, on)) == {"a", "d"}, "d is in default, which has 1"


def test_a_namespace_is_spread_evenly_if_wanted_and_pulsar_system_always() -> None:
    bundles = [B(None), B("a"), B("a"), B("b"), B("c", namespace="t/m")]
    view = even("abc", bundles)
    assert left(pipeline(view, params=FilterParams(is_spread_even=True))) == {"c"}
    assert left(pipeline(view)) == set("abc")
    system = [replace(b, namespace="pulsar/system") for b in bundles[:4]]
    assert left(pipeline(even("abc", system))) == {"c"}


def test_bundles_on_their_way_count_at_once() -> None:
    view = even("abc", [B(None), B(None), B(None), B("a")])
    rules = pipeline(view, params=FilterParams(is_spread_even=True))
    assert left(rules) == {"b", "c"}
    rules.book(view.bundle_names[0], 0, 1)
    assert left(rules, 1) == {"c"}
    rules.book(view.bundle_names[1], 1, 2)
    assert left(rules, 2) == set("abc")
    rules.book(view.bundle_names[3], 3, 1)
    assert left(rules, 2) == {"a"}, "it has left a for b"
    assert left(rules, 3) == {"a"}, "b and c hold one other each"
    rules.book("t/n/0xf0000000_0xffffffff", -1, 0)
    assert left(rules, 2) == {"a", "c"}, "one that is new since the view counts too"


def test_the_latest_version_among_those_left() -> None:
    versions = {"a": "4.1.0", "b": "4.1.0-SNAPSHOT", "c": "4.1.0", "d": "4.10.0-rc.1"}
    on = FilterParams(prefers_later_versions=True)
    assert left(pipeline(even("abcde"), params=on, versions=versions)) == {"d"}
    view = without(even("abcde"), "d")
    assert left(pipeline(view, params=on, versions=versions)) == {"a", "c"}
    assert left(pipeline(view, versions=versions)) == set("abce")
    assert left(pipeline(view, params=on)) == set("abce"), "all unknown"


def test_versions_in_order() -> None:
    ascending = ["unknown", "3", "4.0.9", "4.1.0-SNAPSHOT", "4.1.0-alpha.2", "4.1.0-alpha.10"]
    ascending += ["4.1.0", "4.1.1-rc1", "4.1.1", "4.2", "4.10.0"]
    keys = [version_key(v) for v in ascending]
    assert keys[3] < keys[4], "capitals come first, as in ASCII"
    assert keys == sorted(keys) and len(set(keys)) == len(keys)
    assert version_key("4.2") == version_key("v4.2.0+build.7") == version_key(" 4.2.0 ")
    assert version_key(None) == version_key("") == version_key("latest") == version_key("4.x")
    assert version_key("9" * 400) == version_key(None)


def test_overloaded_brokers_are_taken_only_where_no_other_may_have_it() -> None:
    bundles = [B(None), B("b"), B("c")]
    view = make_view({"a": 90.0, "b": 50.0, "c": 60.0, "d": 10.0}, bundles)
    only = PolicySet(isolation=(policy("t/n", "[abc]"),))
    spread = FilterParams(is_spread_even=True)
    rules = pipeline(view, only, spread)
    assert left(rules) == {"a"}
    assert candidates(rules) == {"b", "c"}, "isolation still holds, even spread does not"
    assert candidates(pipeline(view, only)) == {"b", "c"}
    hot = replace(spread, overloaded_points=40.0)
    assert candidates(pipeline(view, only, hot)) == {"a"}, "nobody is below: the rules hold again"
    rules.book(view.bundle_names[1], 1, 1, load=0.4)
    assert candidates(rules) == {"c"}, "b is overloaded by what was given to it"


def test_the_rules_apply_in_their_order() -> None:
    bundles = [B(None, namespace="t/a"), B("b", namespace="t/a"), B("c", namespace="t/g")]
    view = make_view(dict.fromkeys("abcde", 10.0), bundles, topics={"d": 99})
    rules = pipeline(
        view,
        PolicySet(isolation=(policy("t/.*", "[abcd]"),), antiAffinity=(group("g", "t/a", "t/g"),)),
        FilterParams(broker_topics_max=99, is_spread_even=True, prefers_later_versions=True),
        versions={"a": "4.0.0", "b": "4.1.0", "e": "5.0.0"},
    )
    assert left(rules) == {"a"}, "d is full, c and b have a bundle of the group, e is not a primary"


def test_a_move_is_refused_by_isolation_or_by_the_softer_rules() -> None:
    view = even("abcd", [B("a"), B("b")])
    rules = pipeline(
        view, PolicySet(isolation=(policy("t/n", "[abc]"),)), FilterParams(is_spread_even=True)
    )
    assert rules.refusal(0, 0, 2) is None
    verdict = rules.refusal(0, 0, 3)
    assert verdict is not None and verdict.reason is Reason.ISOLATION
    verdict = rules.refusal(0, 0, 1)
    assert verdict is not None and verdict.reason is Reason.FILTERED
    assert rules.refusal(0, 0, -2) is None
    alone = pipeline(view, PolicySet(isolation=(policy("t/n", "a"),)))
    verdict = alone.refusal(0, 0, -2)
    assert verdict is not None and verdict.reason is Reason.ISOLATION


# --------------------------------------------------------------------------- shedders


def hot_and_cold(policies: PolicySet) -> ClusterView:
    bundles = [B("hot", 3_000.0, load=30.0, namespace="t/gold"), B("hot", 2_000.0, load=20.0)]
    view = make_view({"cold": 10.0, "hot": 80.0}, [*bundles, B("hot", 5_000.0, load=50.0)])
    return replace(view, filter=pipeline(view, policies))


@pytest.mark.parametrize("shedder", ["avg", "biggest_first"])
def test_shedders_pass_over_bundles_that_may_not_go_there(shedder: str) -> None:
    shed = {
        "avg": AvgShed(AvgParams(hit_count_high=1)),
        "biggest_first": BiggestFirstShed(BiggestFirstParams()),
    }[shedder]
    kept = PolicySet(isolation=(policy("t/gold", "hot"),))
    free = shed.shed(hot_and_cold(PolicySet()), {})
    held = shed.shed(hot_and_cold(kept), {})
    # `hot` is a primary now: what is not gold had better leave it, and gold stays.
    gold = [t.bundle for t in free.transfers]
    assert gold and 0 not in [t.bundle for t in held.transfers] and held.transfers
    nothing = PolicySet(isolation=(policy("t/.*", "hot"),))
    plan = shed.shed(hot_and_cold(nothing), {})
    assert not plan.transfers and plan.verdicts


# ------------------------------------------------------------------------- the judge


def judged(
    view: ClusterView,
    policies: PolicySet,
    domains: Mapping[str, str] | None,
    owners: Mapping[str, str],
    bundle: str,
) -> set[str]:
    """Isolation and anti-affinity in plain words; `owners` by bundle, `domains` None = unused."""
    namespace = bundle.rsplit("/", 1)[0]

    def fits(patterns: Sequence[str], name: str) -> bool:
        return any(re.fullmatch(pattern, name) for pattern in patterns)

    live = {n for n, is_live in zip(view.broker_names, view.broker_is_live, strict=True) if is_live}
    mine = next((p for p in policies.isolation if fits(p.namespaces, namespace)), None)
    if mine is None:
        able = {b for b in live if not any(fits(p.primary, b) for p in policies.isolation)}
    else:
        able = {b for b in live if fits(mine.primary, b)}
        if len(able) < mine.minLimit:
            able |= {b for b in live if fits(mine.secondary, b)}
    group = next((g for g in policies.antiAffinity if namespace in g.namespaces), None)
    if group is None or not able:
        return able
    members = [
        owner
        for name, owner in owners.items()
        if name != bundle and name.rsplit("/", 1)[0] in group.namespaces
    ]
    if domains is not None:
        sums = {
            domains[b]: sum(m in able and domains[m] == domains[b] for m in members) for b in able
        }
        able = {b for b in able if sums[domains[b]] == min(sums.values())}
    fewest = min(members.count(b) for b in able)
    return {b for b in able if members.count(b) == fewest}


BROKERS = "abcdef"
NAMESPACES = ["t/a", "t/b", "u/a", "u/b"]
SETS = ["[ab]", "[b-d]", "a", "f", "[a-f]", "z"]


@st.composite
def policy_sets(draw: st.DrawFn) -> PolicySet:
    isolation = draw(
        st.lists(
            st.builds(
                policy,
                st.sampled_from(["t/.*", "u/a", ".*/a", "x"]),
                st.sampled_from(SETS),
                st.lists(st.sampled_from(SETS), max_size=1),
                st.integers(0, 3),
            ),
            max_size=2,
        )
    )
    members = draw(st.lists(st.sampled_from(NAMESPACES), unique=True, max_size=3))
    groups = (group("g", *members),) if members else ()
    return PolicySet(isolation=tuple(isolation), antiAffinity=groups)


@given(
    policies=policy_sets(),
    placed=st.lists(
        st.tuples(st.sampled_from(NAMESPACES), st.none() | st.sampled_from(BROKERS)),
        min_size=1,
        max_size=12,
    ),
    dead=st.sets(st.sampled_from(BROKERS), max_size=3),
    domains=st.none() | st.fixed_dictionaries({b: st.sampled_from("xyz") for b in BROKERS}),
    moves=st.lists(st.tuples(st.integers(0, 11), st.integers(0, 5)), max_size=8),
)
@settings(print_blob=True, deadline=None, max_examples=300)
def test_isolation_and_anti_affinity_equal_a_second_implementation(
    policies: PolicySet,
    placed: list[tuple[str, str | None]],
    dead: set[str],
    domains: dict[str, str] | None,
    moves: list[tuple[int, int]],
) -> None:
    view = even(BROKERS, [B(owner, namespace=namespace) for namespace, owner in placed])
    view = without(view, *dead)
    params = FilterParams(uses_failure_domains=domains is not None)
    rules = pipeline(view, policies, params, zones=domains)
    names = list(view.bundle_names)
    owners = {n: owner for n, (_, owner) in zip(names, placed, strict=True) if owner}
    for step in [None, *moves]:
        if step is not None:
            bundle = step[0] % len(names)
            rules.book(names[bundle], bundle, step[1])
            owners[names[bundle]] = BROKERS[step[1]]
        for at, name in enumerate(names):
            assert left(rules, at) == judged(view, policies, domains, owners, name), (name, step)
