"""The channel kept tidy: tombstones, reassertions, losing records, bounded repairs."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from controller.channel.table import ChannelTable
from controller.core.settings import LogSettings
from controller.wire.channel import (
    ServiceUnitState,
    ServiceUnitStateData,
    decode_channel,
)
from controller.wire.commands import Pause, SplitBundle, Transfer
from tests.world import SETTINGS, World, of_broker, owned, serving, world

S = ServiceUnitState
DELAY_MS = SETTINGS.actions.tombstone_delay_ms
STRANGER = "t/m/0x00000000_0xffffffff"


def ready(**more: object) -> World:
    """Everything owned, and the picture Stable."""
    return serving(world(**more)).run(SETTINGS.liveness.takeover_after_ms)


def of_kind(w: World, kind: str) -> list[dict]:
    return [d for d in w.decisions if d["kind"] == kind]


def on_channel(w: World, bundle: str) -> list[ServiceUnitStateData | None]:
    records = [r for r in w.log if r.topic == w.settings.channel_topic and r.key == bundle]
    return [decode_channel(r.value) for r in records]


def record(state: S, version: int, w: World, **more: object) -> ServiceUnitStateData:
    return ServiceUnitStateData(state=state, timestamp=w.now_ms, versionId=version, **more)


# --------------------------------------------------------------------------- tombstones


def test_the_parent_of_a_split_leaves_the_channel_after_the_delay() -> None:
    w = ready(brokers=3, bundles=6)
    parent = min(w.bundles)
    w.command(SplitBundle(bundle=parent))
    w.run(DELAY_MS - 1_000)
    assert on_channel(w, parent)[-1].state is S.Deleted
    assert parent in w.state.bundles.slots

    w.run(2_500)
    assert on_channel(w, parent)[-1] is None
    assert parent not in w.state.bundles.slots
    assert [d["reason"] for d in of_kind(w, "tombstone")] == ["old"]
    assert w.results[-1].snapshot.pending == 0


def test_a_free_bundle_that_somebody_waits_for_is_not_buried() -> None:
    w = ready(brokers=1, bundles=2)
    bundle = min(w.bundles)
    w.channel(bundle, record(S.Free, 9, w, sourceBroker="b0", force=True))
    w.is_mute = True  # the assignment is decided, and never arrives
    w.run(DELAY_MS + 3_000)

    assert not of_kind(w, "tombstone")


def free_for_long(w: World, bundle: str) -> None:
    """Free, with nobody waiting for it: the request that Free begins is taken away."""
    slot = w.state.bundles.slots[bundle]
    w.channel(bundle, record(S.Free, 9, w, sourceBroker="b0", force=True))
    w.state.memory.requests.pop(bundle, None)
    w.state.memory.moves.pop(bundle, None)
    w.queue.clear()
    w.state.bundles["since_ms"][slot] = w.now_ms - DELAY_MS
    w.at(0, w._tick)


def test_a_request_that_meets_a_tombstone_on_its_way_is_answered_after_it() -> None:
    w = ready(brokers=2, bundles=4)
    bundle = min(w.bundles)
    free_for_long(w, bundle)
    w.run(1)
    while not of_kind(w, "tombstone"):
        w.run(10)
    before = len(w.log)
    w.ask([bundle])
    assert not w.results[-1].records  # nothing is written for it now
    w.run(500)

    states = [r and r.state for r in on_channel(w, bundle)[-3:]]
    assert states == [None, S.Assigning, S.Owned]
    assert on_channel(w, bundle)[-2].versionId == 1
    assert len(w.log) > before


def test_a_refused_tombstone_is_forgotten_and_decided_again() -> None:
    w = ready(brokers=3, bundles=6)
    parent = min(w.bundles)
    w.command(SplitBundle(bundle=parent))
    w.run(1_000)
    w.refuse = lambda bundle: True
    w.run(DELAY_MS)
    refused = len(of_kind(w, "tombstone"))
    assert refused >= 1
    assert parent not in w.state.memory.moves
    w.refuse = lambda bundle: False
    w.run(1_500)

    assert parent not in w.state.bundles.slots
    ids = {d["decisionId"] for d in of_kind(w, "tombstone")}
    assert len(ids) == 1  # from content: the same decision


def test_an_operator_cannot_move_what_a_tombstone_is_on_its_way_to() -> None:
    w = ready(brokers=2, bundles=4)
    bundle = min(w.bundles)
    free_for_long(w, bundle)
    w.is_mute = True
    w.run(1_500)
    assert len(of_kind(w, "tombstone")) == 1
    w.channel(bundle, owned("b1", 11, w.now_ms, force=True))  # somebody else interferes
    w.run(3_000)
    silent = w.command(SplitBundle(bundle=bundle))

    assert b"has a decision in flight" in silent.rounds[0]
    assert len([d for d in w.decisions if d["bundle"] == bundle and d["kind"] != "assign"]) == 1


def test_a_late_duplicate_begins_the_delay_anew() -> None:
    w = ready(brokers=3, bundles=6)
    parent = min(w.bundles)
    w.command(SplitBundle(bundle=parent))
    w.run(DELAY_MS - 1_500)
    w.channel(parent, owned(w.owners.get(parent, "b0"), 2, w.now_ms))  # delivered once more
    w.run(3_000)
    assert [r.state for r in on_channel(w, parent)[-2:]] == [S.Owned, S.Deleted]
    assert not of_kind(w, "tombstone")
    assert parent not in w.owners
    w.run(DELAY_MS)
    assert on_channel(w, parent)[-1] is None


def test_a_key_that_was_buried_begins_anew() -> None:
    w = ready(brokers=3, bundles=6)
    parent = min(w.bundles)
    w.command(SplitBundle(bundle=parent))
    w.run(DELAY_MS + 2_500)
    assert parent not in w.state.bundles.slots
    w.channel(parent, owned("b1", 1, w.now_ms))

    assert int(w.state.bundles["version"][w.state.bundles.slots[parent]]) == 1
    assert w.results[-1].snapshot.tainted == 0


def test_a_buried_parent_is_not_assigned_while_its_children_are_in_use() -> None:
    """Somebody with old boundaries asks for it; two owners of one topic would come of that."""
    w = ready(brokers=3, bundles=6)
    parent = min(w.bundles)
    w.command(SplitBundle(bundle=parent))
    w.run(DELAY_MS + 2_500)
    children = {b for b in w.table if b not in w.state.bundles.slots} ^ set(w.table)
    w.ask([parent])
    line = msgspec.json.decode(w.results[-1].rounds[0])

    assert not w.results[-1].records
    assert line["verdicts"]["top"][0]["reason"] == "overlap"
    assert line["verdicts"]["top"][0]["inputs"]["bundle"] in children
    assert w.results[-1].snapshot.requests == 0


def test_overlapping_bundles_that_are_both_new_get_one_owner() -> None:
    w = ready(brokers=3, bundles=6)
    whole, half = "t/m/0x00000000_0xffffffff", "t/m/0x00000000_0x80000000"
    w.ask([half, whole, "t/m/0x80000000_0xffffffff"])
    w.run(500)

    assert {b for b in w.owners if b.startswith("t/m")} == {half, "t/m/0x80000000_0xffffffff"}


# ------------------------------------------------------------------------- reassertions


def losers(w: World, bundle: str, count: int = 1) -> None:
    for _ in range(count):
        w.channel(bundle, owned("b1", 1, w.now_ms))


def test_a_record_that_lost_is_followed_by_the_one_that_stands() -> None:
    w = ready(brokers=3, bundles=6)
    bundle = min(of_broker(w, "b0"))
    stands = on_channel(w, bundle)[-1]
    losers(w, bundle)
    assert w.results[-1].snapshot.tainted == 1
    w.run(1_000)
    last = on_channel(w, bundle)[-1]

    assert (last.state, last.dstBroker) == (S.Owned, "b0")
    assert last.sourceBroker == stands.sourceBroker
    assert (last.versionId, last.force) == (stands.versionId + 1, True)
    assert w.owners[bundle] == "b0"
    assert w.results[-1].snapshot.tainted == 0
    w.run(5_000)
    assert len(of_kind(w, "reassert")) == 1
    assert w.results[-1].snapshot.pending == 0


def test_a_reassertion_moves_no_load_and_cools_nothing() -> None:
    w = ready(brokers=2, bundles=8)
    w.run(3_000)
    before = w.rounds[-1]["statistics"]["loads"]
    losers(w, min(of_broker(w, "b0")))
    w.run(600)
    during = w.rounds[-1]["statistics"]["loads"]
    slot = w.state.bundles.slots[min(of_broker(w, "b0"))]

    assert of_kind(w, "reassert")
    assert during == before
    assert int(w.state.bundles["left"][slot]) == -1


def test_a_loser_of_the_next_version_is_followed_by_two() -> None:
    """A reader that begins with the loser refuses the first: it has the loser's version."""
    w = ready(brokers=3, bundles=6)
    bundle = min(of_broker(w, "b0"))
    version = on_channel(w, bundle)[-1].versionId
    w.channel(bundle, record(S.Free, version + 1, w, sourceBroker="b0"))
    w.run(3_000)
    late = ChannelTable()
    for r in on_channel(w, bundle)[-3:]:
        late.apply(bundle, r, 0)

    assert [r.versionId for r in on_channel(w, bundle)[-2:]] == [version + 1, version + 2]
    assert late.records[bundle] == on_channel(w, bundle)[-1]
    assert w.results[-1].snapshot.tainted == 0
    w.run(3_000)
    assert len(of_kind(w, "reassert")) == 2


