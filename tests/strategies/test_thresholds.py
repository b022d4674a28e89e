"""Split by thresholds (pulsar.md §5.2): reasons, hit counts, caps, advice."""

from __future__ import annotations

from dataclasses import replace

from controller.strategies.memory import Memory
from controller.strategies.params import ThresholdSplitParams
from controller.strategies.protocols import SplitPlan
from controller.strategies.split.thresholds import ThresholdSplit
from tests.views import B, make_view

PARAMS = ThresholdSplitParams(
    topics_max=100, sessions_max=50, rate_max=1_000.0, throughput_max=1e6, hit_count=1
)
QUIET = B("a", rate=10.0, throughput=10.0, topics=10, sessions=5)


def split(
    *bundles: B, params: ThresholdSplitParams = PARAMS, memory: Memory | None = None
) -> SplitPlan:
    return ThresholdSplit(params).split(make_view({"a": 50.0, "b": 50.0}, bundles), memory or {})


def reasons(plan: SplitPlan) -> list[str]:
    return [v.reason.label for v in plan.verdicts]


def test_each_threshold_is_a_reason_and_the_first_one_names_it() -> None:
    plan = split(
        replace(QUIET, topics=101),
        replace(QUIET, sessions=51),
        replace(QUIET, rate=1_001.0),
        replace(QUIET, throughput=1e6 + 1),
        replace(QUIET, topics=101, rate=1e9),
        QUIET,
    )

    assert {s.bundle: s.reason for s in plan.splits} == {
        0: "topics",
        1: "sessions",
        2: "msg_rate",
        3: "bandwidth",
        4: "topics",
    }


def test_a_value_at_its_threshold_is_not_above_it() -> None:
    at = replace(QUIET, topics=100, sessions=50, rate=1_000.0, throughput=1e6)

    assert split(at).splits == ()


def test_a_bundle_must_be_too_big_for_several_rounds_in_a_row() -> None:
    params = replace(PARAMS, hit_count=3)
    big = replace(QUIET, rate=2_000.0)
    first = split(big, params=params)
    second = split(big, params=params, memory=first.memory)
    interrupted = split(QUIET, params=params, memory=second.memory)
    third = split(big, params=params, memory=second.memory)

    assert reasons(first) == reasons(second) == ["hit_count"]
    assert third.splits[0].bundle == 0
    assert third.memory == {}
    assert interrupted.memory == {}


def test_one_hot_topic_gets_the_advice_to_add_partitions() -> None:
    plan = split(replace(QUIET, topics=1, rate=3_500.0))

    assert plan.splits == ()
    assert reasons(plan) == ["hot_topic"]
    assert "add partitions: 5" in plan.verdicts[0].flips_if


def test_the_cap_of_a_namespace_counts_splits_of_the_same_round_biggest_first() -> None:
    params = replace(PARAMS, namespace_bundles_max=4)
    plan = split(*(replace(QUIET, rate=r) for r in (2_000.0, 4_000.0, 3_000.0)), params=params)

    assert [s.bundle for s in plan.splits] == [1]
    assert reasons(plan) == ["namespace_full"] * 2


def test_a_round_splits_only_so_many() -> None:
    params = replace(PARAMS, splits_per_round_max=2)
    plan = split(*(replace(QUIET, rate=2_000.0 + i) for i in range(5)), params=params)

    assert [s.bundle for s in plan.splits] == [4, 3]
    assert reasons(plan) == ["round_limit"] * 3


def test_a_bundle_in_flight_or_excluded_is_not_split() -> None:
    plan = split(
        replace(QUIET, rate=2_000.0, is_movable=False),
        replace(QUIET, rate=2_000.0, is_excluded=True),
        replace(QUIET, rate=2_000.0, owner=None),
    )

    assert plan.splits == ()
    assert reasons(plan) == ["cool_down"]


def test_topic_count_needs_topic_hashes() -> None:
    params = replace(PARAMS, algorithm="topic_count_equally_divide")
    big = replace(QUIET, rate=2_000.0)
    plan = split(big, replace(big, topic_boundary=0x1800000), params=params)

    assert [(s.bundle, s.boundaries) for s in plan.splits] == [(1, (0x1800000,))]
    assert reasons(plan) == ["no_boundary"]


def test_sessions_can_be_switched_off_and_so_can_splitting() -> None:
    busy = replace(QUIET, sessions=10_000)

    assert split(busy, params=replace(PARAMS, sessions_max=0)).splits == ()
    assert split(busy, params=replace(PARAMS, is_enabled=False)).splits == ()
