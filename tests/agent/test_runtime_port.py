"""How the loop treats a broker that fails, how it leaves, and what it tells other threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from controller.agent.lookups import NoOwnerError
from controller.agent.runtime import LAST_WORD_TRIES, AgentRuntime, RuntimeSettings
from controller.agent.state import AgentSettings
from controller.agent.watchdog import LeaseWatchdog
from controller.channel.lookup import Deferred, Empty, Failed, Owner
from controller.model.bundles import BundleNameError
from controller.transport.embedded import EmbeddedLog
from controller.transport.port import OutRecord
from controller.wire.channel import encode_channel
from controller.wire.commands import Assign, decode_command
from tests.agent.bench import AGENT, SETTINGS, Bench, ListBroker
from tests.agent.builders import CHILDREN, HIGH, LOW, PARENT, data


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path / "log.db")
    yield bench
    bench.broker.may_close.set()
    bench.log.close()


def _serving(bench: Bench, bundle: str = LOW) -> None:
    bench.write(bundle, "Owned", 1, "b1")
    bench.turns(3)
    assert bench.broker.calls == [f"acquire {bundle}"]
    bench.broker.calls.clear()


def _take_away(bench: Bench, bundle: str = LOW) -> None:
    value = encode_channel(data("Owned", 2, "b2", "b1", force=True))
    bench.log.append([OutRecord("channel", bundle, value)])


# ------------------------------------------------------------------- a broker that fails


def test_what_is_taken_away_is_dropped_within_one_turn(bench: Bench) -> None:
    _serving(bench)
    _take_away(bench)
    bench.turns(1)
    assert bench.broker.calls == [f"drop {LOW}"]


def test_a_bundle_that_cannot_be_dropped_is_dropped_with_all_others(bench: Bench) -> None:
    _serving(bench)
    bench.broker.failing["drop"] = 1
    _take_away(bench)
    bench.turns(1)
    assert bench.broker.calls == [f"drop {LOW}", "fence"]
    bench.turns(3)
    assert bench.broker.calls == [f"drop {LOW}", "fence", "fence", "unfence"]


def test_nothing_else_is_done_until_a_fence_has_succeeded(bench: Bench) -> None:
    _serving(bench)
    bench.broker.failing = {"drop": 1, "fence": 4}
    _take_away(bench)
    bench.turns(1)
    polls, before = bench.runtime.counts.polls, len(bench.reports())
    assert not bench.runtime.may_serve
    bench.turns(3)
    assert bench.broker.calls == [f"drop {LOW}"] + ["fence"] * 4
    assert (bench.runtime.counts.polls, len(bench.reports())) == (polls, before)
    bench.turns(300)
    assert bench.broker.calls[5:] == ["fence", "fence", "unfence"]
    assert bench.runtime.may_serve


def test_a_broker_that_cannot_be_unfenced_is_asked_again_after_a_fence(bench: Bench) -> None:
    _serving(bench)
    bench.broker.failing["unfence"] = 1
    bench.runtime._watchdog.watch(bench.now_ms - 1)
    bench.runtime.check_lease()
    bench.turns(5)
    assert bench.broker.calls == [
        *("fence", "fence", "unfence"),
        f"acquire {LOW}",
        *("fence", "unfence"),
        f"acquire {LOW}",
    ]


def test_a_redirect_that_fails_is_not_repeated(bench: Bench) -> None:
    _serving(bench)
    bench.broker.failing["redirect"] = 1
    bench.write(LOW, "Releasing", 2, "b2", "b1")
    deadline_s = time.monotonic() + 10
    while bench.last() != ("Assigning", 3):
        bench.turns(1)
        time.sleep(0.005)  # the pool's thread closes
        assert time.monotonic() < deadline_s
    bench.write(LOW, "Owned", 4, "b2", "b1")
    bench.turns(5)
    assert bench.broker.calls == [f"release {LOW}", f"redirect {LOW} b2"]


def test_a_split_that_lost_the_race_is_tried_again_soon(bench: Bench) -> None:
    _serving(bench, PARENT)
    bench.broker.failing["split"] = 1
    record = data("Splitting", 2, None, "b1", children=CHILDREN)
    bench.log.append([OutRecord("channel", PARENT, encode_channel(record))])
    bench.turns(9)
    assert bench.broker.calls == [f"split {PARENT}"]
    bench.turns(11)
    assert bench.broker.calls == [f"split {PARENT}"] * 2
    assert bench.last() == ("Deleted", 3)
    assert set(bench.runtime.state.phases) == {LOW, HIGH}


def test_the_watchdog_tries_a_failed_fence_again() -> None:
    tries = []

    def fence() -> None:
        tries.append(len(tries))
        if len(tries) < 3:
            raise RuntimeError("stuck")

    watchdog = LeaseWatchdog(fence, lambda: 101)
    watchdog.watch(100)
    assert [watchdog.check() for _ in range(4)] == [False, False, True, False]
    assert watchdog.take_fired()


def test_an_unfence_that_comes_after_the_watchdogs_fence_is_left_out() -> None:
    done: list[str] = []
    watchdog = LeaseWatchdog(lambda: done.append("fence"), lambda: 101)
    watchdog.watch(100)
    watchdog.check()
    watchdog.guarded(lambda: done.append("unfence"))
    watchdog.take_fired()
    watchdog.guarded(lambda: done.append("unfence"))
    assert done == ["fence", "unfence"]


def test_the_watchdogs_thread_is_exact_to_a_few_milliseconds() -> None:
    """A grain of a fiftieth of the lease would be most of the time that an unheard agent has."""

    def clock() -> int:
        return time.monotonic_ns() // 1_000_000

    late: list[int] = []
    fenced = threading.Event()
    for _ in range(5):
        deadline = clock() + 120
        fenced.clear()

        def fence(deadline: int = deadline) -> None:
            late.append(clock() - deadline)
            fenced.set()

        watchdog = LeaseWatchdog(fence, clock)
        watchdog.start()
        watchdog.watch(deadline)
        assert fenced.wait(5)
        watchdog.stop()
    assert min(late) <= 20 and min(late) >= 1, late


def test_an_earlier_deadline_wakes_the_watchdog() -> None:
    fenced = threading.Event()
    watchdog = LeaseWatchdog(fenced.set, lambda: time.monotonic_ns() // 1_000_000)
    watchdog.start()
    watchdog.watch(time.monotonic_ns() // 1_000_000 + 60_000)
    watchdog.watch(time.monotonic_ns() // 1_000_000 - 1)
    assert fenced.wait(5)
    watchdog.stop()


# --------------------------------------------------------------------- the heard leg


def test_an_agent_that_cannot_write_serves_on_while_it_reads(bench: Bench) -> None:
    _serving(bench)
    bench.log.fails_writing = True
    bench.turns(1_500)
    assert bench.broker.calls == [] and bench.runtime.may_serve
    deadline_ms = bench.runtime.deadline_ms
    assert deadline_ms is not None
    assert deadline_ms - bench.now_ms <= AGENT.unheard_poll_ms
    bench.now_ms += AGENT.unheard_poll_ms + 1
    assert not bench.runtime.may_serve
    assert bench.runtime.check_lease()
    assert bench.broker.calls == ["fence"]


def test_an_agent_that_is_heard_again_gets_its_lease_back(bench: Bench) -> None:
    _serving(bench)
    bench.log.fails_writing = True
    bench.turns(800)
    bench.log.fails_writing = False
    bench.turns(100)
    deadline_ms = bench.runtime.deadline_ms
    assert deadline_ms is not None and deadline_ms > bench.now_ms + 4_000
    assert [sign.transport for sign in bench.signs()][-1] == "jittery"
    assert bench.broker.calls == []


# ------------------------------------------------------------------------- leaving


def _run(bench: Bench, stop: threading.Event, hurry: threading.Event) -> threading.Thread:
    thread = threading.Thread(target=bench.runtime.run, args=(stop, hurry))
    thread.start()
    return thread


def test_an_agent_that_serves_nothing_is_gone_at_once(bench: Bench) -> None:
    bench.turns(3)
    stop = threading.Event()
    stop.set()
    bench.runtime.run(stop)
    assert [sign.status for sign in bench.signs()][-2:] == ["leaving", "gone"]
    assert bench.broker.calls == ["close"]


def test_a_leaving_agent_waits_until_its_bundles_are_taken(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "log.db", ticks=True)
    _serving(bench)
    stop, hurry = threading.Event(), threading.Event()
    stop.set()
    thread = _run(bench, stop, hurry)
    _until(lambda: bench.signs()[-1].status == "leaving")
    assert bench.broker.calls == []
    bench.write(LOW, "Releasing", 2, "b2", "b1")
    thread.join(timeout=10)
    assert not thread.is_alive()
    assert bench.last() == ("Assigning", 3)
    assert bench.broker.calls == [f"release {LOW}", "close"]
    assert bench.signs()[-1].status == "gone"
    assert bench.signs()[-1].sequence == max(sign.sequence for sign in bench.signs())
    bench.log.close()


def test_a_leaving_agent_does_not_wait_for_ever_nor_in_a_hurry(tmp_path: Path) -> None:
    for wait_ms, has_hurry in ((300, False), (60_000, True), (0, False)):
        settings = replace(SETTINGS, shutdown_wait_ms=wait_ms)
        bench = Bench(tmp_path / f"{wait_ms}.db", ticks=True, settings=settings)
        _serving(bench)
        stop, hurry = threading.Event(), threading.Event()
        stop.set()
        if has_hurry:
            threading.Timer(0.2, hurry.set).start()
        started_s = time.monotonic()
        bench.runtime.run(stop, hurry)
        assert time.monotonic() - started_s < 5
        assert bench.broker.calls == ["close"]
        assert bench.signs()[-1].status == "gone"
        bench.log.close()


def test_a_broker_that_failed_to_close_is_not_said_to_be_gone(bench: Bench) -> None:
    _serving(bench)
    bench.broker.failing["close"] = 1
    with pytest.raises(Exception, match="close fails"):
        bench.runtime.close()
    assert bench.signs()[-1].status == "up"


def test_the_last_word_is_tried_again(bench: Bench) -> None:
    bench.turns(3)
    failed = []
    append = bench.log.append

    def fails_first(records: list[OutRecord]) -> list[tuple[int, int]]:
        failed.append(1)
        bench.log.fails_writing = len(failed) < LAST_WORD_TRIES
        return append(records)

    bench.log.append = fails_first  # type: ignore[method-assign, assignment]
    bench.runtime.close()
    assert bench.signs()[-1].status == "gone"


# ------------------------------------------------------------------- other threads ask


def _until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    end_s = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.005)


class Running:
    """A real runtime in a thread, on a real log."""

    def __init__(self, path: Path) -> None:
        self.log = EmbeddedLog(path)
        for topic in ("channel", "reports", "commands"):
            self.log.create_topic(topic, 1)
        self.broker = ListBroker()
        settings = RuntimeSettings("channel", "reports", "commands", poll_interval_ms=20)
        self.runtime = AgentRuntime(
            "c", "b1", self.broker, EmbeddedLog(path), AgentSettings(heard_settle_ms=100), settings
        )
        self.stop, self.hurry = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self.runtime.run, args=(self.stop, self.hurry))
        self.thread.start()

    def write(self, bundle: str, state: str, version: int, *brokers: str | None) -> None:
        value = encode_channel(data(state, version, *brokers))
        self.log.append([OutRecord("channel", bundle, value)])

    def end(self) -> None:
        self.hurry.set()
        self.stop.set()
        self.thread.join(timeout=40)
        assert not self.thread.is_alive()
        self.log.close()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    running = Running(tmp_path / "log.db")
    yield running
    running.end()


def test_the_owner_of_an_unowned_bundle_costs_one_command_and_one_record(running: Running) -> None:
    _until(lambda: running.runtime.state.is_caught_up)
    found: list[str] = []
    askers = [
        threading.Thread(target=lambda: found.append(running.runtime.owner_of(LOW, 10.0)))
        for _ in range(3)
    ]
    for asker in askers:
        asker.start()
    _until(lambda: len(running.log.read("commands", 0, 0, 10)) == 3)
    command = running.log.read("commands", 0, 0, 10)[0]
    assert command.key == "c/b1"
    assert decode_command(command.value) == Assign(bundle=LOW, requestedBy="b1")
    started_s = time.monotonic()
    running.write(LOW, "Assigning", 1, "b2")
    for asker in askers:
        asker.join(timeout=5)
    assert found == ["b2"] * 3
    assert time.monotonic() - started_s < 2
    assert len(running.log.read("commands", 0, 0, 10)) == 3


def test_a_bundle_that_becomes_ones_own_is_answered_when_it_is_owned(running: Running) -> None:
    _until(lambda: running.runtime.state.is_caught_up)
    running.write(LOW, "Assigning", 1, "b1")
    assert running.runtime.owner_of(LOW, 10.0) == "b1"
    assert running.runtime.lookup(LOW) == Owner("b1")
    assert running.runtime.may_serve


def test_who_asks_in_vain_is_told_why(running: Running) -> None:
    _until(lambda: running.runtime.state.is_caught_up)
    with pytest.raises(NoOwnerError, match="in time"):
        running.runtime.owner_of(LOW, 0.1)
    running.write(PARENT, "Deleted", 3, None, "b1")
    _until(lambda: PARENT in running.runtime.state.table)
    with pytest.raises(NoOwnerError, match="children"):
        running.runtime.owner_of(PARENT, 10.0)
    with pytest.raises(BundleNameError):
        running.runtime.owner_of("nonsense", 10.0)


def test_lookups_answer_from_what_was_read(bench: Bench) -> None:
    assert bench.runtime.lookup(LOW) == Deferred("nobody", None)  # nothing was read yet
    bench.turns(2)
    assert bench.runtime.lookup(LOW) == Empty()
    bench.write(LOW, "Owned", 1, "b2")
    bench.write(PARENT, "Deleted", 1, None, "b2")
    bench.turns(2)
    assert bench.runtime.lookup(LOW) == Owner("b2")
    assert bench.runtime.lookup(PARENT) == Failed("deleted")


def test_a_question_survives_a_log_that_cannot_be_written(bench: Bench) -> None:
    bench.turns(2)
    bench.log.fails_writing = True
    asker = threading.Thread(target=lambda: bench.runtime.owner_of(LOW, 10.0))
    asker.start()
    _until(lambda: not bench.runtime._lookups._unowned.empty())
    bench.turns(50)
    bench.log.fails_writing = False
    bench.turns(50)
    assert len(bench.log.read("commands", 0, 0, 10)) == 1
    bench.write(LOW, "Owned", 1, "b2")
    bench.turns(2)
    asker.join(timeout=5)
    assert not asker.is_alive()
