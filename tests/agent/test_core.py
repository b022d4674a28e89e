"""Every rule of the agent's protocol (pulsar.md 6.5, 6.6; design 3.4), one test each."""

from __future__ import annotations

import msgspec
import pytest

from controller.agent.events import (
    Acquire,
    Acquired,
    Drop,
    Publish,
    Redirect,
    Release,
    Split,
    SplitDone,
    Timer,
)
from controller.agent.state import Phase
from controller.wire.channel import ServiceUnitStateData
from tests.agent.builders import CHILDREN, HIGH, LOW, ME, OTHER, PARENT, Driven, data


def test_assigning_to_self_is_answered_with_owned_of_the_next_version() -> None:
    agent = Driven()
    actions = agent.read((PARENT, data("Assigning", 5, ME, OTHER)))
    assert actions == [Publish(PARENT, data("Owned", 6, ME, OTHER))]


def test_assigning_to_another_broker_is_left_alone() -> None:
    assert Driven().read((PARENT, data("Assigning", 1, OTHER))) == []


def test_nothing_is_served_before_the_own_owned_record_is_read_back() -> None:
    agent = Driven()
    agent.read((PARENT, data("Assigning", 1, ME)))
    assert agent.state.phases == {}
    assert agent.read((PARENT, data("Owned", 2, ME))) == [Acquire(PARENT)]


def test_a_write_is_not_repeated_while_its_outcome_is_unknown() -> None:
    agent = Driven()
    agent.is_heard = False
    agent.read((PARENT, data("Assigning", 1, ME)))
    agent.now_ms += 900
    assert agent.read() == []
    assert agent.read((PARENT, data("Assigning", 1, ME))) == []


def test_a_takeover_is_served_only_after_the_grace() -> None:
    agent = Driven()
    assert agent.read((PARENT, data("Owned", 7, ME, OTHER, force=True))) == []
    agent.now_ms += 499
    assert Acquire(PARENT) not in agent.feed(Timer())
    agent.now_ms += 1
    assert Acquire(PARENT) in agent.feed(Timer())


def test_a_record_that_skipped_a_version_counts_as_a_takeover() -> None:
    agent = Driven()
    agent.read((PARENT, data("Owned", 1, OTHER)))
    assert agent.read((PARENT, data("Owned", 9, ME))) == []
    agent.now_ms += 500
    assert Acquire(PARENT) in agent.feed(Timer())


def test_a_takeover_that_is_taken_back_within_the_grace_is_never_served() -> None:
    agent = Driven()
    agent.read((PARENT, data("Owned", 7, ME, OTHER, force=True)))
    agent.read((PARENT, data("Owned", 8, OTHER, ME, force=True)))
    agent.now_ms += 5_000
    assert Acquire(PARENT) not in agent.feed(Timer())


def test_releasing_with_a_destination_closes_first_and_then_assigns() -> None:
    agent = Driven()
    agent.serve()
    assert agent.read((PARENT, data("Releasing", 3, OTHER, ME))) == [Release(PARENT, OTHER)]
    assert agent.released() == [Publish(PARENT, data("Assigning", 4, OTHER, ME))]
    assert agent.state.phases == {}


def test_releasing_without_a_destination_ends_free() -> None:
    agent = Driven()
    agent.serve()
    agent.read((PARENT, data("Releasing", 3, None, ME)))
    assert agent.released() == [Publish(PARENT, data("Free", 4, None, ME))]


def test_a_failed_close_writes_nothing_and_is_tried_again() -> None:
    agent = Driven()
    agent.serve()
    agent.read((PARENT, data("Releasing", 3, OTHER, ME)))
    assert agent.released(error="stuck") == []
    assert agent.state.phases == {PARENT: Phase.SERVING}
    agent.now_ms += 1_000
    assert Release(PARENT, OTHER) in agent.feed(Timer())
    assert agent.state.counts.failures == 1


def test_a_failed_acquire_is_tried_again() -> None:
    agent = Driven()
    agent.read((PARENT, data("Owned", 1, ME)))
    agent.feed(Acquired(PARENT, "no memory"))
    assert agent.state.phases == {}
    agent.now_ms += 1_000
    assert Acquire(PARENT) in agent.feed(Timer())


