"""AvgShedder against the decisions of Pulsar's own class (Pulsar 4.2.4).

Decisions, their order and the hit counts must be equal, but for one fix: Pulsar keeps the counts
of a broker that is gone, ours drops them.
"""

from __future__ import annotations

from typing import Any

import pytest

from controller.load.usage import ResourceWeights, load_ratio
from controller.strategies.memory import Memory
from controller.strategies.params import AvgParams
from controller.strategies.shed.avg import AvgShed
from controller.strategies.view import ClusterView
from tests.golden_scenarios import load, ticks
from tests.views import B, make_view

Json = dict[str, Any]
PARAMS = {
    "loadBalancerAvgShedderLowThreshold": "low_threshold_points",
    "loadBalancerAvgShedderHighThreshold": "high_threshold_points",
    "loadBalancerAvgShedderHitCountLowThreshold": "hit_count_low",
    "loadBalancerAvgShedderHitCountHighThreshold": "hit_count_high",
    "maxUnloadPercentage": "max_unload_ratio",
    "minUnloadMessage": "min_unload_rate",
    "minUnloadMessageThroughput": "min_unload_throughput",
}
WEIGHTS = {
    "loadBalancerCPUResourceWeight": "cpu",
    "loadBalancerDirectMemoryResourceWeight": "direct_memory",
    "loadBalancerBandwidthInResourceWeight": "bandwidth_in",
    "loadBalancerBandwidthOutResourceWeight": "bandwidth_out",
}
RESOURCES = ("cpu", "memory", "directMemory", "bandwidthIn", "bandwidthOut")
ROWS = load("AvgShedder")


def total(of: Json, what: str) -> float:
    return float(of.get(f"{what}In", 0.0) + of.get(f"{what}Out", 0.0))


def points(broker: Json, weights: ResourceWeights) -> float:
    usage: list[float] = []
    for resource in RESOURCES:
        given = broker.get(resource) or {}
        usage += [float(given.get("usage", 0.0)), float(given.get("limit", 0.0))]
    return load_ratio(tuple(usage), weights) * 100.0


def view_of(tick: Json, weights: ResourceWeights) -> tuple[ClusterView, list[str]]:
    brokers, names, bundles = tick["brokers"], [], []
    for broker in sorted(brokers):
        for name in brokers[broker].get("bundles", []):
            if name not in tick["bundleData"]:
                continue
            short = tick["bundleData"][name].get("shortTerm", {})
            names.append(name)
            bundles.append(
                B(
                    broker,
                    rate=total(short, "msgRate"),
                    throughput=total(short, "msgThroughput"),
                    is_movable=name not in tick.get("recentlyUnloaded", []),
                )
            )
    view = make_view(
        {b: points(data, weights) for b, data in brokers.items()},
        bundles,
        rates={b: total(data, "msgRate") for b, data in brokers.items()},
        throughputs={b: total(data, "msgThroughput") for b, data in brokers.items()},
    )
    return view, names


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["in"]["id"])
def test_decisions_and_hit_counts_equal_those_of_pulsars_class(row: Json) -> None:
    conf: Json = dict(row["in"].get("conf", {}))
    memory: Memory = {}
    for tick, golden in zip(ticks(row["in"]), row["out"]["ticks"], strict=True):
        conf.update(tick.get("conf", {}))
        given = {PARAMS[k]: v for k, v in conf.items() if k in PARAMS}
        params = AvgParams(**{"max_unload_ratio": 0.2, **given})
        weights = ResourceWeights(**{WEIGHTS[k]: v for k, v in conf.items() if k in WEIGHTS})
        view, names = view_of(tick, weights)
        plan = AvgShed(params).shed(view, memory)
        memory = plan.memory
        decided: dict[str, list[tuple[str, str]]] = {}
        for t in plan.transfers:
            source, destination = view.broker_names[t.source], view.broker_names[t.destination]
            decided.setdefault(source, []).append((names[t.bundle], destination))
        expected: dict[str, list[tuple[str, str]]] = {}
        for d in sorted(golden["decisions"], key=lambda d: d["rank"]):
            expected.setdefault(d["from"], []).append((d["bundle"], d["to"]))

        assert decided == expected
        for kind, hits in (("low", golden["hitLow"]), ("high", golden["hitHigh"])):
            present = {b: n for b, n in hits.items() if b in tick["brokers"]}
            assert memory.get(kind, {}) == present
        memory = {"low": golden["hitLow"], "high": golden["hitHigh"]}  # gone brokers may return


def test_the_scenarios_decide_something() -> None:
    assert len(ROWS) == 150
    assert sum(any(t["decisions"] for t in row["out"]["ticks"]) for row in ROWS) > 100