def test_what_is_in_flight_is_left_alone_until_it_has_settled() -> None:
    w = ready(brokers=3, bundles=6)
    bundle = min(of_broker(w, "b0"))
    w.silent.add("b0")
    version = on_channel(w, bundle)[-1].versionId
    w.channel(bundle, record(S.Releasing, version + 1, w, sourceBroker="b0", dstBroker="b1"))
    losers(w, bundle)
    w.run(1_500)

    assert w.results[-1].snapshot.tainted == 1
    assert not of_kind(w, "reassert")
    w.run(5_000)
    assert w.results[-1].snapshot.tainted == 0
    assert of_kind(w, "override")


def test_an_unreadable_record_taints_too() -> None:
    w = ready(brokers=3, bundles=6)
    bundle = min(of_broker(w, "b0"))
    w.append(w.settings.channel_topic, bundle, b'{"state":"Owned"')
    assert len(w.results[-1].rejects) == 1
    w.append(w.settings.channel_topic, "t/n/oops", b'{"state":"Owned"')
    assert w.results[-1].snapshot.tainted == 1
    w.run(1_000)

    assert [d["bundle"] for d in of_kind(w, "reassert")] == [bundle]
    assert w.results[-1].snapshot.tainted == 0


def test_a_pause_does_not_stop_the_monitor_but_safe_mode_does() -> None:
    w = ready(brokers=4, bundles=8)
    w.command(Pause())
    losers(w, min(of_broker(w, "b0")))
    w.run(1_000)
    assert len(of_kind(w, "reassert")) == 1

    w.jittery = set(w.brokers)
    w.run(2_000)
    losers(w, min(of_broker(w, "b0")))
    w.run(3_000)
    assert len(of_kind(w, "reassert")) == 1