TAKEN_AWAY = [
    data("Owned", 3, OTHER, ME, force=True),
    data("Free", 3, None, ME, force=True),
    data("Splitting", 3, ME, OTHER, children=CHILDREN, force=True),
    data("Assigning", 3, OTHER, force=True),
    data("Owned", 9, OTHER),  # skips versions, so nobody waited for this broker
    data("Deleted", 9, None, ME),
    None,
]


@pytest.mark.parametrize("record", TAKEN_AWAY, ids=str)
def test_what_is_taken_away_without_waiting_is_dropped_at_once(
    record: ServiceUnitStateData | None,
) -> None:
    agent = Driven()
    agent.serve()
    assert agent.read((PARENT, record)) == [Drop(PARENT)]
    assert agent.state.phases == {}
    agent.now_ms += 5_000
    assert [a for a in agent.feed(Timer()) if isinstance(a, Release | Acquire | Publish)] == []
    assert agent.state.counts.drops == 1


@pytest.mark.parametrize("record", TAKEN_AWAY, ids=str)
def test_a_close_that_still_runs_is_dropped_as_well(record: ServiceUnitStateData | None) -> None:
    agent = Driven()
    agent.serve()
    agent.read((PARENT, data("Releasing", 3, None, ME)))
    later = record and msgspec.structs.replace(record, versionId=record.versionId + 1)
    assert agent.read((PARENT, later)) == [Drop(PARENT)]
    assert agent.state.phases == {PARENT: Phase.UNSERVED}
    assert agent.read((PARENT, data("Owned", 20, ME, force=True))) == []
    agent.now_ms += 5_000
    assert Acquire(PARENT) not in agent.feed(Timer())
    assert agent.released(error="overtaken") == []
    agent.now_ms += 1_000
    assert Acquire(PARENT) in agent.feed(Timer())


def test_what_comes_back_in_the_same_poll_was_away_nevertheless() -> None:
    agent = Driven()
    agent.serve()
    away, back = data("Owned", 3, OTHER, ME, force=True), data("Owned", 4, ME, OTHER, force=True)
    assert agent.read((PARENT, away), (PARENT, back)) == [Drop(PARENT)]
    agent.now_ms += 499
    assert Acquire(PARENT) not in agent.feed(Timer())
    agent.now_ms += 1
    assert Acquire(PARENT) in agent.feed(Timer())


def test_a_forced_releasing_of_this_broker_is_a_graceful_one() -> None:
    agent = Driven()
    agent.serve()
    record = data("Releasing", 3, OTHER, ME, force=True)
    assert agent.read((PARENT, record)) == [Release(PARENT, OTHER)]


def test_clients_that_stayed_learn_the_new_owner() -> None:
    agent = Driven()
    agent.serve()
    agent.read((PARENT, data("Releasing", 3, OTHER, ME)))
    agent.released()
    assert agent.read((PARENT, data("Assigning", 4, OTHER, ME))) == []
    owned = (PARENT, data("Owned", 5, OTHER, ME))
    assert agent.read(owned) == [Redirect(PARENT, OTHER)]
    assert agent.read((PARENT, data("Owned", 6, "b3", OTHER, force=True))) == []


@pytest.mark.parametrize(
    "record",
    [data("Free", 5, None, ME, force=True), data("Owned", 5, ME, OTHER, force=True), None],
    ids=str,
)
def test_clients_that_stayed_look_up_when_the_transfer_ends_otherwise(
    record: ServiceUnitStateData | None,
) -> None:
    agent = Driven()
    agent.serve()
    agent.read((PARENT, data("Releasing", 3, OTHER, ME)))
    agent.released()
    assert agent.read((PARENT, record)) == [Redirect(PARENT, None)]
    assert agent.state.transfers == frozenset()


def test_after_an_unload_nobody_waits_for_a_new_owner() -> None:
    agent = Driven()
    agent.serve()
    assert agent.read((PARENT, data("Releasing", 3, None, ME))) == [Release(PARENT, None)]
    agent.released()
    assert agent.state.transfers == frozenset()


