"""Health of the picture: Stable, Jittery, Unstable; and one owner for concurrent requests."""

from __future__ import annotations

from controller.wire.channel import ServiceUnitState, decode_channel
from controller.wire.commands import Assign
from tests.world import SETTINGS, World, of_broker, serving, world

TAKEOVER_MS = SETTINGS.liveness.takeover_after_ms


def health(w: World) -> tuple[str, str]:
    """Of the last round and of the last snapshot."""
    return w.rounds[-1]["health"], w.results[-1].snapshot.health


def test_a_new_memory_is_jittery_and_then_stable() -> None:
    w = world(brokers=3, bundles=6).run(TAKEOVER_MS - 500)
    assert health(w) == ("Jittery", "Jittery")
    w.run(2_000)
    assert health(w) == ("Stable", "Stable")


def test_most_brokers_jittery_is_safe_mode_although_all_of_them_speak() -> None:
    w = serving(world(brokers=4, bundles=16)).run(TAKEOVER_MS)
    w.jittery = {"b0", "b1", "b2"}
    w.run(2_500)
    assert health(w) == ("Unstable", "Unstable")
    assert w.rounds[-1]["mode"] == w.results[-1].snapshot.mode == "safe_mode"

    w.silent.add("b3")
    w.run(TAKEOVER_MS + 2_000)
    assert of_broker(w, "b3")  # nobody is taken for dead

    w.jittery = set()
    w.silent.clear()
    w.run(2_000)
    assert health(w) == ("Jittery", "Jittery")
    assert w.rounds[-1]["mode"] == "act"
    w.run(TAKEOVER_MS)
    assert health(w) == ("Stable", "Stable")
    assert not [d for d in w.decisions if d["kind"] == "override"]


def test_one_jittery_broker_and_one_late_one_count_together() -> None:
    w = serving(world(brokers=3, bundles=12)).run(TAKEOVER_MS)
    w.jittery = {"b0"}
    w.run(2_000)
    assert health(w)[0] == "Stable"
    w.silent.add("b1")
    w.run(2_500)
    assert health(w)[0] == "Unstable"


def test_silence_begun_in_a_jittery_time_is_taken_for_death_only_when_stable() -> None:
    w = serving(world(brokers=4, bundles=16)).run(TAKEOVER_MS)
    w.silent |= set(w.brokers)
    w.run(5_000)
    w.silent = {"b2"}
    mine = of_broker(w, "b2")
    w.run(TAKEOVER_MS - 500)
    assert of_broker(w, "b2") == mine
    w.run(2_500)
    assert health(w)[0] == "Stable"
    assert of_broker(w, "b2") == set()


def test_concurrent_requests_for_one_bundle_make_exactly_one_assigning() -> None:
    w = serving(world(brokers=4, bundles=16))
    bundle = "t/m/0x00000000_0xffffffff"
    w.bundles[bundle] = 10.0
    for asker in range(20):
        w.command(Assign(bundle=bundle, requestedBy=f"b{asker % 4}"))
    w.run(60)
    for asker in range(20):
        w.command(Assign(bundle=bundle, requestedBy=f"b{asker % 4}"))
    w.run(2_000)
    records = [
        decode_channel(r.value)
        for r in w.log
        if r.topic == w.settings.channel_topic and r.key == bundle
    ]

    assert [r.state for r in records] == [ServiceUnitState.Assigning, ServiceUnitState.Owned]
    assert len([d for d in w.decisions if d["bundle"] == bundle]) == 1
