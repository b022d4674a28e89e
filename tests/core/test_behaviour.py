"""What the core does for a cluster, on a simulated clock: one sentence per test."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from controller.core.settings import ActionSettings
from controller.strategies.params import ThresholdSplitParams
from controller.wire.channel import ServiceUnitState, ServiceUnitStateData
from controller.wire.commands import Pause, Resume, SplitBundle, Transfer, Unload
from tests.samples_of_reports import good_report
from tests.world import SETTINGS, World, owned, serving, world


def balanced(w: World) -> float:
    """Imbalance: max/mean of the load of the brokers that speak."""
    loads = [x for b, x in w.load_points().items() if b not in w.silent]
    return max(loads) / (sum(loads) / len(loads))


def started(**more: object) -> World:
    w = world(**more)
    return w.run(1_500)


def heated(w: World, broker: str = "b0", factor: float = 1.8) -> World:
    """Multiplies the load of all bundles that a broker serves now."""
    for bundle, owner in w.owners.items():
        if owner == broker:
            w.bundles[bundle] *= factor
    return w


def test_every_requested_bundle_is_assigned_at_once_and_spread_over_the_brokers() -> None:
    w = started(bundles=32)
    w.ask(list(w.bundles))

    assert len([d for d in w.decisions if d["kind"] == "assign"]) == 32
    w.run(200)
    assert set(w.owners) == set(w.bundles)
    counts = [list(w.owners.values()).count(b) for b in w.brokers]
    assert max(counts) - min(counts) <= 1


def test_a_request_before_any_broker_spoke_is_answered_when_one_does() -> None:
    w = world(brokers=2, bundles=4)
    w.silent = {"b0", "b1"}
    w.run(2_500).ask(list(w.bundles))
    assert w.decisions == []

    w.silent = {"b1"}
    w.run(1_100)
    assert {d["to"] for d in w.decisions} == {"b0"}


def test_a_new_memory_publishes_nothing_until_it_is_warm() -> None:
    w = world(bundles=4).run(600)
    w.ask(list(w.bundles))

    assert w.decisions == []
    assert not w.results[-1].snapshot.is_warm
    w.run(1_000)
    assert {d["bundle"] for d in w.decisions} == set(w.bundles)


def test_skewed_load_is_balanced_and_then_left_alone() -> None:
    w = heated(serving(world(brokers=4, bundles=48, seed=3)))
    before = balanced(w)
    w.run(20_000)
    after = balanced(w)
    moves = len([d for d in w.decisions if d["kind"] == "transfer"])
    w.run(20_000)

    assert before > 1.3
    assert after < 1.2
    assert len([d for d in w.decisions if d["kind"] == "transfer"]) == moves


def test_no_bundle_is_moved_twice_while_its_first_move_is_in_flight() -> None:
    w = heated(serving(world(brokers=4, bundles=48, seed=3))).run(20_000)
    versions = [(d["bundle"], d["version"]) for d in w.decisions]

    assert len(versions) == len(set(versions))
    assert w.results[-1].snapshot.counters.get("losing_records", 0) == 0


def test_a_bundle_that_grew_too_big_is_split_and_the_children_are_owned() -> None:
    w = serving(world(bundles=8))
    heavy = sorted(w.bundles)[3]
    w.bundles[heavy] = 70_000.0
    w.run(4_000)

    splits = [d for d in w.decisions if d["kind"] == "split"]
    assert [d["bundle"] for d in splits] == [heavy]
    assert splits[0]["reason"] == "msg_rate"
    assert heavy not in w.owners
    children = [b for b in w.owners if b.startswith("t/n/0x6000") or b.startswith("t/n/0x7000")]
    assert len(children) == 2


def test_a_namespace_at_its_cap_is_not_split_and_says_so() -> None:
    w = serving(
        world(
            bundles=8,
            thresholds=ThresholdSplitParams(
                rate_max=50_000.0, hit_count=2, namespace_bundles_max=8
            ),
        )
    )
    w.bundles[sorted(w.bundles)[3]] = 70_000.0
    w.run(4_000)

    assert not [d for d in w.decisions if d["kind"] == "split"]
    assert w.rounds[-1]["verdicts"]["counts"]["namespace_full"] == 1


def test_bundles_of_a_dead_broker_are_taken_over_by_forced_records() -> None:
    w = serving(world(brokers=4, bundles=16))
    orphans = {b for b, o in w.owners.items() if o == "b2"}
    w.silent.add("b2")
    w.run(4_500)

    overrides = [d for d in w.decisions if d["kind"] == "override"]
    assert {d["bundle"] for d in overrides} == orphans
    assert all(d["from"] == "b2" and d["to"] != "b2" for d in overrides)
    assert "b2" not in w.owners.values()


def test_no_bundle_is_taken_over_before_the_silence_is_long_enough() -> None:
    w = serving(world(brokers=4, bundles=16))
    w.silent.add("b2")
    w.run(SETTINGS.liveness.takeover_after_ms - 2_200)
    w.silent.clear()
    w.run(5_000)

    assert not [d for d in w.decisions if d["kind"] == "override"]


def test_one_silent_broker_freezes_only_itself() -> None:
    """Pulsar aborts the whole round (NoLoadData); here the others go on balancing."""
    settings = replace(SETTINGS.liveness, takeover_after_ms=600_000, report_ttl_ms=2_000)
    w = heated(serving(world(brokers=5, bundles=48, seed=3, liveness=settings)))
    w.silent.add("b2")
    w.run(20_000)

    moves = [d for d in w.decisions if d["kind"] == "transfer"]
    late = [d for d in moves if d["log"]["clockMs"] > w.now_ms - 15_000]
    assert moves
    assert not [d for d in late if "b2" in (d["from"], d["to"])]
    assert w.rounds[-1]["verdicts"]["counts"]["stale_load"] == 1
    loads = {b: x for b, x in w.load_points().items() if b != "b2"}
    assert max(loads.values()) - min(loads.values()) < 15.0


def test_all_brokers_silent_is_safe_mode_and_no_orphan_storm() -> None:
    w = serving(world(brokers=4, bundles=16))
    w.silent |= set(w.brokers)
    w.run(20_000)

    assert w.rounds[-1]["mode"] == "safe_mode"
    assert not [d for d in w.decisions if d["kind"] == "override"]
    assert w.rounds[-1]["verdicts"]["counts"]["safe_mode"] >= 16


def test_brokers_that_come_back_one_by_one_after_safe_mode_lose_nothing() -> None:
    w = serving(world(brokers=4, bundles=16))
    w.silent |= set(w.brokers)
    w.run(20_000)
    for broker in sorted(w.brokers):
        w.silent.discard(broker)
        w.run(700)
    w.run(5_000)

    assert not [d for d in w.decisions if d["reason"] == "orphan"]
    assert w.rounds[-1]["mode"] == "act"


def test_a_broker_that_dies_with_a_transfer_on_its_way_to_it_gets_repaired() -> None:
    w = serving(world(brokers=4, bundles=16))
    bundle = next(b for b, o in w.owners.items() if o == "b0")
    w.silent.add("b1")
    w.command(Transfer(bundle=bundle, destination="b1"))
    w.run(6_000)

    assert w.owners[bundle] not in ("b1",)
    assert [d["kind"] for d in w.decisions if d["bundle"] == bundle][-1] == "override"


def test_a_write_that_the_sink_refused_is_forgotten_and_decided_anew() -> None:
    w = world(brokers=2, bundles=2)
    w.refuse = lambda bundle: True
    w.run(1_500).ask(list(w.bundles))
    w.run(50)
    refused = w.results[-1].snapshot.counters["sink_refusals"]
    w.refuse = lambda bundle: False
    w.run(1_500)

    assert refused >= 2
    assert set(w.owners) == set(w.bundles)


def test_a_decision_that_loses_its_race_is_counted_and_forgotten() -> None:
    w = serving(world(brokers=2, bundles=2))
    bundle = sorted(w.bundles)[0]
    owner = w.owners[bundle]
    other = next(b for b in w.brokers if b != owner)
    w.command(Transfer(bundle=bundle, destination=other))
    forced = owned(owner, 3, w.now_ms, force=True)  # somebody else takes version 3 first
    w.channel(bundle, forced)
    w.run(500)

    assert w.results[-1].snapshot.counters["lost_races"] == 1
    assert w.owners[bundle] == owner
    assert w.results[-1].snapshot.in_flight == 0


def test_a_stuck_transfer_is_given_back_to_its_source() -> None:
    w = serving(world(brokers=2, bundles=2))
    bundle = sorted(w.bundles)[0]
    owner = w.owners[bundle]
    other = next(b for b in w.brokers if b != owner)
    stuck = ServiceUnitStateData(
        state=ServiceUnitState.Releasing,
        dstBroker=other,
        sourceBroker=owner,
        timestamp=w.now_ms,
        versionId=3,
    )
    w.append(w.settings.channel_topic, bundle, msgspec.json.encode(stuck))  # nobody reacts
    w.run(SETTINGS.actions.in_flight_timeout_ms + 1_500)

    last = [d for d in w.decisions if d["bundle"] == bundle][-1]
    assert (last["kind"], last["reason"], last["to"]) == ("override", "stuck", owner)


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        (lambda b, o: Transfer(bundle=b, destination=o, who="ann", why="test"), "transfer"),
        (lambda b, o: Unload(bundle=b), "unload"),
        (lambda b, o: SplitBundle(bundle=b), "split"),
    ],
)
def test_commands_are_answered_at_once(command: object, kind: str) -> None:
    w = serving(world(brokers=2, bundles=2))
    bundle = sorted(w.bundles)[0]
    other = next(b for b in w.brokers if b != w.owners[bundle])
    w.command(command(bundle, other))

    last = w.decisions[-1]
    assert (last["kind"], last["bundle"], last["reason"]) == (kind, bundle, "admin")
    w.run(1_000)
    if kind == "transfer":
        assert w.owners[bundle] == other
    if kind == "unload":
        assert bundle in w.owners  # released, then assigned again without being asked
    if kind == "split":
        assert bundle not in w.owners


@pytest.mark.parametrize(
    "command",
    [
        Transfer(bundle="t/n/0x00000000_0x80000000", destination="nobody"),
        Transfer(bundle="t/other/0x00000000_0x80000000", destination="b0"),
        SplitBundle(bundle="t/n/0x00000000_0x80000000", boundaries=[0xF0000000]),
        Unload(bundle="t/n/0x00000000_0x40000000"),
    ],
)
def test_commands_that_cannot_be_obeyed_get_a_verdict_with_the_problem(command: object) -> None:
    w = serving(world(brokers=2, bundles=2))
    w.command(command)
    line = msgspec.json.decode(w.results[-1].rounds[-1])

    assert w.results[-1].records == ()
    assert line["verdicts"]["top"][0]["reason"] == "invalid_command"
    assert line["verdicts"]["top"][0]["inputs"]["problem"]


def test_a_pause_stops_balancing_but_not_assignments_and_ends_by_itself() -> None:
    w = heated(serving(world(brokers=4, bundles=48, seed=3)))
    w.command(Pause(untilMs=w.now_ms + 8_000))
    w.run(7_500)
    assert w.rounds[-1]["mode"] == "paused"
    assert not [d for d in w.decisions if d["kind"] == "transfer"]

    w.bundles["t/m/0x00000000_0xffffffff"] = 1_000.0
    w.ask(["t/m/0x00000000_0xffffffff"])
    assert w.decisions[-1]["kind"] == "assign"
    w.run(8_000)
    assert [d for d in w.decisions if d["kind"] == "transfer"]


def test_resume_ends_a_pause_without_end() -> None:
    w = serving(world(brokers=2, bundles=4))
    w.command(Pause())
    w.run(2_000)
    assert w.rounds[-1]["mode"] == "paused"
    w.command(Resume())
    w.run(2_000)
    assert w.rounds[-1]["mode"] == "act"


def test_limits_of_moves_in_flight_hold() -> None:
    actions = ActionSettings(moves_per_round_max=3, in_flight_per_broker_max=2)
    w = heated(serving(world(brokers=4, bundles=64, seed=3, actions=actions))).run(15_000)
    per_round: dict[int, list[dict]] = {}
    for d in w.decisions:
        if d["kind"] == "transfer":
            per_round.setdefault(d["log"]["round"], []).append(d)

    assert per_round
    for moves in per_round.values():
        assert len(moves) <= 3
        brokers = [b for d in moves for b in (d["from"], d["to"])]
        assert all(brokers.count(b) <= 2 for b in brokers)


def test_a_bundle_does_not_return_within_its_cool_down() -> None:
    w = serving(world(brokers=4, bundles=32, seed=5))
    for broker in ("b0", "b1", "b2", "b0"):
        heated(w, broker).run(15_000)
    left: dict[str, tuple[str, int]] = {}
    for d in w.decisions:
        if d["kind"] != "transfer":
            continue
        when = d["log"]["clockMs"]
        if d["bundle"] in left:
            source, at = left[d["bundle"]]
            assert when - at >= SETTINGS.actions.bundle_cooldown_ms
            assert d["to"] != source or when - at >= SETTINGS.actions.no_return_ms
        left[d["bundle"]] = (d["from"], when)


def test_excluded_and_heartbeat_namespaces_are_never_shed() -> None:
    w = world(brokers=2, bundles=2)
    w.bundles = {
        "pulsar/system/0x00000000_0xffffffff": 9_000.0,
        "pulsar/10.0.0.1:8080/0x00000000_0xffffffff": 9_000.0,
        "t/n/0x00000000_0x80000000": 100.0,
    }
    w.run(1_500).ask(list(w.bundles))
    w.run(200)
    for bundle in list(w.bundles):  # all of them on b0
        w.channel(bundle, owned("b0", 9, w.now_ms, force=True))
    w.run(15_000)

    moved = {d["bundle"] for d in w.decisions if d["kind"] == "transfer"}
    assert moved <= {"t/n/0x00000000_0x80000000"}


def test_bad_records_are_dead_letters_and_good_ones_beside_them_count() -> None:
    w = world(brokers=2, bundles=2)
    w.append("load-reports", "main/b9", b'{"reportType":"LoadReport"')
    w.append("load-reports", "main/b9", b"\xff\xfe")
    w.append("load-reports", None, b"{}")
    w.append("controller-commands", "main/x", b'{"command":"dance"}')
    w.append("bundle-state-main", "t/n/oops", b'{"state":"Owned"}')
    w.run(2_000)
    rejects = [r for result in w.results for r in result.rejects]

    assert len(rejects) == 5
    assert all(r.reason and r.detail for r in rejects)
    assert {r.reason for r in rejects} >= {"malformed_json", "unknown_command"}
    assert w.results[-1].snapshot.brokers_live == 2
    assert w.results[-1].snapshot.counters["rejects"] == 5


def test_time_passes_without_records_when_the_caller_says_so() -> None:
    from controller.core.step import step

    w = serving(world(brokers=2, bundles=2))
    later = step(w.state, [], w.now_ms + 3_000, w.settings)

    assert len(later.rounds) >= 2
    assert later.snapshot.clock_ms == w.now_ms + 3_000


def test_load_in_flight_is_counted_where_it_goes_and_not_twice_when_reported() -> None:
    w = heated(serving(world(brokers=2, bundles=16)))
    bundle = max((b for b, o in w.owners.items() if o == "b0"), key=lambda b: w.bundles[b])
    w.run(1_200)  # the reports show the heat
    settled = w.rounds[-1]["statistics"]["loads"]
    points = w.bundles[bundle] / w.brokers["b0"]
    w.command(Transfer(bundle=bundle, destination="b1"))
    w.run(1_000)
    moving = w.rounds[-1]["statistics"]["loads"]
    w.run(6_000)
    after = w.rounds[-1]["statistics"]["loads"]

    assert moving["b0"] + moving["b1"] == pytest.approx(settled["b0"] + settled["b1"], rel=0.15)
    assert after["b1"] == pytest.approx(w.load_points()["b1"] / 100.0, rel=0.01)
    assert points > 0.01
    assert w.results[-1].snapshot.in_flight == 0


def test_a_bundle_being_split_still_counts_on_its_broker() -> None:
    w = serving(world(brokers=2, bundles=4)).run(2_000)
    bundle = sorted(w.bundles)[0]
    owner = w.owners[bundle]
    before = w.rounds[-1]["statistics"]["loads"][owner]
    w.silent.add(owner)  # the split begins and nobody carries it out
    w.command(SplitBundle(bundle=bundle))
    w.run(1_000)

    assert w.rounds[-1]["statistics"]["loads"][owner] == pytest.approx(before)


def test_a_bundle_may_go_back_to_a_broker_that_died_since_it_left() -> None:
    w = serving(world(brokers=3, bundles=6))
    moved = next(b for b, o in w.owners.items() if o == "b0")
    orphan = next(b for b, o in w.owners.items() if o == "b0" and b != moved)
    w.command(Transfer(bundle=moved, destination="b1"))
    w.run(500)
    slots = w.state.bundles.slots
    left = w.state.bundles["left"]
    assert left[slots[moved]] == w.state.brokers.slots["b0"]

    w.silent.add("b0")
    w.run(4_500)
    left = w.state.bundles["left"]
    assert w.owners[orphan] != "b0"
    assert left[slots[moved]] == left[slots[orphan]] == -1


def test_an_unloaded_bundle_goes_to_another_broker() -> None:
    w = serving(world(brokers=2, bundles=8))
    bundle = sorted(w.bundles)[0]
    owner = w.owners[bundle]
    w.command(Unload(bundle=bundle))
    w.run(1_000)

    assert w.owners[bundle] != owner


def test_bundles_and_brokers_that_are_long_gone_leave_the_memory() -> None:
    liveness = replace(SETTINGS.liveness, forget_after_ms=10_000)
    w = serving(world(brokers=3, bundles=6, liveness=liveness))
    parent = "t/n/0x00000000_0xffffffff"
    late = good_report("b1", w.sequence + 1, w.now_ms, bundles=[parent])
    w.append(w.settings.reports_topic, "main/b1", late)
    assert parent in w.state.bundles.slots
    w.silent.add("b2")
    w.run(25_000)

    assert parent not in w.state.bundles.slots
    assert "b2" not in w.state.brokers.slots
    assert set(w.owners) == set(w.state.bundles.slots)