def test_a_forced_owned_that_names_the_present_owner_changes_nothing() -> None:
    agent = Driven()
    agent.serve()
    assert agent.read((PARENT, data("Owned", 3, ME, force=True))) == []
    assert agent.state.phases == {PARENT: Phase.SERVING}


def test_owned_again_while_still_closing_is_served_after_the_close_and_the_grace() -> None:
    agent = Driven()
    agent.serve()
    agent.read((PARENT, data("Owned", 3, OTHER, ME, force=True)))
    agent.read((PARENT, data("Owned", 4, ME, OTHER, force=True)))
    assert agent.released() == []
    agent.now_ms += 500
    assert Acquire(PARENT) in agent.feed(Timer())


def test_a_losing_record_changes_nothing_and_is_counted() -> None:
    agent = Driven()
    agent.serve()
    before = agent.state.table
    assert agent.read((PARENT, data("Owned", 2, OTHER)), (PARENT, data("Deleted", 3, ME))) == []
    assert agent.state.table == before
    assert agent.state.counts.losing == 2


def test_an_unreadable_record_changes_nothing_and_is_counted() -> None:
    agent = Driven()
    agent.serve()
    assert agent.read((PARENT, b"{"), (PARENT, b'{"state":"Init"}')) == []
    assert agent.state.counts.unreadable == 2


def test_splitting_writes_the_children_then_hands_over_then_ends_the_parent() -> None:
    agent = Driven()
    agent.serve()
    owned = data("Owned", 1, ME)
    splitting = data("Splitting", 3, None, ME, children=CHILDREN)
    assert agent.read((PARENT, splitting)) == [Publish(LOW, owned), Publish(HIGH, owned)]
    assert agent.read((LOW, owned)) == []
    assert agent.read((HIGH, owned)) == [Split(PARENT, (LOW, HIGH))]
    assert agent.feed(SplitDone(PARENT)) == [Publish(PARENT, data("Deleted", 4, None, ME))]
    assert agent.state.phases == {LOW: Phase.SERVING, HIGH: Phase.SERVING}
    assert agent.read((PARENT, data("Deleted", 4, None, ME))) == []
    assert agent.state.splits == {}
    assert agent.read((PARENT, None)) == []


def test_the_end_of_a_parent_is_not_tombstoned_by_its_broker() -> None:
    """A late duplicate of `Owned` would bring the parent back beside its children."""
    agent = Driven(started=False)
    assert agent.read((PARENT, data("Deleted", 9, None, ME))) == []
    assert agent.read((PARENT, data("Owned", 2, ME))) == []
    assert agent.state.counts.reasons == {"stale_version": 1}


def test_a_split_into_three_is_carried_out_as_the_record_says() -> None:
    agent = Driven()
    agent.serve()
    thirds = ("0x00000000_0x20000000", "0x20000000_0x60000000", "0x60000000_0x80000000")
    names = tuple(f"t/ns/{span}" for span in thirds)
    record = data("Splitting", 3, None, ME, children=dict.fromkeys(thirds))
    agent.read(*((name, data("Owned", 1, ME)) for name in names))
    agent.feed(Acquired(names[0]))
    assert Split(PARENT, names) in agent.read((PARENT, record))


@pytest.mark.parametrize(
    "spans",
    [
        (),
        ("0x00000000_0x80000000",),
        ("0x00000000_0x40000000",),
        ("0x00000000_0x40000000", "0x50000000_0x80000000"),
        ("0x00000000_0x60000000", "0x40000000_0x80000000"),
        ("0x00000000_0x40000000", "0x40000000_0x90000000"),
    ],
)
def test_children_that_do_not_tile_the_parent_are_left_to_the_controller(
    spans: tuple[str, ...],
) -> None:
    agent = Driven()
    agent.serve()
    record = data("Splitting", 3, None, ME, children=dict.fromkeys(spans))
    assert agent.read((PARENT, record)) == []
    assert agent.state.phases == {PARENT: Phase.SERVING}
    assert agent.state.counts.reasons == {"bad_children": 1}


