"""The agent's loop with clocks of the test's own, on a real log that can be made to fail."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from controller.agent.port import BoundariesChangedError, BrokerError, BrokerLoad
from controller.agent.runtime import AgentRuntime, RuntimeSettings
from controller.agent.state import AgentSettings
from controller.agent.watchdog import LeaseWatchdog
from controller.transport.embedded import EmbeddedLog
from controller.transport.errors import BusyError
from controller.transport.port import LogRecord, OutRecord
from controller.wire.channel import ServiceUnitState, decode_channel, encode_channel
from controller.wire.limits import WireLimits
from controller.wire.reports import BundleStats, Report, ResourceUsage, decode_report
from tests.agent.builders import LOW, PARENT, data

AGENT = AgentSettings(
    heartbeat_interval_ms=100, report_interval_ms=1_000, lease_ms=5_000, takeover_grace_ms=200
)
SETTINGS = RuntimeSettings(
    channel_topic="channel",
    reports_topic="reports",
    commands_topic="commands",
    poll_interval_ms=10,
    backoff_min_ms=100,
    backoff_max_ms=400,
    topic_hashes_above=5,
)
NONE = ResourceUsage(0.0, 100.0)


class ShakyLog(EmbeddedLog):
    """A real log whose reads or writes fail while it is told so."""

    fails_reading = False
    fails_writing = False
    fails_reading_partition: int | None = None

    def read(self, topic: str, partition: int, offset: int, limit: int) -> list[LogRecord]:
        is_failing = self.fails_reading or partition == self.fails_reading_partition
        if is_failing and topic == "channel":
            raise BusyError("locked")
        return super().read(topic, partition, offset, limit)

    def append(self, records: Sequence[OutRecord]) -> list[tuple[int, int]]:
        if self.fails_writing:
            raise BusyError("locked")
        return super().append(records)


class ListBroker:
    """A broker that notes what it is told, in the order in which it happens."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.load_fails = False
        self.failing: dict[str, int] = {}  # how often a method is going to fail
        self.may_close = threading.Event()
        self.may_close.set()
        self.fenced = threading.Event()
        self.while_closing: Callable[[], None] = lambda: None

    def load_report(self) -> BrokerLoad:
        if self.load_fails:
            raise BrokerError("no figures")
        stats = {
            name: BundleStats(
                msgRateIn=1.0, msgRateOut=1.0, msgThroughputIn=1.0, msgThroughputOut=1.0, topics=n
            )
            for name, n in ((LOW, 5), (PARENT, 6))
        }
        return BrokerLoad(NONE, NONE, NONE, NONE, NONE, stats)

    def topic_hashes(self, bundle: str) -> list[int]:
        return [1, 2, 3]

    def acquire(self, bundle: str) -> None:
        self.calls.append(f"acquire {bundle}")

    def release(self, bundle: str, destination: str | None) -> None:
        self.may_close.wait(timeout=10)
        self.calls.append(f"release {bundle}")

    def drop(self, bundle: str) -> None:
        self.calls.append(f"drop {bundle}")
        self.fail("drop")

    def redirect(self, bundle: str, owner: str | None) -> None:
        self.calls.append(f"redirect {bundle} {owner}")
        self.fail("redirect")

    def fail(self, what: str) -> None:
        if self.failing.get(what, 0) > 0:
            self.failing[what] -= 1
            raise BrokerError(f"{what} fails")

    def split(self, bundle: str, children: tuple[str, ...]) -> None:
        self.calls.append(f"split {bundle}")
        if self.failing.pop("split", 0):
            raise BoundariesChangedError("somebody else was quicker")

    def fence(self) -> None:
        self.calls.append("fence")
        self.fail("fence")
        self.fenced.set()

    def unfence(self) -> None:
        self.calls.append("unfence")
        self.fail("unfence")

    def close(self) -> None:
        self.while_closing()
        self.calls.append("close")
        self.fail("close")


class Bench:
    """A runtime driven turn by turn."""

    def __init__(self, path: Path, channel_partitions: int = 1) -> None:
        self.now_ms = 1_000
        self.log = ShakyLog(path)
        self.log.create_topic("channel", channel_partitions)
        self.log.create_topic("reports", 2)
        self.log.create_topic("commands", 1)
        self.broker = ListBroker()
        self.runtime = AgentRuntime(
            "c",
            "b1",
            self.broker,
            self.log,
            AGENT,
            SETTINGS,
            clock=lambda: self.now_ms,
            wall=lambda: 7_000_000 + self.now_ms,
        )

    def turns(self, count: int, step_ms: int = 10) -> None:
        for _ in range(count):
            self.now_ms += step_ms
            self.runtime.turn()

    def write(self, bundle: str, state: str, version: int, *brokers: str | None) -> None:
        value = encode_channel(data(state, version, *brokers))
        self.log.append([OutRecord("channel", bundle, value)])

    def last(self) -> tuple[ServiceUnitState, int] | None:
        rows = self.log.read("channel", 0, 0, 1_000)
        unit = decode_channel(rows[-1].value) if rows else None
        return None if unit is None else (unit.state, unit.versionId)

    def signs(self) -> list[Report]:
        rows = [r for p in range(2) for r in self.log.read("reports", p, 0, 1_000)]
        return [decode_report(r.value, "b1", "c", WireLimits()) for r in rows]

    def reports(self) -> list[str]:
        return [sign.kind for sign in self.signs()]


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


def test_topic_hashes_are_listed_only_for_big_bundles(bench: Bench) -> None:
    bench.turns(2)
    rows = [r for p in range(2) for r in bench.log.read("reports", p, 0, 10)]
    report = decode_report(rows[0].value, "b1", "c", WireLimits())
    assert report.topic_hashes == {PARENT: [1, 2, 3]}
    assert report.sequence > 7_000_000


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
