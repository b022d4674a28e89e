"""The simulated broker keeps the promises of the port, and its own log tells the truth."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest

from controller.agent.own_log import OwnLine, OwnLog, read_own_line
from controller.agent.port import BoundariesChangedError, BrokerError
from controller.model.bundles import split_name
from controller.sim.boundaries import Edges, FileBoundaries, MemoryBoundaries, create_namespaces
from controller.sim.broker import Capacity, SimulatedBroker, load_ratio
from controller.sim.workload import Workload, WorkloadSpec

WORKLOAD = Workload(WorkloadSpec())
FIRST, SECOND = WORKLOAD.bundle_names()[:2]


class Bench:
    """A broker with a clock of its own and a log to read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        log = OwnLog(path, "b1", clock=lambda: 1_000.5)
        self.boundaries = MemoryBoundaries()
        create_namespaces(self.boundaries, WORKLOAD.bundle_names())
        self.broker = SimulatedBroker(
            WORKLOAD, Capacity(), log, elapsed_ms=lambda: 0.0, boundaries=self.boundaries
        )

    def lines(self) -> list[OwnLine]:
        read = [read_own_line(line) for line in self.path.read_bytes().splitlines()]
        return [line for line in read if line is not None]

    def bundles(self) -> list[str]:
        namespace = split_name(FIRST)[0]
        found = self.boundaries.read(namespace)
        assert found is not None
        return [f"{namespace}/0x{a:08x}_0x{b:08x}" for a, b in pairwise(found[1])]

    def events(self) -> list[tuple[str, str | None]]:
        return [(line.event, line.bundle) for line in self.lines()]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "b1.jsonl")


def test_serving_and_stopping_stand_in_the_own_log_once(bench: Bench) -> None:
    for _ in range(2):
        bench.broker.acquire(FIRST)
    for _ in range(2):
        bench.broker.release(FIRST, None)
    assert bench.events() == [("start", None), ("serve", FIRST), ("stop", FIRST)]


def test_closing_takes_time_that_grows_with_the_topics(bench: Bench) -> None:
    bench.broker.acquire(FIRST)
    started_s = time.monotonic()
    bench.broker.release(FIRST, "b2")
    topics = int(WORKLOAD.rates([FIRST], 0.0).topics[0])
    assert time.monotonic() - started_s >= (20.0 + 0.5 * topics) / 1_000 > 0.02


def test_a_report_lists_exactly_what_is_served_and_logs_the_load(bench: Bench) -> None:
    bench.broker.acquire(FIRST)
    bench.broker.acquire(SECOND)
    load = bench.broker.load_report()
    assert set(load.bundles) == {FIRST, SECOND}
    logged = bench.lines()[-1]
    assert logged.event == "load"
    assert logged.load_ratio == pytest.approx(load_ratio(load), abs=1e-5)
    assert load_ratio(load) > Capacity().background_ratio


def test_the_topics_of_a_bundle_share_out_its_load(bench: Bench) -> None:
    bench.broker.acquire(FIRST)
    stats = bench.broker.load_report().bundles[FIRST]
    topics = bench.broker.topic_loads(FIRST)
    assert len({topic.hash for topic in topics}) == len(topics) == stats.topics
    rate, throughput = sum(t.rate for t in topics), sum(t.throughput for t in topics)
    assert rate == pytest.approx(stats.msgRateIn + stats.msgRateOut)
    assert throughput == pytest.approx(stats.msgThroughputIn + stats.msgThroughputOut)
    assert bench.broker.topic_loads("no/where/0x00000000_0xffffffff") == []


def test_an_idle_broker_shows_its_background_load(bench: Bench) -> None:
    assert load_ratio(bench.broker.load_report()) == pytest.approx(Capacity().background_ratio)


def _cut(bundle: str, *shares: float) -> tuple[str, ...]:
    namespace, lower, upper = split_name(bundle)
    edges = [lower, *(lower + int((upper - lower) * share) for share in shares), upper]
    return tuple(f"{namespace}/0x{a:08x}_0x{b:08x}" for a, b in pairwise(edges))


