"""Policies sent as a command: who gets bundles, what is refused, and that cuts do not matter."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import msgspec
import pytest

from controller.core.state import decode_state, encode_state, new_state
from controller.core.state.memory import Traits
from controller.core.view.build import build_view, liveness
from controller.core.work import Work
from controller.strategies.params import FilterParams
from controller.strategies.registry import PLACE
from controller.wire.commands import Assign, Drain, Pin, SetPolicies, Transfer, Unload
from controller.wire.policies import (
    AntiAffinityGroup,
    FailureDomain,
    IsolationPolicy,
    PolicySet,
)
from controller.wire.reports import LoadReport, ResourceUsage, encode_load_report
from tests.world import CLUSTER, SETTINGS, World, bundle_names, of_broker, replay

GOLD, FREE = bundle_names("gold/n", 6), bundle_names("t/n", 10)
BROKERS = [f"b{n}" for n in range(6)]


def gold(limit: int = 1) -> PolicySet:
    """b0 and b1 for gold, b2 helps out."""
    policy = IsolationPolicy(
        name="gold",
        namespaces=("gold/.*",),
        primary=("b[01]",),
        secondary=("b2",),
        minLimit=limit,
    )
    return PolicySet(isolation=(policy,))


def cluster(policies: PolicySet | None, **changes: object) -> World:
    settings = replace(SETTINGS, **changes) if changes else SETTINGS
    w = World(dict.fromkeys(BROKERS, 20_000.0), dict.fromkeys(GOLD + FREE, 1_000.0), settings)
    w.run(1_500)
    if policies is not None:
        w.command(SetPolicies(policies=policies, who="ann", why="own brokers"))
    return w


def asked(w: World) -> World:
    w.ask(list(w.bundles))
    return w.run(1_500)


def owners(w: World, bundles: list[str]) -> set[str]:
    return {w.owners[bundle] for bundle in bundles}


def refusals(w: World) -> Counter[str]:
    """Counts of all verdicts so far."""
    counts: Counter[str] = Counter()
    for result in w.results:
        for line in result.rounds:
            counts.update(msgspec.json.decode(line)["verdicts"]["counts"])
    return counts


# --------------------------------------------------------------------------- placement


@pytest.mark.parametrize("place", sorted(PLACE))
def test_bundles_go_to_their_primaries_and_others_to_shared_brokers(place: str) -> None:
    w = asked(cluster(gold(), place=place))
    assert owners(w, GOLD) <= {"b0", "b1"}
    assert owners(w, FREE) <= {"b2", "b3", "b4", "b5"}
    assert len(w.owners) == len(w.bundles)


def test_the_command_is_answered_and_an_empty_set_ends_all() -> None:
    w = cluster(gold())
    assert w.answers[-1]["command"] == {
        "command": "policies",
        "isAccepted": True,
        "who": "ann",
        "why": "own brokers",
    }
    w.command(SetPolicies(policies=PolicySet()))
    assert w.state.memory.policies is None
    assert len(owners(asked(w), GOLD)) > 2


def test_policies_that_cannot_be_used_are_refused_and_the_old_ones_stay() -> None:
    w = cluster(gold())
    bad = IsolationPolicy(name="p", namespaces=("t/(",), primary=("b",))
    w.command(SetPolicies(policies=PolicySet(isolation=(bad,))))
    answer = w.answers[-1]
    assert answer["command"]["isAccepted"] is False
    assert "no regular expression" in answer["verdicts"]["top"][0]["inputs"]["problem"]
    assert w.state.memory.policies == gold()


def test_policies_survive_the_blob_and_older_blobs_have_none() -> None:
    w = cluster(gold())
    assert decode_state(encode_state(w.state), w.settings).memory.policies == gold()
    header = msgspec.to_builtins(new_state(CLUSTER, SETTINGS).memory)
    for name in ("policies", "traits"):
        del header[name]
    old = msgspec.convert(header, type(w.state.memory))
    assert (old.policies, old.traits) == (None, {})


def test_secondaries_join_while_too_few_primaries_live() -> None:
    w = cluster(gold(limit=2))
    w.silent.add("b1")
    w.run(5_000)
    assert owners(asked(w), GOLD) == {"b0", "b2"}
    w = cluster(gold(limit=3))
    assert owners(asked(w), GOLD) == {"b0", "b1", "b2"}


def test_without_an_allowed_broker_bundles_wait_and_the_log_says_why() -> None:
    policy = IsolationPolicy(name="gold", namespaces=("gold/.*",), primary=("b9",))
    w = asked(cluster(PolicySet(isolation=(policy,))))
    assert set(w.owners) == set(FREE)
    verdict = next(
        entry
        for line in reversed(w.rounds)
        for entry in line["verdicts"]["top"]
        if entry["reason"] == "isolation"
    )
    assert verdict["inputs"] == {"policy": "gold"} and verdict["code"] == 350
    assert set(w.state.memory.requests) == set(GOLD)
    before = refusals(w)["isolation"]
    w.ask([*GOLD, "t/new/0x00000000_0xffffffff"])
    assert refusals(w)["isolation"] == before, "asked again at ticks only"
    w.command(SetPolicies(policies=PolicySet()))
    w.run(1_000)
    assert set(GOLD) <= set(w.owners)


def test_a_primary_whose_load_is_not_known_is_better_than_nobody() -> None:
    w = cluster(None, liveness=replace(SETTINGS.liveness, report_ttl_ms=100))
    w.command(SetPolicies(policies=gold()))
    w.run(350)
    assert owners(asked(w), GOLD) <= {"b0", "b1"}
    assert len(w.owners) == len(w.bundles)


def test_pins_stand_above_policies() -> None:
    w = cluster(gold())
    bundle = GOLD[0]
    w.ask([bundle])
    w.run(500)
    w.command(Pin(bundle=bundle, broker="b5"))
    w.run(2_000)
    assert w.owners[bundle] == "b5"


# ----------------------------------------------------------------- orphans, drains, unloads


def test_orphans_obey() -> None:
    w = asked(cluster(gold()))
    w.silent.add("b0")
    w.run(6_000)
    assert owners(w, GOLD) == {"b1"}
    w.silent.add("b1")
    w.run(6_000)
    assert owners(w, GOLD) == {"b2"}, "no primary is left, its secondary takes over"
    w.silent.add("b2")
    w.run(6_000)
    assert not any(w.owners[b] in ("b3", "b4", "b5") for b in GOLD)
    assert refusals(w)["isolation"]


def test_drained_and_unloaded_bundles_obey() -> None:
    w = asked(cluster(gold()))
    w.command(Drain(broker="b0"))
    w.run(3_000)
    assert owners(w, GOLD) == {"b1"}
    w.command(Unload(bundle=FREE[0]))
    w.run(1_000)
    assert owners(w, FREE) <= {"b2", "b3", "b4", "b5"}


def test_an_unload_brings_a_bundle_home_that_was_elsewhere_before_the_policy() -> None:
    w = asked(cluster(None))
    stray = next(b for b in GOLD if w.owners[b] not in ("b0", "b1"))
    w.command(SetPolicies(policies=gold()))
    w.run(1_000)
    w.command(Unload(bundle=stray))
    w.run(1_000)
    assert w.owners[stray] in ("b0", "b1")


# ------------------------------------------------------------------------------ balance


@pytest.mark.parametrize("shed", ["avg", "threshold", "uniform", "transfer", "biggest_first"])
def test_shedding_never_takes_a_bundle_to_a_broker_that_may_not_have_it(shed: str) -> None:
    w = asked(cluster(gold(), shed=shed))
    for at, bundle in enumerate([*GOLD[:3], *FREE[:3]]):
        w.bundles[bundle] = 9_000.0 + at
    w.run(25_000)
    assert owners(w, GOLD) <= {"b0", "b1"}
    assert owners(w, FREE) <= {"b2", "b3", "b4", "b5"}


def test_a_transfer_that_a_policy_forbids_is_passed_over_and_told() -> None:
    w = asked(cluster(gold(), place="round_robin"))
    for bundle in FREE:
        w.bundles[bundle] = 4_000.0
    for bundle in GOLD:
        w.bundles[bundle] = 1.0
    w.run(10_000)
    told = refusals(w)
    assert told["isolation"] or told["filtered"], told
    assert owners(w, FREE) <= {"b2", "b3", "b4", "b5"}


def test_moves_of_one_round_count_for_each_other() -> None:
    w = World(dict.fromkeys(["b0", "b1"], 20_000.0), dict.fromkeys(FREE, 10.0), SETTINGS)
    asked(w.run(1_500))
    assert Counter(w.owners.values()) == {"b0": 5, "b1": 5}
    w.command(Transfer(bundle=min(of_broker(w, "b1")), destination="b0"))
    w.run(6_000)  # until it has cooled down
    groups = (AntiAffinityGroup(group="g", namespaces=("t/n",)),)
    w.command(SetPolicies(policies=PolicySet(antiAffinity=groups)))
    for bundle in of_broker(w, "b0"):
        w.bundles[bundle] = 3_000.0
    w.run(15_000)
    assert Counter(w.owners.values()) == {"b0": 5, "b1": 5}, "one is moved, though three fit"
    assert refusals(w)["filtered"]


# ------------------------------------------------------- anti-affinity, spread, versions


def test_anti_affinity_spreads_over_domains_and_then_over_brokers() -> None:
    names = [f"t/a{n}" for n in range(4)]
    policies = PolicySet(
        antiAffinity=(AntiAffinityGroup(group="g", namespaces=tuple(names)),),
        failureDomains=(
            FailureDomain(name="x", brokers=("b0", "b1", "b2", "b3")),
            FailureDomain(name="y", brokers=("b4", "b5")),
        ),
    )
    w = cluster(policies, filters=FilterParams(uses_failure_domains=True))
    bundles = [f"{name}/0x00000000_0xffffffff" for name in names]
    w.bundles = dict.fromkeys(bundles, 10.0)
    asked(w)
    assert len(owners(w, bundles)) == 4
    assert sum(w.owners[b] in ("b4", "b5") for b in bundles) == 2


def test_a_namespace_is_spread_evenly() -> None:
    w = asked(cluster(None, filters=FilterParams(is_spread_even=True), place="round_robin"))
    for bundles in (GOLD, FREE):
        counts = Counter(w.owners[b] for b in bundles)
        assert max(counts.values()) - min(counts.get(b, 0) for b in BROKERS) <= 1


def said(w: World, broker: str, **more: object) -> None:
    """A report of a broker that says more of itself than those of the world do."""
    w.sequence += 1
    idle = ResourceUsage(0.0, 100.0)
    report = LoadReport(
        cluster=CLUSTER,
        broker=broker,
        sequence=w.sequence,
        timestamp=w.now_ms,
        full=True,
        cpu=idle,
        memory=idle,
        directMemory=idle,
        bandwidthIn=idle,
        bandwidthOut=idle,
        bundles={},
        **more,
    )
    w.append(w.settings.reports_topic, f"{CLUSTER}/{broker}", encode_load_report(report))


def test_what_reports_say_is_remembered_until_they_say_otherwise() -> None:
    w = cluster(None)
    said(w, "b0", brokerVersion="4.1.0", zone="rack-1")
    said(w, "b1", nonPersistentTopicsEnabled=False)
    assert w.state.memory.traits == {
        "b0": Traits(version="4.1.0", zone="rack-1"),
        "b1": Traits(serves_non_persistent=False),
    }
    said(w, "b0", brokerVersion="4.2.0", zone="rack-1")
    said(w, "b1")
    assert w.state.memory.traits == {"b0": Traits(version="4.2.0", zone="rack-1")}


def test_the_latest_version_and_both_kinds_of_topics() -> None:
    w = cluster(None, filters=FilterParams(prefers_later_versions=True))
    for broker in BROKERS:
        version = "4.1.0" if broker in ("b0", "b1", "b2") else "4.0.9"
        said(w, broker, brokerVersion=version, persistentTopicsEnabled=broker != "b1")
    w.ask(GOLD)
    w.run(100)
    chosen = {d["to"] for d in w.decisions}
    assert chosen == {"b0", "b2"}


def test_a_request_may_say_which_topics_it_is_for() -> None:
    w = cluster(None)
    for broker in BROKERS:
        said(w, broker, persistentTopicsEnabled=broker == "b3")
    for bundle, kind in zip(FREE, ["persistent"] * 3 + ["non-persistent"] * 7, strict=True):
        w.command(Assign(bundle=bundle, requestedBy="client", topics=kind))
    chosen = {d["bundle"]: d["to"] for d in w.decisions}
    assert {chosen[bundle] for bundle in FREE[:3]} == {"b3"}
    assert len({chosen[bundle] for bundle in FREE[3:]}) > 3


# ------------------------------------------------------------------------- nothing to do


def test_without_policies_and_with_default_filters_a_view_has_no_filter() -> None:
    w = asked(cluster(None))
    work = Work(w.state, w.settings, w.settings)
    view, _ = build_view(work, w.now_ms, liveness(work, w.now_ms))
    assert view.filter is None and not view.bundle_has_policy.any()
    w.command(SetPolicies(policies=gold()))
    work = Work(w.state, w.settings, w.settings)
    view, _ = build_view(work, w.now_ms, liveness(work, w.now_ms))
    with_policy = [
        n for n, has in zip(view.bundle_names, view.bundle_has_policy, strict=True) if has
    ]
    assert sorted(with_policy) == sorted(GOLD)


# -------------------------------------------------------------------------- determinism


@pytest.fixture(scope="module", params=sorted(PLACE))
def busy(request: pytest.FixtureRequest) -> World:
    """Policies that come, change and go, while brokers die and bundles are asked for at once."""
    w = cluster(
        gold(limit=2),
        place=request.param,
        filters=FilterParams(
            broker_topics_max=45,
            is_spread_even=True,
            uses_failure_domains=True,
            overloaded_points=30.0,
        ),
    )
    asked(w)
    w.ask(bundle_names("new/a", 8) + bundle_names("new/b", 8))  # in one millisecond
    w.run(3_000)
    w.bundles |= dict.fromkeys(bundle_names("new/a", 8) + bundle_names("new/b", 8), 700.0)
    groups = (AntiAffinityGroup(group="g", namespaces=("new/a", "t/n")),)
    domains = (FailureDomain(name="x", brokers=("b2", "b3")),)
    w.command(
        SetPolicies(
            policies=msgspec.structs.replace(gold(), antiAffinity=groups, failureDomains=domains)
        )
    )
    w.command(Transfer(bundle=FREE[0], destination="b0"))
    w.silent.add("b3")
    w.run(9_000)
    w.ask(bundle_names("new/c", 8))
    w.silent |= {"b0", "b1"}
    w.run(6_000)
    w.command(SetPolicies(policies=PolicySet()))
    w.run(3_000)
    return w


def test_cuts_of_a_log_with_policies_give_identical_bytes(busy: World) -> None:
    n = len(busy.log)
    whole = replay(busy.log, [], busy.settings)
    assert replay(busy.log, list(range(1, n)), busy.settings) == whole
    for seed in (1, 2):
        rng = random.Random(seed)
        cuts = sorted(rng.sample(range(1, n), n // 3))
        assert replay(busy.log, cuts, busy.settings, rng) == whole, f"seed {seed}"
    assert {"assign", "override"} <= {d["kind"] for d in busy.decisions}