# ---------------------------------------------------------------------- losers are told


def test_losers_are_counted_by_reason_and_told_in_the_next_line_of_the_log() -> None:
    w = ready(brokers=3, bundles=6, log=LogSettings(verdicts_top=3))
    bundle = min(of_broker(w, "b0"))
    version = on_channel(w, bundle)[-1].versionId
    losers(w, bundle, 5)
    w.channel(bundle, record(S.Free, version + 1, w, sourceBroker="b0"))
    w.channel(bundle, record(S.Releasing, version + 1, w, sourceBroker="b2", dstBroker="b1"))
    counters = w.results[-1].snapshot.counters
    assert counters["losing_records"] == 7
    assert counters["losing_records_stale_version"] == 5
    assert counters["losing_records_bad_transition"] == 1
    assert counters["losing_records_broker_mismatch"] == 1

    w.run(600)
    lines = [msgspec.json.decode(r) for result in w.results for r in result.rounds]
    told = [line["verdicts"] for line in lines if "lost_race" in line["verdicts"]["counts"]]
    assert [v["counts"]["lost_race"] for v in told] == [7]
    top = [v for v in told[0]["top"] if v["reason"] == "lost_race"]
    assert top[0]["inputs"] == {"why": "stale_version", "version": 1.0, "broker": "b1"}
    assert len(top) == 3