@pytest.mark.parametrize("shares", [(0.5,), (0.25, 0.5, 0.9)])
def test_a_split_hands_over_in_one_step(bench: Bench, shares: tuple[float, ...]) -> None:
    children = _cut(FIRST, *shares)
    bench.broker.acquire(FIRST)
    for _ in range(2):
        bench.broker.split(FIRST, children)
        assert bench.broker.served == set(children)
    served = [("serve", child) for child in children]
    assert bench.events()[2:] == [("stop", FIRST), *served]
    assert set(children) <= set(bench.bundles())


def test_a_split_of_a_bundle_that_is_not_served_changes_only_the_boundaries(bench: Bench) -> None:
    children = _cut(FIRST, 0.5)
    bench.broker.split(FIRST, children)
    assert bench.broker.served == frozenset()
    assert set(children) <= set(bench.bundles()) and FIRST not in bench.bundles()


def test_a_split_that_was_done_and_split_further_goes_on(bench: Bench) -> None:
    children = _cut(FIRST, 0.5)
    bench.broker.split(FIRST, children)
    bench.broker.split(children[0], _cut(children[0], 0.5))
    before = bench.bundles()
    bench.broker.split(FIRST, children)
    assert bench.bundles() == before


def test_a_split_without_parent_or_children_in_the_boundaries_fails(bench: Bench) -> None:
    bench.broker.split(FIRST, _cut(FIRST, 0.5))
    with pytest.raises(BrokerError, match="neither"):
        bench.broker.split(FIRST, _cut(FIRST, 0.3))
    with pytest.raises(BrokerError, match="nobody has created"):
        bench.broker.split("no/where/0x00000000_0xffffffff", _cut(FIRST, 0.5))


def test_who_is_slower_with_the_boundaries_is_told_and_serves_as_before(bench: Bench) -> None:
    class Raced(MemoryBoundaries):
        """Somebody else splits the second bundle between read and change."""

        def compare_and_set(self, namespace: str, expected_version: int, edges: Edges) -> bool:
            if expected_version == 1:
                found = super().read(namespace)
                assert found is not None
                middle = split_name(_cut(SECOND, 0.5)[0])[2]
                super().compare_and_set(namespace, 1, tuple(sorted({*found[1], middle})))
            return super().compare_and_set(namespace, expected_version, edges)

    raced = Raced()
    create_namespaces(raced, WORKLOAD.bundle_names())
    bench.broker._boundaries = raced
    bench.broker.acquire(FIRST)
    with pytest.raises(BoundariesChangedError):
        bench.broker.split(FIRST, _cut(FIRST, 0.5))
    assert bench.broker.served == {FIRST}
    bench.broker.split(FIRST, _cut(FIRST, 0.5))
    assert bench.broker.served == set(_cut(FIRST, 0.5))


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_of_many_who_change_boundaries_at_once_exactly_one_wins(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "boundaries"
    boundaries = MemoryBoundaries() if kind == "memory" else FileBoundaries(path, 5.0)
    assert boundaries.read("t/ns") is None
    assert not boundaries.compare_and_set("t/ns", 1, (0, 9))
    assert boundaries.compare_and_set("t/ns", 0, (0, 9))
    for version in range(1, 6):
        with ThreadPoolExecutor(8) as pool:
            tries = [
                pool.submit(boundaries.compare_and_set, "t/ns", version, (0, version, n))
                for n in range(10, 18)
            ]
        winners = [n for n, won in zip(range(10, 18), tries, strict=True) if won.result()]
        assert len(winners) == 1
        assert boundaries.read("t/ns") == (version + 1, (0, version, *winners))
    if kind == "file":
        assert FileBoundaries(path).read("t/ns") == boundaries.read("t/ns")


def test_a_fenced_broker_serves_nothing_until_it_is_unfenced(bench: Bench) -> None:
    bench.broker.acquire(FIRST)
    bench.broker.fence()
    assert bench.broker.served == frozenset()
    with pytest.raises(BrokerError):
        bench.broker.acquire(FIRST)
    with pytest.raises(BrokerError):
        bench.broker.split(FIRST, _cut(FIRST, 0.5))
    bench.broker.unfence()
    assert bench.broker.served == frozenset()
    bench.broker.acquire(FIRST)
    assert bench.broker.served == {FIRST}


def test_a_line_that_a_kill_has_cut_is_no_line() -> None:
    assert read_own_line(b'{"ms":1.0,"broker":"b1","event":"ser') is None
    assert read_own_line(b'{"ms":1.0,"broker":"b1","event":"dance"}') is None
