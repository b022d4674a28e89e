"""Placement: the least loaded broker that may have the bundle, booked at once."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from controller.strategies.params import LeastResourceParams
from controller.strategies.place.booking import MIN_BUNDLE_LOAD
from controller.strategies.place.least_resource import LeastResourcePlace
from controller.strategies.protocols import Unowned
from controller.strategies.view import ClusterView
from tests.views import B, make_view

PLACE = LeastResourcePlace(LeastResourceParams(broker_topics_max=100))


def choose(view: ClusterView, *bundles: Unowned) -> list[str | None]:
    placement = PLACE.begin(view, {})
    picks = [placement.choose(b).broker for b in bundles]
    return [view.broker_names[b] if b >= 0 else None for b in picks]


def new(count: int) -> list[Unowned]:
    return [Unowned(f"t/n/{i}", 0, 0.0, -1) for i in range(count)]


def test_the_least_loaded_broker_gets_the_bundle() -> None:
    assert choose(make_view({"a": 50, "b": 20, "c": 70}, []), *new(1)) == ["b"]


def test_bundles_given_away_before_count() -> None:
    view = make_view({"a": 50, "b": 20, "c": 20}, [B("a", load=10.0)])

    assert choose(view, *new(6)) == ["b", "c", "b", "c", "b", "c"]


def test_equal_brokers_share_by_number_of_bundles_then_by_name() -> None:
    assert choose(make_view({"b": 0, "a": 0, "c": 0}, []), *new(6)) == list("abcabc")


def test_a_full_broker_and_the_one_it_left_are_passed_over_unless_nobody_else_is_there() -> None:
    view = make_view({"a": 10, "b": 20}, [], topics={"a": 100})

    assert choose(view, *new(1)) == ["b"]
    assert choose(view, Unowned("t/n/x", 1, 0.0, 1)) == ["a"]
    assert choose(make_view({"a": 10}, []), Unowned("t/n/x", 1, 0.0, 0)) == ["a"]


def test_topics_given_away_count_against_the_cap() -> None:
    view = make_view({"a": 10, "b": 50}, [], topics={"a": 60})

    assert choose(view, *(Unowned(f"t/n/{i}", 40, 0.01, -1) for i in range(2))) == ["a", "b"]


def test_brokers_without_known_load_are_used_only_if_there_are_no_others() -> None:
    assert choose(make_view({"a": 10, "b": 20}, [], frozen=["a"]), *new(1)) == ["b"]
    assert choose(make_view({"a": 10, "b": 20}, [], frozen=["a", "b"]), *new(1)) == ["a"]


def test_without_brokers_there_is_a_verdict() -> None:
    choice = PLACE.begin(make_view({}, []), {}).choose(new(1)[0])

    assert choice.broker == -1
    assert choice.verdict is not None
    assert choice.verdict.reason.label == "no_brokers"


@given(
    st.lists(st.integers(0, 90), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(0, 60), st.floats(0, 0.3), st.integers(-1, 5)), max_size=20),
)
def test_choices_equal_those_of_a_plain_search(
    points: list[int], bundles: list[tuple[int, float, int]]
) -> None:
    """The judge: a linear scan over all brokers for every bundle."""
    names = {f"b{i}": float(p) for i, p in enumerate(points)}
    view = make_view(names, [])
    placement = PLACE.begin(view, {})
    load = [p / 100.0 for p in points]
    count, topics = [0] * len(points), [0] * len(points)
    for i, (bundle_topics, bundle_load, avoid) in enumerate(bundles):
        picked = placement.choose(Unowned(f"t/n/{i}", bundle_topics, bundle_load, avoid)).broker
        allowed = [b for b in range(len(points)) if topics[b] < 100 and b != avoid]
        ranked = sorted(allowed or range(len(points)), key=lambda b: (load[b], count[b], b))

        assert picked == ranked[0]
        load[picked] += bundle_load or MIN_BUNDLE_LOAD
        count[picked] += 1
        topics[picked] += bundle_topics
    assert np.isfinite(load).all()