def test_our_accepted_record_delivered_twice_does_not_end_the_move() -> None:
    w = ready(brokers=3, bundles=6)
    bundle = min(of_broker(w, "b0"))
    w.silent.add("b0")
    w.command(Transfer(bundle=bundle, destination="b1"))
    w.run(30)
    ours = on_channel(w, bundle)[-1]
    assert ours.state is S.Releasing
    w.channel(bundle, ours)

    assert bundle in w.state.memory.moves
    assert w.results[-1].snapshot.counters.get("lost_races", 0) == 0


# ------------------------------------------------------------------------------ bounded


@pytest.mark.parametrize("first", ["override", "reassert"])
def test_no_more_forced_records_than_allowed_are_on_their_way(first: str) -> None:
    actions = replace(SETTINGS.actions, overrides_per_round_max=4, pending_timeout_ms=3_000)
    w = ready(brokers=3, bundles=36, actions=actions)
    mine = sorted(of_broker(w, "b2"))
    w.is_mute = True
    if first == "override":
        w.stop("b2")
    else:
        for bundle in mine:
            losers(w, bundle)
    w.run(2_000)
    assert len(of_kind(w, first)) == 4
    counts = w.rounds[-1]["verdicts"]["counts"]
    assert counts["round_limit"] == len(mine) - 4
    w.run(3_000)  # they count as lost: the next four
    assert len(of_kind(w, first)) == 8

    w.is_mute = False
    w.run(20_000)
    if first == "override":
        assert of_broker(w, "b2") == set()
    assert w.results[-1].snapshot.tainted == 0


def test_orphans_of_system_namespaces_are_repaired_last() -> None:
    actions = replace(SETTINGS.actions, overrides_per_round_max=3)
    w = world(brokers=3, bundles=12, actions=actions)
    system = {f"pulsar/system/0x{n}0000000_0x{n + 1}0000000" for n in range(4)}
    w.bundles |= dict.fromkeys(system, 5.0)
    serving(w).run(3_000)
    for bundle in system:
        w.channel(bundle, owned("b1", 9, w.now_ms, force=True))
    w.stop("b1")
    w.run(8_000)
    order = [d["bundle"] in system for d in of_kind(w, "override")]

    assert order.count(True) == 4
    assert order == sorted(order)


def test_a_split_that_died_half_way_ends_with_children_and_no_parent() -> None:
    w = ready(brokers=4, bundles=8)
    parent = min(of_broker(w, "b0"))
    version = on_channel(w, parent)[-1].versionId
    low, high = "0x00000000_0x10000000", "0x10000000_0x20000000"
    children = {f"t/n/{low}", f"t/n/{high}"}
    w.silent.add("b0")  # wrote Splitting's children, and died before Deleted
    splitting = record(
        S.Splitting,
        version + 1,
        w,
        sourceBroker="b0",
        splitServiceUnitToDestBroker={low: None, high: None},
    )
    w.channel(parent, splitting)
    for child in children:
        w.bundles[child] = 10.0
        w.channel(child, owned("b0", 1, w.now_ms))
    w.run(8_000)
    forced = [r for r in on_channel(w, parent) if r is not None and r.force]

    assert [r.state for r in forced] == [S.Splitting]
    assert forced[0].sourceBroker != "b0"
    assert sorted(forced[0].splitServiceUnitToDestBroker) == [low, high]
    assert on_channel(w, parent)[-1].state is S.Deleted
    assert all(w.owners[child] != "b0" for child in children)
    assert parent not in w.owners


def test_an_owned_record_that_names_no_owner_gets_one() -> None:
    w = ready(brokers=3, bundles=6)
    bundle = min(of_broker(w, "b0"))
    w.channel(bundle, record(S.Owned, 20, w, sourceBroker="b0", force=True))
    w.run(1_000)

    assert w.owners[bundle] in w.brokers
    assert of_kind(w, "override")[0]["detail"] == "names no owner"


def test_a_split_without_children_is_given_back_whole() -> None:
    w = ready(brokers=3, bundles=6)
    bundle = min(of_broker(w, "b0"))
    version = on_channel(w, bundle)[-1].versionId
    w.silent.add("b0")
    w.channel(bundle, record(S.Splitting, version + 1, w, sourceBroker="b0"))
    w.run(6_000)

    assert on_channel(w, bundle)[-1].state is S.Owned
    assert w.owners[bundle] in ("b1", "b2")
