from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.load.publish import Reported, max_change, must_publish

LAST = Reported(rate=1_000.0, throughput=1e6, bundles=10, usage=0.5)
REPORTED = st.builds(
    Reported,
    rate=st.floats(0.0, 1e9),
    throughput=st.floats(0.0, 1e12),
    bundles=st.integers(0, 10_000),
    usage=st.floats(0.0, 3.0),
)


@pytest.mark.parametrize(
    ("now", "points"),
    [
        (LAST, 0.0),
        (replace(LAST, rate=1_100.0), 10.0),
        (replace(LAST, throughput=0.0), 100.0),
        (replace(LAST, bundles=13), 30.0),
        (replace(LAST, usage=0.25), 25.0),
        (replace(LAST, rate=1_100.0, bundles=5), 50.0),
    ],
)
def test_the_greatest_of_four_changes_counts(now: Reported, points: float) -> None:
    assert max_change(LAST, now) == points


@pytest.mark.parametrize("field", ["rate", "throughput", "bundles"])
def test_from_nothing_to_something_is_an_infinite_change(field: str) -> None:
    nothing = Reported(0.0, 0.0, 0, 0.0)
    assert max_change(nothing, nothing) == 0.0
    assert max_change(nothing, replace(nothing, **{field: 1})) == math.inf


def test_usage_from_zero_changes_by_its_points() -> None:
    assert max_change(Reported(0.0, 0.0, 0, 0.0), Reported(0.0, 0.0, 0, 0.25)) == 25.0


def must(*, is_forced: bool = False, age_ms: int = 0, change_points: float = 0.0) -> bool:
    return must_publish(
        is_forced=is_forced,
        age_ms=age_ms,
        max_interval_ms=900_000,
        change_points=change_points,
        threshold_points=10.0,
    )


def test_a_report_is_due_when_forced_or_old_or_different() -> None:
    assert not must()
    assert must(is_forced=True)
    assert must(age_ms=900_001)
    assert must(change_points=math.nextafter(10.0, 11.0))
    assert must(change_points=math.inf)


def test_both_limits_are_strict() -> None:
    assert not must(age_ms=900_000, change_points=10.0)


@given(REPORTED, REPORTED)
def test_changes_are_never_negative_and_none_for_the_same(last: Reported, now: Reported) -> None:
    assert max_change(last, now) >= 0.0
    assert max_change(now, now) == 0.0
    assert max_change(last, now) >= 100.0 * abs(last.usage - now.usage)
