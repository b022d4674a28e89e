"""The agent's loop with clocks of the test's own, on a real log that can be made to fail."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.agent.watchdog import LeaseWatchdog
from controller.transport.port import OutRecord
from controller.wire.channel import ServiceUnitState, decode_channel
from tests.agent.bench import AGENT, Bench
from tests.agent.builders import LOW, PARENT


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path / "log.db")
    yield bench
    bench.broker.may_close.set()
    bench.log.close()


def test_an_assignment_becomes_service(bench: Bench) -> None:
    bench.write(LOW, "Assigning", 1, "b1")
    bench.turns(3)
    assert bench.last() == (ServiceUnitState.Owned, 2)
    assert bench.broker.calls == [f"acquire {LOW}"]


def test_records_carry_the_wall_time_of_the_agent(bench: Bench) -> None:
    bench.write(LOW, "Assigning", 1, "b1")
    bench.turns(2)
    unit = decode_channel(bench.log.read("channel", 0, 1, 10)[0].value)
    assert unit is not None and unit.timestamp > 7_000_000


def test_a_slow_close_does_not_stop_the_loop(bench: Bench) -> None:
    bench.write(LOW, "Owned", 1, "b1")
    bench.turns(3)
    bench.broker.may_close.clear()
    bench.write(LOW, "Releasing", 2, "b2", "b1")
    polls = bench.runtime.counts.polls
    bench.turns(20)
    assert bench.runtime.counts.polls >= polls + 20
    assert bench.last() == (ServiceUnitState.Releasing, 2)
    bench.broker.may_close.set()
    assert bench.runtime._threads is not None
    bench.runtime._threads.shutdown(wait=True)
    bench.turns(2)
    assert bench.last() == (ServiceUnitState.Assigning, 3)


def test_read_errors_are_counted_and_tried_again_with_a_bounded_pause(bench: Bench) -> None:
    bench.turns(2)
    bench.log.fails_reading = True
    bench.turns(200)
    errors = bench.runtime.counts.transport_errors
    assert 5 <= errors <= 9  # 2,000 ms: pauses of 100, 200, 400, 400, ...
    bench.log.fails_reading = False
    bench.turns(45)
    assert bench.runtime.counts.transport_errors == errors
    assert "fence" not in bench.broker.calls


def test_a_channel_that_cannot_be_read_for_longer_than_the_lease_fences(bench: Bench) -> None:
    bench.write(LOW, "Owned", 1, "b1")
    bench.turns(3)
    bench.log.fails_reading = True
    bench.turns(600)
    assert bench.broker.calls == [f"acquire {LOW}", "fence"]
    silent = len(bench.reports())
    bench.turns(100)
    assert len(bench.reports()) == silent
    bench.log.fails_reading = False
    bench.turns(100)
    assert bench.broker.calls == [f"acquire {LOW}", "fence", "unfence", f"acquire {LOW}"]
    assert len(bench.reports()) > silent


def test_channel_records_wait_for_the_transport_and_old_reports_do_not(bench: Bench) -> None:
    bench.turns(2)
    before = len(bench.reports())
    bench.write(LOW, "Assigning", 1, "b1")
    bench.log.fails_writing = True
    bench.turns(100)
    bench.log.fails_writing = False
    bench.turns(45)
    assert bench.last() == (ServiceUnitState.Owned, 2)
    assert len(bench.log.read("channel", 0, 0, 100)) == 2
    assert len(bench.reports()) - before < 10
    assert 3 <= bench.runtime.counts.transport_errors <= 5  # 100, 200, 400, 400 ms
    assert "fence" not in bench.broker.calls


def test_a_long_channel_is_read_to_its_end_without_pauses(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "long.db")
    bench.log.append([OutRecord("channel", LOW, b"{")] * 2_500)
    bench.turns(2, step_ms=1)
    assert not bench.runtime.state.is_caught_up
    bench.turns(1, step_ms=1)
    assert bench.runtime.state.is_caught_up
    assert bench.runtime.state.counts.unreadable == 2_500
    bench.log.close()


def test_a_broker_without_figures_still_shows_that_it_lives(bench: Bench) -> None:
    bench.broker.load_fails = True
    bench.turns(50)
    assert set(bench.reports()) == {"heartbeat"}
    assert bench.runtime.counts.report_errors == 1


def test_stop_ends_serving_before_the_loop_returns(bench: Bench) -> None:
    stop = threading.Event()
    stop.set()
    bench.runtime.run(stop)
    assert bench.broker.calls[-1] == "close"


def test_the_watchdog_fences_once_when_the_deadline_passes() -> None:
    now, fenced = [0], []
    watchdog = LeaseWatchdog(lambda: fenced.append(now[0]), lambda: now[0])
    watchdog.watch(100)
    now[0] = 100
    assert not watchdog.check()
    now[0] = 101
    assert watchdog.check() and not watchdog.check()
    assert fenced == [101]
    assert watchdog.take_fired() and not watchdog.take_fired()
    watchdog.watch(None)
    now[0] = 1_000
    assert not watchdog.check()


def test_the_core_hears_of_a_fence_by_the_watchdog(bench: Bench) -> None:
    bench.write(LOW, "Owned", 1, "b1")
    bench.turns(3)
    bench.runtime._watchdog.watch(bench.now_ms - 1)
    assert bench.runtime.check_lease()
    bench.turns(2)
    assert bench.broker.calls[1:] == ["fence", "fence", "unfence", f"acquire {LOW}"]


def test_a_read_that_fails_half_way_loses_no_record(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "log.db", channel_partitions=2)
    bench.turns(2)
    for state, version in (("Assigning", 1), ("Owned", 2)):
        bench.write(LOW, state, version, "b1")
        bench.write(PARENT, state, version, "b1")
    bench.log.fails_reading_partition = 1
    bench.turns(3)
    bench.log.fails_reading_partition = None
    bench.turns(50)
    assert set(bench.runtime.state.table) == {LOW, PARENT}
    bench.log.close()


def test_the_lease_holds_while_the_broker_closes(bench: Bench) -> None:
    def outlast_the_lease() -> None:
        bench.now_ms += AGENT.lease_ms + 1
        bench.broker.fenced.wait(timeout=5)

    bench.broker.while_closing = outlast_the_lease
    bench.turns(3)
    stop = threading.Event()
    stop.set()
    bench.runtime.run(stop)
    assert bench.broker.calls == ["fence", "close"]


def test_no_report_from_before_the_fence_is_sent_after_it(bench: Bench) -> None:
    bench.turns(3)
    bench.log.fails_reading = bench.log.fails_writing = True
    while not bench.runtime.state.is_fenced:
        bench.turns(1)
    bench.log.fails_writing = False
    before = len(bench.reports())
    bench.turns(100)
    assert len(bench.reports()) == before
