"""The observer's judgement, on own logs written by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.agent.own_log import OwnLine
from controller.demo.service import Service, in_order

WHOLE = "t/ns/0x00000000_0x80000000"
LOW, HIGH = "t/ns/0x00000000_0x40000000", "t/ns/0x40000000_0x80000000"
ELSEWHERE = "t/other/0x00000000_0x80000000"


def line(ms: float, broker: str, event: str, bundle: str | None = None) -> OwnLine:
    return OwnLine(ms, broker, event, bundle)


def load(ms: float, broker: str, ratio: float) -> OwnLine:
    return OwnLine(ms, broker, "load", load_ratio=ratio)


def watched(*lines: OwnLine) -> Service:
    service = Service(gap_limit_ms=30_000.0)
    for each in in_order(list(lines)):
        service.feed(each)
    return service


def test_a_double_serve_of_one_millisecond_is_found() -> None:
    service = watched(
        line(0.0, "b1", "serve", WHOLE),
        line(1_000.0, "b2", "serve", WHOLE),
        line(1_001.0, "b1", "stop", WHOLE),
    )
    assert service.violations == 1
    overlap = service.overlaps[0]
    assert (overlap.ms, overlap.broker, overlap.other) == (1_000.0, "b2", "b1")


def test_a_handover_at_the_same_instant_is_none() -> None:
    service = watched(
        line(0.0, "b1", "serve", WHOLE),
        line(1_000.0, "b2", "serve", WHOLE),
        line(1_000.0, "b1", "stop", WHOLE),
    )
    assert service.violations == 0


def test_parent_and_child_on_two_brokers_overlap() -> None:
    service = watched(line(0.0, "b1", "serve", WHOLE), line(5.0, "b2", "serve", LOW))
    assert service.violations == 1


def test_neighbours_and_other_namespaces_do_not_overlap() -> None:
    service = watched(
        line(0.0, "b1", "serve", LOW),
        line(5.0, "b2", "serve", HIGH),
        line(6.0, "b2", "serve", ELSEWHERE),
    )
    assert service.violations == 0


def test_a_split_on_one_broker_leaves_neither_overlap_nor_gap() -> None:
    service = watched(
        line(0.0, "b1", "serve", WHOLE),
        line(9.0, "b1", "stop", WHOLE),
        line(9.0, "b1", "serve", LOW),
        line(9.0, "b1", "serve", HIGH),
    )
    assert service.violations == 0
    assert service.open_gaps() == 0


def test_an_unserved_bundle_is_a_violation_beyond_the_limit_and_only_once() -> None:
    service = watched(line(0.0, "b1", "serve", WHOLE), line(100.0, "b1", "stop", WHOLE))
    service.check_gaps(30_100.0)
    assert service.violations == 0
    service.check_gaps(30_101.0)
    service.check_gaps(60_000.0)
    assert service.violations == 1
    service.feed(line(70_000.0, "b2", "serve", WHOLE))
    assert service.violations == 1
    assert service.open_gaps() == 0


def test_a_gap_that_ended_too_late_is_found_without_being_asked_in_between() -> None:
    service = watched(
        line(0.0, "b1", "serve", WHOLE),
        line(100.0, "b1", "stop", WHOLE),
        line(40_000.0, "b2", "serve", WHOLE),
    )
    assert service.violations == 1


def test_a_gap_half_filled_is_still_a_gap() -> None:
    service = watched(
        line(0.0, "b1", "serve", WHOLE),
        line(100.0, "b1", "stop", WHOLE),
        line(200.0, "b2", "serve", LOW),
    )
    assert service.open_gaps() == 1
    service.check_gaps(40_000.0)
    assert service.violations == 1


def test_take_over_time_runs_from_the_death_to_the_last_bundle() -> None:
    service = watched(line(0.0, "b1", "serve", LOW), line(0.0, "b1", "serve", HIGH))
    service.died("b1", 10_000.0)
    assert service.takeover_s("b1") is None
    service.feed(line(18_000.0, "b2", "serve", LOW))
    assert service.takeover_s("b1") is None
    service.feed(line(21_500.0, "b3", "serve", HIGH))
    assert service.takeover_s("b1") == pytest.approx(11.5)
    assert service.violations == 0
    assert "b1" not in service.live


def test_a_killed_broker_serves_until_its_death() -> None:
    service = watched(line(0.0, "b1", "serve", WHOLE), line(5_000.0, "b2", "serve", WHOLE))
    service.died("b1", 6_000.0)
    assert service.violations == 1


def test_fence_and_exit_end_all_service() -> None:
    for event in ("fence", "exit"):
        service = watched(
            line(0.0, "b1", "serve", LOW),
            line(0.0, "b1", "serve", HIGH),
            line(1.0, "b1", event),
            line(2.0, "b2", "serve", LOW),
        )
        assert service.violations == 0
        assert service.open_gaps() == 1


def test_imbalance_is_max_over_mean_of_live_brokers_that_all_have_reported() -> None:
    service = watched(line(0.0, "b1", "start"), line(0.0, "b2", "start"), load(1.0, "b1", 0.6))
    assert service.imbalance() is None
    service.feed(load(2.0, "b2", 0.2))
    assert service.imbalance() == pytest.approx(1.5)
    service.died("b2", 3.0)
    assert service.imbalance() == pytest.approx(1.0)
    assert service.reports == 2


def test_loads_are_fresh_when_all_have_reported_since_the_last_change() -> None:
    service = watched(line(0.0, "b1", "serve", LOW), line(0.0, "b2", "serve", HIGH))
    service.feed(load(1.0, "b1", 0.5))
    assert not service.has_fresh_loads()
    service.feed(load(1.0, "b2", 0.5))
    assert service.has_fresh_loads()
    service.feed(line(2.0, "b2", "serve", ELSEWHERE))
    assert not service.has_fresh_loads()


@given(st.permutations(range(6)))
def test_lines_of_several_files_may_come_in_any_order(order: list[int]) -> None:
    lines = [
        line(0.0, "b1", "start"),
        line(1.0, "b1", "serve", WHOLE),
        line(2.0, "b1", "stop", WHOLE),
        line(2.0, "b2", "serve", WHOLE),
        line(3.0, "b2", "stop", WHOLE),
        line(3.0, "b1", "serve", WHOLE),
    ]
    service = watched(*[lines[i] for i in order])
    assert service.violations == 0
    assert service.served()["b1"] == [WHOLE]
