"""Top-k against Pulsar's own TopKBundles (Pulsar 4.2.4) and against a sort in plain Python."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.load.namespaces import left_out
from controller.load.top import Floats, buckets, top_k
from controller.model.bundles import split_name
from tests.golden_scenarios import load, ticks

Json = dict[str, Any]
ROWS = load("TopKBundles")
EXCLUDED = "loadBalancerSheddingExcludedNamespaces"
WITH_POLICIES = "loadBalancerSheddingBundlesWithPoliciesEnabled"
FIGURES = ("msgRateIn", "msgRateOut", "msgThroughputIn", "msgThroughputOut")


def figures_of(stats: Json) -> list[float]:
    sessions = stats.get("consumerCount", 0) + stats.get("producerCount", 0)
    rates = [float(stats.get(name, 0.0)) for name in FIGURES]
    return [
        *rates,
        float(sessions),
        float(stats.get("topics", 0)),
        float(stats.get("cacheSize", 0)),
    ]


def table(rows: list[list[float]]) -> Floats:
    return np.array(rows, np.float64).reshape(-1, 7)


def selected(tick: Json, conf: Json, order: list[int]) -> list[str]:
    names = list(tick["bundleStats"])
    policies = tick.get("policyNamespaces", {})
    is_excluded = left_out(
        [split_name(name)[0] for name in names],
        conf.get(EXCLUDED, ()),
        [namespace for some in policies.values() for namespace in some],
        sheds_with_policies=conf.get(WITH_POLICIES, False),
    )
    stats = table([figures_of(tick["bundleStats"][name]) for name in names])
    picked = top_k(stats, tick["topk"], np.array(order, np.int64), is_excluded)
    return [names[at] for at in picked.tolist()]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["in"]["id"])
def test_selection_and_order_equal_those_of_pulsars_class(row: Json) -> None:
    conf = dict(row["in"]["conf"])
    for tick, golden in zip(ticks(row["in"]), row["out"]["ticks"], strict=True):
        conf.update(tick.get("conf", {}))
        ranks = list(range(len(tick["bundleStats"])))
        assert selected(tick, conf, ranks) == golden["top"]
        assert selected(tick, conf, ranks[::-1]) == golden["top"]  # no tie decides here


def test_the_scenarios_leave_something_out() -> None:
    assert len(ROWS) == 150
    shorter = [
        len(r["out"]["ticks"][0]["top"]) < len(ticks(r["in"])[0]["bundleStats"]) for r in ROWS
    ]
    assert sum(shorter) > 100


AMOUNT = st.one_of(
    st.sampled_from([0.0, 49_999.0, 50_000.0, 149_999.0, 150_000.0, 1e15, 49.0, 50.0, 150.0]),
    st.floats(0.0, 1e7),
)
COUNT = st.sampled_from([0.0, 249.0, 250.0, 499.0, 500.0, 999.0, 1e5 - 1, 1e5, 1e7])
ROW = st.tuples(AMOUNT, AMOUNT, AMOUNT, AMOUNT, COUNT, COUNT, COUNT).map(list)


def plain_key(row: list[float]) -> tuple[int, ...]:
    """The rule in whole numbers; the quotients are doubles, their rounding is exact."""
    rate_in, rate_out, bytes_in, bytes_out, sessions, topics, cache = row
    halves = (bytes_in / 1e5, bytes_out / 1e5, (rate_in + rate_out) / 100.0)
    rounded = [math.floor(Fraction(x) + Fraction(1, 2)) for x in halves]
    return (*rounded, int(sessions + topics) // 500, int(cache) // 100_000)


@given(st.data(), st.lists(ROW, max_size=12), st.integers(0, 14))
def test_equals_a_sort_in_plain_python(
    data: st.DataObject, rows: list[list[float]], k: int
) -> None:
    order = data.draw(st.permutations(range(len(rows))))
    out = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    candidates = [i for i, row in enumerate(rows) if row[2] + row[3] > 0.0 and not out[i]]
    ascending = sorted(candidates, key=lambda i: (*plain_key(rows[i]), order[i]))
    expected = ascending[len(ascending) - k :] if k < len(ascending) else ascending
    got = top_k(table(rows), k, np.array(order, np.int64), np.array(out, np.bool_))
    assert got.tolist() == expected


@given(st.data(), st.lists(ROW, min_size=1, max_size=10))
def test_the_order_of_the_rows_does_not_matter(
    data: st.DataObject, rows: list[list[float]]
) -> None:
    shuffled = data.draw(st.permutations(range(len(rows))))
    ranks = np.arange(len(rows))
    straight = top_k(table(rows), 4, ranks)
    mixed = top_k(table([rows[i] for i in shuffled]), 4, ranks[list(shuffled)])
    assert [shuffled[at] for at in mixed.tolist()] == straight.tolist()


def test_halves_are_rounded_up_and_what_is_just_below_is_not() -> None:
    almost = math.nextafter(0.5, 0.0) * 1e5
    assert almost / 1e5 == math.nextafter(0.5, 0.0)
    rows = table([[0, 0, 50_000, almost, 0, 0, 0], [49.9, 0.1, 0, 150_000, 0, 0, 0]])
    assert buckets(rows)[:, :3].tolist() == [[1.0, 0.0, 0.0], [0.0, 2.0, 1.0]]


def test_a_rate_without_throughput_does_not_qualify() -> None:
    assert top_k(table([[1e6, 1e6, 0, 0, 5, 5, 0]]), 3, np.array([0])).tolist() == []


def test_none_is_asked_for() -> None:
    assert top_k(table([[1, 1, 1, 1, 1, 1, 1]]), 0, np.array([0])).tolist() == []
    assert top_k(table([]), 3, np.array([], np.int64)).tolist() == []
    with pytest.raises(ValueError, match="-1"):
        top_k(table([]), -1, np.array([], np.int64))
