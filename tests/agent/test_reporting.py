"""When the agent sends load reports, and what they list: on a real log, with clocks of the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.agent.port import TopicLoad
from controller.agent.report import figures_of, listed, with_topics
from controller.agent.settings import RuntimeSettings
from controller.core.inputs import RawRecord
from controller.core.settings import Settings
from controller.core.state import new_state
from controller.core.step import step
from controller.wire.reports import BundleStats, Report, ResourceUsage
from tests.agent.bench import AGENT, SETTINGS, Bench, stats
from tests.agent.builders import HIGH, LOW, PARENT

RULE = replace(SETTINGS, report_change_points=10.0, report_max_interval_ms=20_000)
SYSTEM = "pulsar/system/0x00000000_0xffffffff"
REST = "t/ns/0x80000000_0xffffffff"
MakeBench = Callable[[RuntimeSettings], Bench]


@pytest.fixture
def make_bench(tmp_path: Path) -> Iterator[MakeBench]:
    made: list[Bench] = []

    def make(settings: RuntimeSettings) -> Bench:
        made.append(Bench(tmp_path / f"{len(made)}.db", settings=settings))
        return made[-1]

    yield make
    for bench in made:
        bench.log.close()


def load_reports(bench: Bench) -> list[Report]:
    return [sign for sign in bench.signs() if sign.kind in ("full", "partial")]


def reports_during(bench: Bench, ms: int) -> int:
    """Load reports sent in so long."""
    before = len(load_reports(bench))
    bench.turns(ms // 10)
    return len(load_reports(bench)) - before


# ------------------------------------------------------------------------------ when


def test_by_default_every_interval_brings_a_report(make_bench: MakeBench) -> None:
    bench = make_bench(SETTINGS)
    bench.turns(2)
    assert SETTINGS.report_change_points == RuntimeSettings().report_change_points == 0.0
    assert reports_during(bench, 5 * AGENT.report_interval_ms) == 5
    assert bench.runtime.counts.reports_spared == 0


def test_a_load_that_does_not_change_is_not_reported_again(make_bench: MakeBench) -> None:
    bench = make_bench(RULE)
    bench.turns(2)
    assert len(load_reports(bench)) == 1
    assert reports_during(bench, 15_000) == 0
    assert bench.runtime.counts.reports_spared == 15


def test_signs_of_life_come_as_often_as_ever(make_bench: MakeBench) -> None:
    chatty, sparing = make_bench(SETTINGS), make_bench(RULE)
    chatty.turns(1_000)
    sparing.turns(1_000)
    assert len(sparing.signs()) == len(chatty.signs()) >= 10_000 // AGENT.heartbeat_interval_ms
    assert sorted(s.sequence for s in sparing.signs()) == sorted(s.sequence for s in chatty.signs())


@pytest.mark.parametrize("seconds", [20, 40])
def test_a_report_that_is_too_old_is_followed_by_one(make_bench: MakeBench, seconds: int) -> None:
    bench = make_bench(RULE)
    bench.turns(2)
    assert reports_during(bench, 1_000 * seconds) == seconds // 20 - 1
    assert reports_during(bench, 2 * AGENT.report_interval_ms) == 1


@pytest.mark.parametrize(
    ("rate", "throughput", "cpu", "is_sent"),
    [
        (1_000.0, 1e6, 50.0, False),
        (1_100.0, 1.1e6, 59.0, False),  # ten per cent are not more than ten
        (1_101.0, 1e6, 50.0, True),
        (1_000.0, 0.89e6, 50.0, True),
        (1_000.0, 1e6, 39.9, True),
    ],
)
def test_a_change_above_the_threshold_is_reported(
    make_bench: MakeBench, rate: float, throughput: float, cpu: float, is_sent: bool
) -> None:
    bench = make_bench(RULE)
    bench.broker.cpu = ResourceUsage(50.0, 100.0)
    bench.broker.stats = {LOW: stats(1_000.0, 1e6)}
    bench.turns(2)
    bench.broker.cpu = ResourceUsage(cpu, 100.0)
    bench.broker.stats = {LOW: stats(rate, throughput)}
    assert reports_during(bench, 5_000) == int(is_sent)


def test_small_changes_add_up_to_one_that_is_reported(make_bench: MakeBench) -> None:
    bench = make_bench(RULE)
    sent = []
    for percent in range(0, 25, 4):
        bench.broker.stats = {LOW: stats(1_000.0 + 10.0 * percent)}
        bench.turns(AGENT.report_interval_ms // 10)
        sent.append(len(load_reports(bench)))
    assert sent == [1, 1, 1, 2, 2, 2, 3]  # at 0, 12 and 24 %


@pytest.mark.parametrize(
    ("records", "is_sent"),
    [
        ([("Assigning", 1, "b1")], True),  # answered by this broker with Owned
        ([("Owned", 1, "b1")], True),
        ([("Releasing", 1, "b2", "b1")], True),
        ([("Splitting", 1, None, "b1")], True),
        ([("Assigning", 1, "b2", "b1")], False),
        ([("Owned", 1, "b2", "b1")], False),
        ([("Releasing", 1, "b1", "b2")], False),
        ([("Splitting", 1, None, "b2")], False),
        ([("Free", 1, None, "b1")], False),
        ([("Owned", 2, "b2"), ("Owned", 2, "b1")], False),  # the second one loses
    ],
)
def test_a_move_of_this_broker_forces_the_next_report(
    make_bench: MakeBench, records: list[tuple[str, int, str | None, str]], is_sent: bool
) -> None:
    bench = make_bench(RULE)
    bench.turns(2)
    for state, version, *brokers in records:
        bench.write(LOW, state, version, *brokers)
    assert reports_during(bench, 5_000) == int(is_sent)


def test_a_forced_report_waits_until_the_broker_has_figures(make_bench: MakeBench) -> None:
    bench = make_bench(RULE)
    bench.turns(2)
    bench.broker.load_fails = True
    bench.write(LOW, "Owned", 1, "b1")
    assert reports_during(bench, 3_000) == 0
    bench.broker.load_fails = False
    assert reports_during(bench, 5_000) == 1


def test_a_report_that_is_lost_is_made_up_for(make_bench: MakeBench) -> None:
    bench = make_bench(RULE)
    bench.turns(2)
    bench.write(LOW, "Owned", 1, "b1")
    bench.broker.stats = {LOW: stats(1_000.0)}
    bench.turns(20)
    bench.log.fails_writing = True
    assert reports_during(bench, 2_000) == 0
    bench.log.fails_writing = False
    assert reports_during(bench, 5_000) == 1


# ------------------------------------------------------------------------------ what


def test_all_bundles_are_listed_unless_a_number_is_given(make_bench: MakeBench) -> None:
    bench = make_bench(SETTINGS)
    bench.turns(2)
    report = load_reports(bench)[0]
    assert (report.kind, report.bundle_names) == ("full", [LOW, PARENT])
    assert report.totals == (2.0, 2.0, 2.0, 2.0)


def test_the_largest_bundles_are_listed_with_the_totals_of_all(make_bench: MakeBench) -> None:
    bench = make_bench(replace(SETTINGS, report_bundles_max=2))
    bench.broker.stats = {
        SYSTEM: stats(8.0, 9e6, topics=1),
        HIGH: stats(4.0, 3e6, topics=2),
        REST: stats(2.0, 1e6, topics=3),
        LOW: stats(6.0, 2e6, topics=4),
        PARENT: stats(100.0, 0.0, topics=9),
    }
    bench.turns(2)
    report = load_reports(bench)[0]
    assert (report.kind, report.bundle_names) == ("partial", [LOW, HIGH])
    assert report.totals == (60.0, 60.0, 7.5e6, 7.5e6)
    assert report.topics == 19


def test_the_controller_takes_what_a_report_of_the_largest_says(make_bench: MakeBench) -> None:
    bench = make_bench(replace(SETTINGS, report_bundles_max=1))
    bench.broker.cpu = ResourceUsage(30.0, 120.0)
    bench.broker.stats = {HIGH: stats(4.0, 3e6), LOW: stats(6.0, 2e6)}
    bench.turns(2)
    rows = [row for p in range(2) for row in bench.log.read("reports", p, 0, 10)]
    settings = Settings(reports_topic="reports")
    record = RawRecord(rows[0].ingest_ms, "reports", 0, 0, rows[0].key, rows[0].value)
    state = step(new_state("c", settings), [record], rows[0].ingest_ms, settings).state
    at = state.brokers.slots["b1"]
    assert float(state.brokers["load"][at]) == 0.25
    assert state.brokers["totals"][at].tolist() == [5.0, 5.0, 2.5e6, 2.5e6]
    assert int(state.brokers["reported_ms"][at]) == rows[0].ingest_ms
    assert list(state.bundles.slots) == [HIGH]


def test_topics_are_listed_only_of_big_bundles(make_bench: MakeBench) -> None:
    bench = make_bench(SETTINGS)
    bench.turns(2)
    report = load_reports(bench)[0]
    assert report.topic_hashes == {PARENT: [1, 2, 3]}
    assert report.topic_loads == {}  # of none is a load known
    assert report.sequence > 7_000_000


def test_topics_are_listed_with_their_loads_of_busy_bundles_too(make_bench: MakeBench) -> None:
    bench = make_bench(SETTINGS)
    busy = SETTINGS.topic_loads_above_rate
    bench.broker.stats = {LOW: stats(busy), HIGH: stats(busy + 1.0)}
    bench.broker.topics = [TopicLoad(7, 1.23456, 99.7), TopicLoad(2**32 - 1)]
    bench.turns(2)
    report = load_reports(bench)[0]
    assert list(report.topic_loads) == list(report.topic_hashes) == [HIGH]
    loads = report.topic_loads[HIGH]
    assert loads.hashes.tolist() == [7, 2**32 - 1]
    assert (loads.rates.tolist(), loads.throughputs.tolist()) == ([1.235, 0.0], [100.0, 0.0])


def test_without_its_topics_there_is_no_report(make_bench: MakeBench) -> None:
    bench = make_bench(SETTINGS)
    bench.broker.topics_fail = True
    bench.turns(50)
    assert set(bench.reports()) == {"heartbeat"}
    assert bench.runtime.counts.report_errors == 1


def test_topics_of_the_fastest_bundles_come_first_into_a_report() -> None:
    bundles = {
        LOW: stats(1.0, topics=600),
        HIGH: stats(90_000.0, topics=500),
        REST: stats(50_000.0, topics=700),
        SYSTEM: stats(20_000.0, topics=400),
    }
    settings = RuntimeSettings(report_topics_max=1_000)
    assert with_topics(bundles, list(bundles), settings) == [HIGH, SYSTEM]
    assert with_topics(bundles, [LOW, REST], settings) == [REST]
    everything = replace(settings, report_topics_max=10_000)
    assert with_topics(bundles, list(bundles), everything) == [HIGH, REST, SYSTEM, LOW]
    assert with_topics(bundles, list(bundles), replace(settings, report_topics_max=0)) == []


NAMES = [
    f"{ns}/0x{at:08x}_0x{at + 1:08x}" for ns in ("t/b", "t/a", "pulsar/system") for at in (1, 2)
]
STATS = st.builds(stats, st.sampled_from([0.0, 40.0, 900.0]), st.sampled_from([0.0, 1e4, 3e5]))


@given(
    st.dictionaries(st.sampled_from(NAMES), STATS),
    st.integers(1, 7),
    st.sampled_from([(), ("pulsar/system",), ("t/a", "t/none")]),
)
def test_the_list_does_not_depend_on_the_order_in_which_the_broker_reports(
    bundles: dict[str, BundleStats], most: int, excluded: tuple[str, ...]
) -> None:
    settings = RuntimeSettings(report_bundles_max=most, report_excluded_namespaces=excluded)
    names = listed(bundles, figures_of(bundles), settings)
    turned = dict(reversed(bundles.items()))
    assert listed(turned, figures_of(turned), settings) == names
    may = [n for n, s in bundles.items() if s.msgThroughputIn + s.msgThroughputOut > 0.0]
    may = [n for n in may if not n.startswith(("pulsar/system/", *(f"{e}/" for e in excluded)))]
    assert set(names) <= set(may)
    assert len(names) == min(most, len(may))