def _splitting_agent() -> Driven:
    agent = Driven()
    agent.serve()
    owned = data("Owned", 1, ME)
    splitting = data("Splitting", 3, None, ME, children=CHILDREN)
    agent.read((PARENT, splitting), (LOW, owned), (HIGH, owned))
    assert agent.state.phases == {PARENT: Phase.SPLITTING}
    return agent


def test_a_split_is_given_up_after_seven_conflicts_until_a_new_record() -> None:
    agent = _splitting_agent()
    for _ in range(6):
        assert agent.feed(SplitDone(PARENT, "changed", is_conflict=True)) == []
        agent.now_ms += 99
        assert Split(PARENT, (LOW, HIGH)) not in agent.feed(Timer())
        agent.now_ms += 1
        assert Split(PARENT, (LOW, HIGH)) in agent.feed(Timer())
    agent.feed(SplitDone(PARENT, "changed", is_conflict=True))
    agent.now_ms += 5_000
    assert Split(PARENT, (LOW, HIGH)) not in agent.feed(Timer())
    assert agent.state.phases == {PARENT: Phase.SERVING}
    assert agent.state.counts.reasons == {"split_given_up": 1}
    again = data("Splitting", 4, None, ME, children=CHILDREN, force=True)
    assert agent.read((PARENT, again)) == [Split(PARENT, (LOW, HIGH))]


def test_a_split_of_a_bundle_that_is_taken_away_ends_with_all_its_parts() -> None:
    agent = _splitting_agent()
    taken = data("Splitting", 4, None, OTHER, children=CHILDREN, force=True)
    assert agent.read((PARENT, taken)) == [Drop(PARENT), Drop(LOW), Drop(HIGH)]
    assert agent.feed(SplitDone(PARENT)) == [Acquire(LOW), Acquire(HIGH)]


def test_who_takes_a_child_takes_it_from_the_parent_that_is_still_served() -> None:
    agent = Driven()
    agent.serve()
    agent.read((PARENT, data("Splitting", 3, None, ME, children=CHILDREN)))
    agent.read((LOW, data("Owned", 1, ME)))
    actions = agent.read((LOW, data("Owned", 2, OTHER, ME, force=True)))
    assert actions == [Drop(PARENT)]
    assert agent.read((HIGH, data("Owned", 1, ME))) == [Split(PARENT, (LOW, HIGH))]
    deleted = Publish(PARENT, data("Deleted", 4, None, ME))
    assert agent.feed(SplitDone(PARENT)) == [deleted, Acquire(HIGH)]


def test_only_children_without_a_record_are_written() -> None:
    agent = Driven()
    agent.serve()
    agent.read((LOW, data("Owned", 1, ME)))
    splitting = data("Splitting", 3, None, ME, children=CHILDREN)
    assert agent.read((PARENT, splitting)) == [Publish(HIGH, data("Owned", 1, ME))]


def test_a_child_is_not_given_away_while_it_is_served_as_part_of_its_parent() -> None:
    agent = Driven()
    agent.serve()
    splitting = data("Splitting", 3, None, ME, children=CHILDREN)
    away = data("Releasing", 2, OTHER, ME)
    agent.read((PARENT, splitting))
    assert agent.read((LOW, data("Owned", 1, ME)), (LOW, away)) == []
    assert agent.read((HIGH, data("Owned", 1, ME))) == [Split(PARENT, (LOW, HIGH))]
    actions = agent.feed(SplitDone(PARENT))
    assert (
        Release(LOW, OTHER) in actions
        and Publish(LOW, data("Assigning", 3, OTHER, ME)) not in actions
    )


def test_a_split_forced_upon_a_broker_that_has_long_done_it_writes_no_child_twice() -> None:
    agent = Driven()
    grandchildren = ("t/ns/0x00000000_0x20000000", "t/ns/0x20000000_0x40000000")
    agent.read(*((name, data("Owned", 1, ME)) for name in (*grandchildren, HIGH)))
    agent.read((PARENT, data("Splitting", 4, None, ME, children=CHILDREN, force=True)))
    agent.now_ms += 500
    assert Split(PARENT, (LOW, HIGH)) in agent.feed(Timer())
    assert agent.feed(SplitDone(PARENT)) == [Publish(PARENT, data("Deleted", 5, None, ME))]


