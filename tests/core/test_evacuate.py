"""Brokers that drain or leave, bundles that are pinned: one sentence per test."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.core.settings import ActionSettings
from controller.wire.commands import Drain, Pause, Pin, Resume, SplitBundle, Undrain, Unpin
from tests.world import SETTINGS, World, of_broker, owned, serving, world


def transfers(w: World, reason: str) -> list[dict]:
    return [d for d in w.decisions if d["kind"] == "transfer" and d["reason"] == reason]


def verdicts(w: World, reason: str) -> list[dict]:
    return [v for v in w.rounds[-1]["verdicts"]["top"] if v["reason"] == reason]


def settle(w: World) -> World:
    """Long enough after the start to be Stable."""
    return w.run(SETTINGS.liveness.takeover_after_ms + 1_000)


# ------------------------------------------------------------------------------- drain


def test_a_drained_broker_empties_and_gets_nothing_back() -> None:
    w = serving(world(brokers=4, bundles=24))
    before = of_broker(w, "b1")
    at = w.now_ms
    w.command(Drain(broker="b1", who="ann", why="disks"))
    w.run(3_000)
    assert before
    assert of_broker(w, "b1") == set()
    assert {d["bundle"] for d in transfers(w, "drain")} == before
    assert transfers(w, "drain")[0]["detail"] == "b1 is drained by ann: disks"

    w.bundles["t/m/0x00000000_0xffffffff"] = 10.0
    w.ask(["t/m/0x00000000_0xffffffff"])
    w.run(20_000)
    assert not [d for d in w.decisions if d.get("to") == "b1" and d["log"]["clockMs"] > at]
    assert of_broker(w, "b1") == set()
    assert set(w.owners) == set(w.bundles)
    assert verdicts(w, "draining")[0]["subject"] == "b1"
    assert verdicts(w, "draining")[0]["inputs"] == {"bundles_left": 0.0, "who": "ann"}
    assert w.results[-1].snapshot.brokers_draining == 1


def test_an_undrained_broker_is_given_bundles_again() -> None:
    w = serving(world(brokers=3, bundles=12))
    w.command(Drain(broker="b1"))
    w.run(3_000)
    w.command(Undrain(broker="b1"))
    w.run(20_000)

    assert of_broker(w, "b1")
    assert w.results[-1].snapshot.brokers_draining == 0


def test_undrain_answers_requests_that_waited_for_it() -> None:
    w = serving(world(brokers=1, bundles=2))
    w.command(Drain(broker="b0"))
    w.bundles["t/m/0x00000000_0xffffffff"] = 10.0
    w.ask(["t/m/0x00000000_0xffffffff"])
    w.run(1_000)
    assert "t/m/0x00000000_0xffffffff" not in w.owners
    w.command(Undrain(broker="b0"))

    assert [d["kind"] for d in w.decisions][-1] == "assign"


def test_a_drain_with_nowhere_to_go_says_so_and_goes_on_when_it_can() -> None:
    w = serving(world(brokers=2, bundles=6))
    mine = of_broker(w, "b0")
    w.command(Drain(broker="b0"))
    w.command(Drain(broker="b1"))
    w.run(2_000)
    assert of_broker(w, "b0") == mine
    assert w.rounds[-1]["verdicts"]["counts"]["no_brokers"] >= 6

    w.command(Undrain(broker="b1"))
    w.run(2_000)
    assert of_broker(w, "b0") == set()


def test_a_drain_keeps_to_the_budget_of_moves_in_flight() -> None:
    actions = replace(SETTINGS.actions, moves_per_round_max=3, in_flight_per_broker_max=2)
    w = serving(world(brokers=4, bundles=48, actions=actions))
    w.command(Drain(broker="b0"))
    w.run(30_000)
    per_tick: dict[int, int] = {}
    for d in transfers(w, "drain"):
        per_tick[d["log"]["clockMs"]] = per_tick.get(d["log"]["clockMs"], 0) + 1

    assert max(per_tick.values()) == 2
    assert of_broker(w, "b0") == set()
    told = [r for r in w.rounds if r["verdicts"]["counts"].get("round_limit")]
    assert told


def test_system_namespaces_are_evacuated_last_and_a_brokers_own_never() -> None:
    actions = replace(SETTINGS.actions, moves_per_round_max=2)
    w = world(brokers=2, bundles=4, actions=actions)
    system, own = "pulsar/system/0x00000000_0xffffffff", "pulsar/b0:8080/0x00000000_0xffffffff"
    w.bundles |= {system: 10.0, own: 10.0}
    serving(w)
    for bundle in w.bundles:
        w.channel(bundle, owned("b0", 9, w.now_ms, force=True))
    w.command(Drain(broker="b0"))
    w.run(10_000)
    order = [d["bundle"] for d in transfers(w, "drain")]

    assert len(order) == 5
    assert order[-1] == system
    assert of_broker(w, "b0") == {own}


def test_a_pause_holds_a_drain_but_not_a_leaving_broker() -> None:
    w = serving(world(brokers=4, bundles=24))
    w.command(Pause())
    w.command(Drain(broker="b1"))
    w.status["b2"] = "leaving"
    w.run(4_000)
    assert of_broker(w, "b1")
    assert of_broker(w, "b2") == set()

    w.command(Resume())
    w.run(3_000)
    assert of_broker(w, "b1") == set()


# ---------------------------------------------------------------------- leaving and gone


def test_a_leaving_broker_is_emptied_within_the_budget_and_gets_nothing() -> None:
    actions = replace(SETTINGS.actions, in_flight_per_broker_max=2)
    w = serving(world(brokers=4, bundles=32, actions=actions))
    w.status["b3"] = "leaving"
    w.run(10_000)
    moves = transfers(w, "leaving")

    assert of_broker(w, "b3") == set()
    assert moves[0]["detail"] == "b3 is leaving"
    assert not [d for d in w.decisions if d["kind"] == "override"]
    assert max(sum(m["log"] == d["log"] for m in moves) for d in moves) == 2
    assert verdicts(w, "draining")[0]["inputs"]["who"] == "its agent"


def test_leaving_brokers_are_emptied_before_drained_ones() -> None:
    actions = replace(SETTINGS.actions, in_flight_max=2)
    w = serving(world(brokers=4, bundles=24, actions=actions))
    w.status["b2"] = "leaving"
    w.command(Drain(broker="b0"))
    w.run(20_000)
    reasons = [d["reason"] for d in w.decisions if d["reason"] in ("drain", "leaving")]

    # b2 says so only with its next report; what was begun before goes on
    from_first = reasons[reasons.index("leaving") :]
    assert from_first.index("drain") == from_first.count("leaving")


def test_bundles_of_a_broker_that_is_gone_are_reassigned_at_the_next_tick() -> None:
    w = settle(serving(world(brokers=4, bundles=16)))
    mine = of_broker(w, "b2")
    w.stop("b2")
    at = w.now_ms
    w.run(SETTINGS.rounds.upkeep_interval_ms + 200)
    overrides = [d for d in w.decisions if d["kind"] == "override"]

    assert {d["bundle"] for d in overrides} == mine
    assert all(d["detail"] == "b2 has stopped" for d in overrides)
    assert all(d["log"]["clockMs"] - at <= 700 for d in overrides)
    assert of_broker(w, "b2") == set()


def test_a_broker_that_is_gone_is_not_late_so_that_a_rolling_restart_is_no_safe_mode() -> None:
    w = settle(serving(world(brokers=4, bundles=16)))
    for broker in ("b0", "b1", "b2"):
        w.status[broker] = "leaving"
    w.run(5_000)
    for broker in ("b0", "b1", "b2"):
        w.stop(broker)
    w.run(10_000)

    assert {r["mode"] for r in w.rounds[4:]} == {"act"}
    assert set(w.owners.values()) == {"b3"}


def test_a_late_duplicate_of_an_older_sign_of_life_does_not_revive() -> None:
    w = settle(serving(world(brokers=3, bundles=12)))
    w.stop("b2")
    w.run(1_000)
    w.status.pop("b2")
    w.heartbeat("b2", back=5)  # "up", from before
    w.bundles["t/m/0x00000000_0xffffffff"] = 10.0
    w.ask(["t/m/0x00000000_0xffffffff"])
    w.run(2_000)
    assert of_broker(w, "b2") == set()
    assert w.results[-1].snapshot.brokers_live == 2

    w.start("b2")  # restarted: the next sequence number
    assert w.results[-1].snapshot.brokers_live == 3


def test_a_broker_that_returns_keeps_what_was_not_overridden_yet() -> None:
    actions = replace(SETTINGS.actions, overrides_per_round_max=2)
    w = settle(serving(world(brokers=3, bundles=18, actions=actions)))
    mine = of_broker(w, "b1")
    w.stop("b1")
    w.run(700)
    taken = {d["bundle"] for d in w.decisions if d["kind"] == "override"}
    w.start("b1")
    w.run(200)

    assert 0 < len(taken) < len(mine)
    assert of_broker(w, "b1") == mine - taken


def test_an_operators_undrain_does_not_make_a_leaving_broker_stay() -> None:
    w = serving(world(brokers=3, bundles=12))
    w.command(Drain(broker="b1"))
    w.status["b1"] = "leaving"
    w.run(2_000)
    w.command(Undrain(broker="b1"))
    w.run(5_000)

    assert of_broker(w, "b1") == set()
    assert w.results[-1].snapshot.brokers_draining == 1


# -------------------------------------------------------------------------------- pins


def test_a_pinned_bundle_stays_where_it_is_however_hot_it_gets() -> None:
    w = serving(world(brokers=4, bundles=24))
    bundle = min(of_broker(w, "b0"))
    w.command(Pin(bundle=bundle))
    w.bundles[bundle] = 70_000.0  # too big by the split's threshold, too
    w.run(15_000)

    assert w.owners[bundle] == "b0"
    assert not [d for d in w.decisions if d["bundle"] == bundle and d["kind"] != "assign"]
    assert verdicts(w, "pinned")[0]["subject"] == bundle
    w.command(Unpin(bundle=bundle))
    w.run(5_000)
    assert bundle not in w.owners  # split


def test_a_pin_moves_its_bundle_home_at_once() -> None:
    w = serving(world(brokers=4, bundles=24))
    bundle = min(of_broker(w, "b0"))
    w.command(Pin(bundle=bundle, broker="b3", who="ann", why="rack"))
    w.run(1_000)

    assert w.owners[bundle] == "b3"
    assert transfers(w, "pinned")[0]["detail"] == "pinned to b3 by ann: rack"


@pytest.mark.parametrize("end", ["drain", "leaving", "gone", "silent"])
def test_a_pinned_bundle_is_served_elsewhere_only_while_its_broker_cannot(end: str) -> None:
    w = settle(serving(world(brokers=4, bundles=24)))
    bundle = min(of_broker(w, "b0"))
    w.command(Pin(bundle=bundle))
    if end == "drain":
        w.command(Drain(broker="b0"))
    elif end == "leaving":
        w.status["b0"] = "leaving"
    elif end == "gone":
        w.stop("b0")
    else:
        w.silent.add("b0")
    w.run(6_000)
    assert w.owners[bundle] != "b0"
    assert bundle in {v["subject"] for v in verdicts(w, "pinned")}

    w.command(Undrain(broker="b0"))
    w.start("b0")
    w.run(2_000)
    assert w.owners[bundle] == "b0"


def test_a_pinned_bundle_without_an_owner_is_assigned_to_its_broker() -> None:
    w = serving(world(brokers=4, bundles=24))
    bundle = min(of_broker(w, "b0"))
    w.brokers["b1"] /= 3.0  # the last that would be chosen
    w.run(5_000)
    w.command(Pin(bundle=bundle, broker="b1"))
    w.channel(bundle, None)
    w.ask([bundle])
    w.run(500)

    assert w.owners[bundle] == "b1"
    assert w.results[-1].snapshot.pins == 1


def test_a_pin_ends_with_its_bundle() -> None:
    w = serving(world(brokers=3, bundles=6))
    bundle = min(of_broker(w, "b0"))
    w.command(SplitBundle(bundle=bundle))
    w.command(Pin(bundle=bundle, broker="b0"))
    w.run(1_000)

    assert bundle not in w.owners
    assert w.results[-1].snapshot.pins == 0


def test_pins_of_brokers_that_nobody_knows_any_more_do_no_harm() -> None:
    liveness = replace(SETTINGS.liveness, forget_after_ms=8_000)
    actions = ActionSettings(in_flight_timeout_ms=5_000, tombstone_delay_ms=6_000)
    w = settle(serving(world(brokers=3, bundles=6, liveness=liveness, actions=actions)))
    bundle = min(of_broker(w, "b2"))
    w.command(Pin(bundle=bundle))
    w.command(Drain(broker="b2"))
    w.stop("b2")
    w.run(20_000)
    assert "b2" not in w.state.brokers.slots
    assert w.owners[bundle] in ("b0", "b1")

    w.start("b2")  # known again, and still drained
    w.run(2_000)
    assert of_broker(w, "b2") == set()
    w.command(Undrain(broker="b2"))
    w.run(1_000)
    assert w.owners[bundle] == "b2"
