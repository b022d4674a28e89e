"""The lease with its two legs, fences, signs of life, and the end of an agent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.agent.events import (
    Acquire,
    Acquired,
    Closed,
    Fence,
    Heard,
    LeaseLost,
    Leave,
    Publish,
    Release,
    SendHeartbeat,
    SendReport,
    Timer,
    TransportFailed,
    Unfence,
)
from controller.agent.state import (
    AgentSettings,
    Phase,
    deadline_ms,
    deadline_of,
    may_serve,
    serving,
)
from tests.agent.builders import HIGH, LOW, ME, OTHER, PARENT, SETTINGS, Driven, data

TIMES = AgentSettings(lease_ms=10_000, unheard_poll_ms=250)
SLOW = replace(SETTINGS, heard_settle_ms=5_000)  # to trust in being heard


@pytest.mark.parametrize(
    ("read_ms", "heard_ms", "in_flight_ms", "expected"),
    [
        (None, None, [], None),
        (None, 5_000, [], None),
        (5_000, None, [], 5_250),
        (5_000, 5_000, [], 15_000),
        (5_000, 1_000, [], 11_000),
        (1_000, 5_000, [], 11_000),
        (20_000, 5_000, [], 20_250),
        (14_900, 5_000, [], 15_150),
        (5_000, 5_000, [4_000, 4_500], 14_000),
        (15_000, 15_000, [4_000], 15_250),
        (5_000, None, [4_000], 5_250),
    ],
)
def test_the_deadline_is_the_shorter_of_its_legs(
    read_ms: int | None, heard_ms: int | None, in_flight_ms: list[int], expected: int | None
) -> None:
    assert deadline_of(read_ms, heard_ms, in_flight_ms, TIMES) == expected


def test_an_agent_that_closes_for_long_serves_only_while_it_polls_quickly() -> None:
    """The controller repairs what is in flight for too long, also of a broker that it hears."""
    agent = Driven()
    agent.serve()
    agent.now_ms += 100
    agent.read((PARENT, data("Releasing", 3, OTHER, ME)))
    record_ms = agent.now_ms - 100
    for _ in range(20):
        agent.now_ms += 100
        agent.read()
    assert deadline_ms(agent.state, SETTINGS) == record_ms + SETTINGS.lease_ms
    for _ in range(100):
        agent.now_ms += 100
        assert Fence() not in agent.read()
    started_ms = agent.now_ms
    assert deadline_ms(agent.state, SETTINGS) == started_ms + SETTINGS.unheard_poll_ms
    agent.released()
    assert (deadline_ms(agent.state, SETTINGS) or 0) > started_ms + 5_000


def _unheard(ms: int = 0, settings: AgentSettings = SETTINGS) -> Driven:
    """An agent that serves PARENT, polls every 100 ms, and is not heard for `ms`."""
    agent = Driven(settings=settings)
    agent.serve()
    agent.is_heard = False
    for _ in range(ms // 100):
        agent.now_ms += 100
        assert Fence() not in agent.read()
    return agent


def test_the_lease_runs_from_the_start_of_the_last_poll() -> None:
    agent = Driven()
    agent.serve()
    agent.now_ms += 5_000
    agent.feed(Heard(agent.now_ms))
    agent.now_ms += 5_000
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


def test_a_poll_that_does_not_reach_the_end_does_not_renew_the_lease() -> None:
    agent = Driven()
    agent.serve()
    for _ in range(10):
        agent.now_ms += 1_000
        agent.feed(Heard(agent.now_ms))
        assert agent.read((HIGH, data("Free", 1)), at_end=False) == []
    agent.now_ms += 1
    assert agent.read(at_end=False) == [Fence()]


def test_a_poll_that_took_longer_than_the_lease_does_not_renew_it() -> None:
    agent = Driven()
    agent.serve()
    started_ms = agent.now_ms
    agent.now_ms += 12_000
    assert agent.read(started_ms=started_ms) == [Fence()]
    assert agent.state.is_fenced


def test_no_event_is_handled_past_the_deadline_without_a_fence() -> None:
    for event in (Timer(), Acquired(PARENT), Leave(), TransportFailed(), Heard(19_000)):
        agent = Driven()
        agent.serve()
        agent.now_ms += 20_000
        assert agent.feed(event)[0] == Fence()


def test_an_agent_that_is_not_heard_serves_on_while_it_polls_quickly() -> None:
    agent = _unheard(ms=30_000)
    assert agent.state.phases == {PARENT: Phase.SERVING}
    agent.now_ms += 250
    assert Fence() not in agent.feed(Timer())
    agent.now_ms += 1
    assert Fence() in agent.feed(Timer())


def test_an_agent_that_is_heard_may_poll_slowly() -> None:
    agent = Driven()
    agent.serve()
    agent.now_ms += 9_000
    assert may_serve(agent.state, agent.now_ms, SETTINGS)


def test_slow_polls_without_being_heard_fence_and_signs_of_life_go_on() -> None:
    """Otherwise the agent would wait for being heard, and the controller for a sign of life."""
    agent = _unheard(ms=12_000)
    said = []
    for _ in range(5):
        started_ms = agent.now_ms
        agent.now_ms += 1_000
        agent.feed(Timer())
        said += agent.read(started_ms=started_ms)
        assert agent.state.is_fenced and agent.state.is_caught_up
    before = agent.state.sequence
    agent.now_ms += 1_000
    agent.feed(Timer())
    assert agent.state.sequence > before
    assert Unfence() not in said


def test_a_fenced_agent_that_cannot_read_either_falls_silent() -> None:
    agent = _unheard(ms=12_000)
    started_ms = agent.now_ms
    agent.now_ms += 1_000
    agent.feed(Timer())
    agent.read(started_ms=started_ms)
    assert agent.state.is_fenced and agent.state.is_caught_up
    agent.now_ms = started_ms + SETTINGS.lease_ms
    assert [type(a) for a in agent.feed(Timer())] == [SendReport]
    agent.now_ms += 1
    agent.feed(Timer())
    agent.now_ms += 5_000
    assert agent.feed(Timer()) == []


def test_signs_of_life_after_a_silence_count_when_they_have_settled() -> None:
    """The bundles may have been given away before, by a record that is still on its way."""
    agent = _unheard(ms=12_000, settings=SLOW)
    agent.now_ms += 200
    agent.feed(Heard(agent.now_ms - 50))
    first_ms = agent.now_ms
    settled_ms = first_ms + SLOW.heard_settle_ms
    for _ in range(49):
        agent.now_ms += 100
        agent.read()
    agent.feed(Heard(agent.now_ms - 50))
    assert agent.now_ms == settled_ms - 100
    agent.read(started_ms=settled_ms - 1)
    assert deadline_ms(agent.state, SETTINGS) == settled_ms - 1 + 250
    agent.read(started_ms=settled_ms)
    assert deadline_ms(agent.state, SETTINGS) == settled_ms - 150 + 10_000


def test_a_gap_between_signs_of_life_begins_the_settling_anew() -> None:
    agent = _unheard(ms=12_000, settings=SLOW)
    agent.feed(Heard(agent.now_ms))
    for _ in range(101):
        agent.now_ms += 100
        agent.read()
    agent.feed(Heard(agent.now_ms))
    again_ms = agent.now_ms
    agent.read()
    assert deadline_ms(agent.state, SETTINGS) == again_ms + 250
    for _ in range(50):
        agent.now_ms += 100
        agent.read()
    assert deadline_ms(agent.state, SETTINGS) == again_ms + 10_000


def test_a_fence_of_an_unheard_agent_ends_with_a_quick_read() -> None:
    agent = _unheard(ms=12_000)
    started_ms = agent.now_ms
    agent.now_ms += 400
    agent.feed(Timer())
    assert agent.read(started_ms=started_ms) == []
    assert agent.state.is_fenced
    started_ms, agent.now_ms = agent.now_ms, agent.now_ms + 200
    assert agent.read(started_ms=started_ms) == [Unfence(), Acquire(PARENT)]


def test_while_heard_each_sign_of_life_prolongs_the_lease_at_once() -> None:
    agent = Driven()
    agent.is_heard = False
    agent.now_ms += 4_000
    agent.feed(Heard(agent.now_ms - 100))
    assert agent.state.heard_ms == agent.now_ms - 100
    agent.feed(Heard(agent.now_ms - 3_000))
    assert agent.state.heard_ms == agent.now_ms - 100


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
    assert serving(agent.state) == ()
    assert agent.read() == [Unfence()]
    assert agent.released() == [Publish(PARENT, data("Assigning", 4, OTHER, ME))]


def test_a_close_that_fails_after_a_fence_leaves_nothing_served() -> None:
    agent = Driven()
    agent.serve()
    agent.read((PARENT, data("Releasing", 3, OTHER, ME)))
    agent.feed(LeaseLost())
    agent.read()
    agent.released(error="fenced meanwhile")
    assert agent.state.phases == {}
    agent.now_ms += 1_000
    actions = agent.feed(Timer())
    assert Release(PARENT, OTHER) not in actions
    assert Publish(PARENT, data("Assigning", 4, OTHER, ME)) in actions


def test_an_acquire_overtaken_by_a_fence_does_not_count_as_serving() -> None:
    agent = Driven()
    agent.read((PARENT, data("Owned", 1, ME)))
    agent.feed(LeaseLost())
    agent.feed(Acquired(PARENT))
    assert agent.state.phases == {}


def test_an_agent_that_cannot_read_gives_no_sign_of_life() -> None:
    agent = Driven()
    agent.read()
    agent.now_ms += 20_000
    assert agent.feed(Timer()) == [Fence()]
    agent.now_ms += 20_000
    assert agent.feed(Timer()) == []
    assert agent.read(at_end=False) == []
    assert agent.state.sequence == 1


def _signs(agent: Driven, steps: int) -> list[SendReport | SendHeartbeat]:
    said = []
    for _ in range(steps):
        agent.now_ms += 500
        said += [a for a in agent.feed(Timer()) if isinstance(a, SendReport | SendHeartbeat)]
    return said


def test_reports_and_heartbeats_come_at_their_intervals_with_growing_sequence() -> None:
    agent = Driven()
    said = _signs(agent, 8)
    assert said == [SendHeartbeat(2), SendReport(3), SendHeartbeat(4), SendReport(5)]


def test_a_leaving_agent_says_so_at_once_and_goes_on() -> None:
    agent = Driven()
    agent.serve()
    assert agent.feed(Leave()) == [SendHeartbeat(2, "leaving")]
    assert [sign.status for sign in _signs(agent, 4)] == ["leaving"] * 2
    assert agent.feed(Leave()) == []
    assert agent.read((PARENT, data("Releasing", 3, OTHER, ME))) == [Release(PARENT, OTHER)]
    assert agent.released() == [Publish(PARENT, data("Assigning", 4, OTHER, ME))]


def test_the_last_word_of_an_agent_is_that_it_is_gone() -> None:
    agent = Driven()
    agent.serve()
    agent.feed(Leave())
    assert agent.feed(Closed()) == [SendHeartbeat(3, "gone")]
    assert agent.state.phases == {}
    for event in (Timer(), Leave(), Closed(), LeaseLost(), Acquired(PARENT)):
        agent.now_ms += 60_000
        assert agent.feed(event) == []


def test_also_a_fenced_agent_can_say_that_it_is_gone() -> None:
    agent = Driven()
    agent.feed(LeaseLost())
    assert agent.feed(Closed()) == [SendHeartbeat(2, "gone", "jittery")]


@pytest.mark.parametrize("trouble", [TransportFailed(), LeaseLost()])
def test_trouble_with_the_transport_is_told_for_the_length_of_a_lease(
    trouble: TransportFailed | LeaseLost,
) -> None:
    agent = Driven()
    agent.feed(trouble)
    agent.read()
    said = []
    for _ in range(24):
        agent.read()
        said += _signs(agent, 1)
    assert [sign.transport for sign in said] == ["jittery"] * 9 + ["stable"] * 3
