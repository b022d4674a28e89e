"""Every rule of the agent's protocol (pulsar.md 6.5, 6.6; design 3.4), one test each."""

from __future__ import annotations

from controller.agent.events import (
    Acquire,
    Acquired,
    Fence,
    LeaseLost,
    Publish,
    Release,
    SendHeartbeat,
    SendReport,
    Split,
    SplitDone,
    Timer,
    Unfence,
)
from controller.agent.state import Phase
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
    agent.read((PARENT, data("Assigning", 1, ME)))
    agent.now_ms += 5_000
    assert agent.read() == []
    assert agent.read((PARENT, data("Assigning", 1, ME))) == []


def test_a_takeover_is_served_only_after_the_grace() -> None:
    agent = Driven()
    assert agent.read((PARENT, data("Owned", 7, ME, OTHER, force=True))) == []
    agent.now_ms += 499
    assert agent.feed(Timer()) == []
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
    assert agent.read((PARENT, data("Releasing", 3, OTHER, ME))) == [Release(PARENT)]
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
    assert Release(PARENT) in agent.feed(Timer())
    assert agent.state.counts.failures == 1


def test_a_failed_acquire_is_tried_again() -> None:
    agent = Driven()
    agent.read((PARENT, data("Owned", 1, ME)))
    agent.feed(Acquired(PARENT, "no memory"))
    assert agent.state.phases == {}
    agent.now_ms += 1_000
    assert Acquire(PARENT) in agent.feed(Timer())


def test_another_owner_ends_serving_and_nothing_is_published() -> None:
    agent = Driven()
    agent.serve()
    assert agent.read((PARENT, data("Owned", 3, OTHER, ME, force=True))) == [Release(PARENT)]
    assert agent.released() == []


def test_a_tombstone_or_a_forced_free_ends_serving() -> None:
    for record in (None, data("Free", 3, None, ME, force=True)):
        agent = Driven()
        agent.serve()
        assert agent.read((PARENT, record)) == [Release(PARENT)]


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
    assert agent.read((PARENT, data("Deleted", 4, None, ME))) == [Publish(PARENT, None)]
    assert agent.read((PARENT, None)) == []
    assert agent.state.splits == {}


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
    assert Release(LOW) in actions and Publish(LOW, data("Assigning", 3, OTHER, ME)) not in actions


def test_a_split_forced_upon_a_broker_that_has_long_done_it_writes_no_child_twice() -> None:
    agent = Driven()
    grandchildren = ("t/ns/0x00000000_0x20000000", "t/ns/0x20000000_0x40000000")
    agent.read(*((name, data("Owned", 1, ME)) for name in (*grandchildren, HIGH)))
    agent.read((PARENT, data("Splitting", 4, None, ME, children=CHILDREN, force=True)))
    agent.now_ms += 500
    assert Publish(PARENT, data("Deleted", 5, None, ME)) in agent.feed(Timer())


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
    assert agent.read((LOW, owned), (HIGH, owned)) == [
        Acquire(LOW),
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
    agent = Driven()
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
        Publish("t/ns/0x30000000_0x40000000", None),
    ]


def test_nothing_is_done_or_said_before_the_end_of_the_channel_is_reached() -> None:
    agent = Driven()
    assert agent.read((PARENT, data("Owned", 1, ME)), at_end=False) == []
    assert agent.feed(Timer()) == []
    assert agent.read((PARENT, data("Releasing", 2, OTHER, ME))) == [
        Publish(PARENT, data("Assigning", 3, OTHER, ME))
    ]


def test_the_lease_runs_from_the_start_of_the_last_poll() -> None:
    agent = Driven()
    agent.serve()
    agent.now_ms += 10_000
    assert Fence() not in agent.feed(Timer())
    agent.now_ms += 1
    assert agent.feed(Timer()) == [Fence()]
    assert agent.state.phases == {}
    assert agent.feed(Timer()) == []


def test_an_empty_poll_renews_the_lease() -> None:
    agent = Driven()
    agent.serve()
    for _ in range(5):
        agent.now_ms += 9_000
        assert Fence() not in agent.feed(Timer())
        agent.read()


def test_a_poll_that_took_longer_than_the_lease_does_not_renew_it() -> None:
    agent = Driven()
    agent.serve()
    started_ms = agent.now_ms
    agent.now_ms += 12_000
    assert agent.feed(Timer()) == [Fence()]
    assert agent.read(started_ms=started_ms) == []
    assert agent.state.is_fenced


def test_after_the_fence_it_serves_again_what_the_channel_still_gives_it() -> None:
    agent = Driven()
    agent.serve(LOW)
    agent.serve(HIGH)
    agent.now_ms += 20_000
    agent.feed(Timer())
    lost = (HIGH, data("Owned", 3, OTHER, ME, force=True))
    assert agent.read(lost, at_end=False) == []
    assert agent.read() == [Unfence(), Acquire(LOW)]


def test_a_fence_by_the_watchdog_is_a_fence() -> None:
    agent = Driven()
    agent.serve()
    assert agent.feed(LeaseLost()) == [Fence()]
    assert agent.state.phases == {}
    assert agent.read() == [Unfence(), Acquire(PARENT)]


def test_an_operation_that_runs_during_the_fence_is_waited_for() -> None:
    agent = Driven()
    agent.serve()
    agent.read((PARENT, data("Releasing", 3, OTHER, ME)))
    agent.feed(LeaseLost())
    assert agent.read() == [Unfence()]
    assert agent.released() == [Publish(PARENT, data("Assigning", 4, OTHER, ME))]


def test_an_acquire_overtaken_by_a_fence_does_not_count_as_serving() -> None:
    agent = Driven()
    agent.read((PARENT, data("Owned", 1, ME)))
    agent.feed(LeaseLost())
    agent.feed(Acquired(PARENT))
    assert agent.state.phases == {}


def test_a_fenced_agent_gives_no_sign_of_life() -> None:
    agent = Driven()
    agent.read()
    agent.now_ms += 20_000
    assert agent.feed(Timer()) == [Fence()]
    agent.now_ms += 20_000
    assert agent.feed(Timer()) == []


def test_reports_and_heartbeats_come_at_their_intervals_with_growing_sequence() -> None:
    agent = Driven()
    agent.read()
    said = []
    for _ in range(8):
        agent.now_ms += 500
        said += [a for a in agent.feed(Timer()) if isinstance(a, SendReport | SendHeartbeat)]
    assert said == [SendHeartbeat(2), SendReport(3), SendHeartbeat(4), SendReport(5)]


def test_the_state_that_goes_in_is_not_changed() -> None:
    agent = Driven()
    agent.serve()
    before = agent.state
    copies = {name: dict(getattr(before, name)) for name in ("table", "phases", "published")}
    agent.read((PARENT, data("Releasing", 3, OTHER, ME)))
    assert {name: dict(getattr(before, name)) for name in copies} == copies