def test_a_failed_split_keeps_serving_the_parent_and_is_tried_again() -> None:
    agent = Driven()
    agent.serve()
    owned = data("Owned", 1, ME)
    splitting = data("Splitting", 3, None, ME, children=CHILDREN)
    agent.read((PARENT, splitting), (LOW, owned), (HIGH, owned))
    assert agent.feed(SplitDone(PARENT, "metadata")) == []
    assert agent.state.phases == {PARENT: Phase.SERVING}
    agent.now_ms += 1_000
    assert Split(PARENT, (LOW, HIGH)) in agent.feed(Timer())


def test_a_split_taken_over_waits_the_grace_before_it_begins() -> None:
    agent = Driven()
    owned = data("Owned", 1, ME)
    agent.read((PARENT, data("Owned", 1, OTHER)))
    assert (
        agent.read((PARENT, data("Splitting", 2, OTHER, ME, children=CHILDREN, force=True))) == []
    )
    agent.now_ms += 500
    actions = agent.feed(Timer())
    assert Publish(LOW, owned) in actions and Publish(HIGH, owned) in actions
    assert agent.read((LOW, owned), (HIGH, owned)) == [Acquire(LOW), Split(PARENT, (LOW, HIGH))]
    agent.feed(Acquired(LOW))
    assert agent.feed(SplitDone(PARENT)) == [
        Publish(PARENT, data("Deleted", 3, OTHER, ME)),
        Acquire(HIGH),
    ]


def test_the_grace_outlives_the_record_that_started_it() -> None:
    agent = Driven()
    agent.read((PARENT, data("Owned", 7, ME, OTHER, force=True)))
    assert agent.read((PARENT, data("Releasing", 8, OTHER, ME))) == []
    agent.now_ms += 500
    assert Publish(PARENT, data("Assigning", 9, OTHER, ME)) in agent.feed(Timer())


def test_an_assignment_right_after_a_forced_free_or_a_tombstone_waits_the_grace() -> None:
    for record, version in ((data("Free", 8, None, OTHER, force=True), 9), (None, 1)):
        agent = Driven()
        agent.read((PARENT, data("Owned", 7, OTHER)))
        agent.read((PARENT, record))
        assert agent.read((PARENT, data("Assigning", version, ME))) == []
        agent.now_ms += 500
        assert Publish(PARENT, data("Owned", version + 1, ME)) in agent.feed(Timer())


def test_a_restarted_agent_acts_on_all_that_the_channel_says_about_it() -> None:
    agent = Driven(started=False)
    actions = agent.read(
        ("t/ns/0x00000000_0x10000000", data("Assigning", 4, ME)),
        ("t/ns/0x10000000_0x20000000", data("Releasing", 6, OTHER, ME)),
        ("t/ns/0x20000000_0x30000000", data("Owned", 2, ME)),
        ("t/ns/0x30000000_0x40000000", data("Deleted", 9, None, ME)),
        ("t/ns/0x40000000_0x50000000", data("Owned", 2, OTHER)),
    )
    assert actions == [
        Publish("t/ns/0x00000000_0x10000000", data("Owned", 5, ME)),
        Publish("t/ns/0x10000000_0x20000000", data("Assigning", 7, OTHER, ME)),
        Acquire("t/ns/0x20000000_0x30000000"),
    ]


def test_nothing_is_done_or_said_before_the_end_of_the_channel_is_reached() -> None:
    agent = Driven(started=False)
    assert agent.read((PARENT, data("Owned", 1, ME)), at_end=False) == []
    assert agent.feed(Timer()) == []
    assert agent.read((PARENT, data("Releasing", 2, OTHER, ME))) == [
        Publish(PARENT, data("Assigning", 3, OTHER, ME))
    ]


def test_the_state_that_goes_in_is_not_changed() -> None:
    agent = Driven()
    agent.serve()
    before = agent.state
    copies = {name: dict(getattr(before, name)) for name in ("table", "phases", "published")}
    agent.read((PARENT, data("Releasing", 3, OTHER, ME)))
    assert {name: dict(getattr(before, name)) for name in copies} == copies
