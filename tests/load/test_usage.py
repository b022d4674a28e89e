from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.load.usage import (
    CPU,
    HEAP,
    PERCENT_MAX,
    ResourceWeights,
    load_ratio,
    max_usage,
    percent,
    weighted_max,
)

AMOUNT = st.floats(0.0, 1e12)
USAGE = st.tuples(*[AMOUNT] * 10)
WEIGHT = st.floats(0.0, 10.0)
WEIGHTS = st.builds(ResourceWeights, WEIGHT, WEIGHT, WEIGHT, WEIGHT, WEIGHT)
IDLE = (0.0, 1.0) * 5


def with_pair(at: int, usage: float, limit: float) -> tuple[float, ...]:
    return (*IDLE[:at], usage, limit, *IDLE[at + 2 :])


def test_percent_is_single_precision() -> None:
    assert percent(85.0, 100.0) == 85.0
    assert percent(30.0, 100.0) == 30.000001907348633
    assert percent(250.0, 100.0) == 250.0


@pytest.mark.parametrize("limit", [0.0, -1.0, 1e-300])
def test_a_resource_without_limit_counts_as_unused(limit: float) -> None:
    assert percent(5.0, limit) == 0.0


def test_a_limit_of_nearly_nothing_gives_a_finite_percentage() -> None:
    assert percent(1e15, 1e-40) == PERCENT_MAX
    assert percent(1e7, 1.0) == PERCENT_MAX
    assert percent(9e6, 1.0) == 9e8


def test_heap_counts_only_in_the_extensible_form_and_only_with_a_weight() -> None:
    usage = with_pair(HEAP, 3.0, 4.0)
    assert max_usage(usage) == 0.0
    assert load_ratio(usage, ResourceWeights(memory=1.0)) == 0.0
    assert weighted_max(usage, ResourceWeights()) == 0.0
    assert weighted_max(usage, ResourceWeights(memory=0.5)) == 0.375


@pytest.mark.parametrize("at", [0, 4, 6, 8])
def test_each_other_resource_counts_in_the_unweighted_maximum(at: int) -> None:
    assert max_usage(with_pair(at, 5.0, 4.0)) == 1.25


def test_direct_memory_has_no_weight_by_default() -> None:
    assert load_ratio(with_pair(4, 3.0, 4.0), ResourceWeights()) == 0.0
    assert load_ratio(with_pair(4, 3.0, 4.0), ResourceWeights(direct_memory=1.0)) == 0.75
    assert load_ratio(with_pair(CPU, 3.0, 4.0), ResourceWeights()) == 0.75


@given(USAGE, WEIGHTS)
def test_the_two_weighted_forms_differ_by_heap_alone(
    usage: tuple[float, ...], weights: ResourceWeights
) -> None:
    legacy = load_ratio(usage, weights)
    heap = percent(usage[HEAP], usage[HEAP + 1]) * weights.memory / 100.0
    assert weighted_max(usage, weights) == max(legacy, heap)


@given(USAGE)
def test_the_unweighted_maximum_is_the_legacy_form_with_all_weights_one(
    usage: tuple[float, ...],
) -> None:
    assert max_usage(usage) == load_ratio(usage, ResourceWeights(1.0, 1.0, 1.0, 1.0, 1.0))
