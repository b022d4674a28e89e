"""Averages of a broker against Pulsar's own BrokerLoadData (Pulsar 4.2.4)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.load.averages import BrokerAverages, smooth
from controller.load.usage import ResourceWeights
from tests.golden_scenarios import load, ticks

Json = dict[str, Any]
ROWS = load("BrokerLoadData")
RESOURCES = ("cpu", "memory", "directMemory", "bandwidthIn", "bandwidthOut")
WEIGHTS = {
    "loadBalancerCPUResourceWeight": "cpu",
    "loadBalancerMemoryResourceWeight": "memory",
    "loadBalancerDirectMemoryResourceWeight": "direct_memory",
    "loadBalancerBandwidthInResourceWeight": "bandwidth_in",
    "loadBalancerBandwidthOutResourceWeight": "bandwidth_out",
}
DIGITS = {"rel": 1e-11, "abs": 1e-12}  # the answers are written with twelve digits


def usage_of(broker: Json) -> tuple[float, ...]:
    pairs = [broker.get(resource, {}) for resource in RESOURCES]
    return tuple(float(pair.get(part, 0.0)) for pair in pairs for part in ("usage", "limit"))


def throughput_of(broker: Json) -> float:
    return float(broker.get("msgThroughputIn", 0.0)) + float(broker.get("msgThroughputOut", 0.0))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["in"]["id"])
def test_averages_equal_those_of_pulsars_class(row: Json) -> None:
    conf = dict(row["in"]["conf"])
    averages = BrokerAverages()
    for tick, golden in zip(ticks(row["in"]), row["out"]["ticks"], strict=True):
        conf.update(tick.get("conf", {}))
        history_ratio = conf.get("loadBalancerHistoryResourcePercentage", 0.9)
        weights = ResourceWeights(**{WEIGHTS[k]: v for k, v in conf.items() if k in WEIGHTS})
        if tick.get("clear"):
            averages = averages.cleared()
        else:
            broker = tick["broker"]
            averages = averages.updated(
                usage_of(broker), throughput_of(broker), weights, history_ratio
            )
        assert averages.is_empty == bool(tick.get("clear"))
        assert averages.max_usage == pytest.approx(golden["maxResourceUsage"], **DIGITS)
        assert averages.weighted_max_ema == pytest.approx(golden["weightedMaxEMA"], **DIGITS)
        assert averages.throughput_ema == pytest.approx(golden["msgThroughputEMA"], **DIGITS)


def test_the_scenarios_smooth_and_clear() -> None:
    assert len(ROWS) == 150
    assert sum(bool(t.get("clear")) for row in ROWS for t in ticks(row["in"])) > 20
    assert sum(len(row["out"]["ticks"]) for row in ROWS) == 976


def test_an_empty_record_looks_full() -> None:
    assert BrokerAverages() == BrokerAverages(1.0, 1.0, 0.0, True)


@given(
    st.lists(st.floats(0.0, 1e9), min_size=1, max_size=30),
    st.floats(0.0, 1.0),
)
def test_an_average_is_the_first_sample_and_then_the_weighted_sum(
    samples: list[float], history_ratio: float
) -> None:
    value = 0.0
    for seen, sample in enumerate(samples):
        value = smooth(value, sample, seen, history_ratio)
    weights = [(1.0 - history_ratio) * history_ratio**age for age in range(len(samples) - 1)]
    weights.append(history_ratio ** (len(samples) - 1))
    expected = sum(w * s for w, s in zip(weights, reversed(samples), strict=True))
    assert value == pytest.approx(expected, rel=1e-9, abs=1e-6)
    assert min(samples) * (1.0 - 1e-9) <= value <= max(samples) * (1.0 + 1e-9)
