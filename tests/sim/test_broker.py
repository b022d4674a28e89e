"""The simulated broker keeps the promises of the port, and its own log tells the truth."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.agent.own_log import OwnLine, OwnLog, read_own_line
from controller.agent.port import BrokerError
from controller.sim.broker import Capacity, SimulatedBroker, load_ratio
from controller.sim.workload import Workload, WorkloadSpec

WORKLOAD = Workload(WorkloadSpec())
FIRST, SECOND = WORKLOAD.bundle_names()[:2]


class Bench:
    """A broker with a clock of its own and a log to read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.slept: list[float] = []
        log = OwnLog(path, "b1", clock=lambda: 1_000.5)
        self.broker = SimulatedBroker(
            WORKLOAD, Capacity(), log, elapsed_ms=lambda: 0.0, sleep=self.slept.append
        )

    def lines(self) -> list[OwnLine]:
        read = [read_own_line(line) for line in self.path.read_bytes().splitlines()]
        return [line for line in read if line is not None]

    def events(self) -> list[tuple[str, str | None]]:
        return [(line.event, line.bundle) for line in self.lines()]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "b1.jsonl")


def test_serving_and_stopping_stand_in_the_own_log_once(bench: Bench) -> None:
    for _ in range(2):
        bench.broker.acquire(FIRST)
    for _ in range(2):
        bench.broker.release(FIRST)
    assert bench.events() == [("start", None), ("serve", FIRST), ("stop", FIRST)]


def test_closing_takes_time_that_grows_with_the_topics(bench: Bench) -> None:
    bench.broker.acquire(FIRST)
    bench.broker.release(FIRST)
    topics = int(WORKLOAD.rates([FIRST], 0.0).topics[0])
    assert bench.slept == [pytest.approx((20.0 + 0.5 * topics) / 1_000)]


def test_a_report_lists_exactly_what_is_served_and_logs_the_load(bench: Bench) -> None:
    bench.broker.acquire(FIRST)
    bench.broker.acquire(SECOND)
    load = bench.broker.load_report()
    assert set(load.bundles) == {FIRST, SECOND}
    logged = bench.lines()[-1]
    assert logged.event == "load"
    assert logged.load_ratio == pytest.approx(load_ratio(load), abs=1e-5)
    assert load_ratio(load) > Capacity().background_ratio


def test_an_idle_broker_shows_its_background_load(bench: Bench) -> None:
    assert load_ratio(bench.broker.load_report()) == pytest.approx(Capacity().background_ratio)


def test_a_split_hands_over_in_one_step(bench: Bench) -> None:
    bench.broker.acquire(FIRST)
    bench.broker.split(FIRST, ("x", "y"))
    assert bench.broker.served == {"x", "y"}
    assert bench.events()[2:] == [("stop", FIRST), ("serve", "x"), ("serve", "y")]


def test_a_fenced_broker_serves_nothing_until_it_is_unfenced(bench: Bench) -> None:
    bench.broker.acquire(FIRST)
    bench.broker.fence()
    assert bench.broker.served == frozenset()
    with pytest.raises(BrokerError):
        bench.broker.acquire(FIRST)
    with pytest.raises(BrokerError):
        bench.broker.split(FIRST, ("x", "y"))
    bench.broker.unfence()
    assert bench.broker.served == frozenset()
    bench.broker.acquire(FIRST)
    assert bench.broker.served == {FIRST}


def test_a_line_that_a_kill_has_cut_is_no_line() -> None:
    assert read_own_line(b'{"ms":1.0,"broker":"b1","event":"ser') is None
    assert read_own_line(b'{"ms":1.0,"broker":"b1","event":"dance"}') is None
