"""The documented fixes (docs/parity.md), each with the condition under which it can matter.

A condition looks at the scenario and at Pulsar's answer alone. Where none of a class's conditions
holds, our decisions without `parity` must be Pulsar's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.golden_scenarios import ticks

Json = dict[str, Any]
Condition = Callable[[Json, list[Json], list[Json]], bool]
"""(scenario, complete ticks, golden ticks) -> the fix can matter."""
INT_MAX = 2**31 - 1


def total(of: Json, what: str) -> float:
    return float(of.get(f"{what}In", 0.0) + of.get(f"{what}Out", 0.0))


def _short(tick: Json, bundle: str, what: str) -> float:
    return total(tick["bundleData"].get(bundle, {}).get("shortTerm", {}), what)


def idle_bundle_moved(scenario: Json, given: list[Json], golden: list[Json]) -> bool:
    """Pulsar unloads a bundle without throughput (#22321, #23626)."""
    return _moves_idle(given, golden, ("msgThroughput",))


def silent_bundle_moved(scenario: Json, given: list[Json], golden: list[Json]) -> bool:
    """Pulsar unloads a bundle without throughput, or without messages (#22321, #23626)."""
    return _moves_idle(given, golden, ("msgThroughput", "msgRate"))


def _moves_idle(given: list[Json], golden: list[Json], figures: tuple[str, ...]) -> bool:
    return any(
        _short(tick, one["bundle"], figure) == 0.0
        for tick, answer in zip(given, golden, strict=True)
        for one in answer["decisions"]
        for figure in figures
    )


def lower_boundary(scenario: Json, given: list[Json], golden: list[Json]) -> bool:
    """Pulsar moves every history twice in a round that looks at the lower boundary."""
    return bool(scenario.get("conf", {}).get("lowerBoundarySheddingEnabled"))


def beyond_an_int(scenario: Json, given: list[Json], golden: list[Json]) -> bool:
    """Pulsar's minimum begins at 2^31 - 1, and amounts end there."""
    for tick in given:
        totals = [total(broker, "msgThroughput") for broker in tick["brokers"].values()]
        if totals and max(totals) > INT_MAX:
            return True
    return False


def mixed_capacities(scenario: Json, given: list[Json], golden: list[Json]) -> bool:
    """Pulsar pairs on usage but moves a share of the difference in raw traffic."""
    return any(
        len({(b.get("cpu") or {}).get("limit", 0) for b in tick["brokers"].values()}) > 1
        for tick in given
    )


def broker_gone(scenario: Json, given: list[Json], golden: list[Json]) -> bool:
    """Pulsar keeps the hit counts of a broker that has left."""
    known: set[str] = set()
    for tick in given:
        if known - set(tick["brokers"]):
            return True
        known |= set(tick["brokers"])
    return False


def value_as_key(scenario: Json, given: list[Json], golden: list[Json]) -> bool:
    """Pulsar remembers a destination by the value of the bundle's statistics (#26246)."""
    if "quirk-value-key" in scenario.get("tags", ()):
        return True
    data = [repr(one) for one in given[-1]["bundleData"].values()]
    return len(set(data)) < len(data)


def swap_without_gain(scenario: Json, given: list[Json], golden: list[Json]) -> bool:
    """Pulsar counts what a swap brings back only while it debugs."""
    if scenario.get("conf", {}).get("loadBalancerDebugModeEnabled"):
        return False
    return any(_has_swap(answer) for answer in golden)


def swap_unchecked(scenario: Json, given: list[Json], golden: list[Json]) -> bool:
    """Pulsar swaps back bundles that were just unloaded, excluded, or are owned elsewhere."""
    excluded = set(scenario.get("conf", {}).get("loadBalancerSheddingExcludedNamespaces", ()))
    for tick in given:
        barred = {*tick.get("recentlyUnloadedBundles", ()), *tick.get("owner", ())}
        tops = [one["bundle"] for top in tick.get("topBundles", {}).values() for one in top]
        if any(name in barred or name.rpartition("/")[0] in excluded for name in tops):
            return True
    return False


def _has_swap(answer: Json) -> bool:
    sources = {one["from"] for one in answer["decisions"]}
    return any(one["to"] in sources for one in answer["decisions"])


def frozen_alone(scenario: Json, given: list[Json], golden: list[Json]) -> bool:
    """Pulsar stops the round for one broker without data or cooling, or forgets the age."""
    ttl_s = scenario.get("conf", {}).get("loadBalancerBrokerLoadDataTTLInSeconds", 1_800)
    for tick in given:
        brokers = tick.get("brokers", {})
        if set(tick.get("available", brokers)) != set(brokers) or tick.get("registryFails"):
            return True
        if any(one.get("ageMs", 0) > ttl_s * 1_000 for one in brokers.values()):
            return True
        if set(tick.get("recentlyUnloadedBrokers", ())) & set(brokers):
            return True
    return False


def order_of_a_map(scenario: Json, given: list[Json], golden: list[Json]) -> bool:
    """Pulsar follows the order of a map where a cap binds; ours the size."""
    return bool(scenario.get("ordered"))


def several_boundaries(scenario: Json, given: list[Json], golden: list[Json]) -> bool:
    """Pulsar refuses a split that yields several boundaries (#22254)."""
    algorithm = scenario.get("conf", {}).get("defaultNamespaceBundleSplitAlgorithm")
    return algorithm == "flow_or_qps_equally_divide"


def beside_another_namespace(scenario: Json, given: list[Json], golden: list[Json]) -> bool:
    """In Pulsar a splitting bundle blocks namespaces that its own begins with."""
    for tick in given:
        mine = {name.rpartition("/")[0] for name in tick.get("bundleStats", {})}
        for name in tick.get("splitting", ()):
            namespace = name.rpartition("/")[0]
            if any(namespace.startswith(one) and namespace != one for one in mine):
                return True
    return False


def count_of_the_unsplittable(scenario: Json, given: list[Json], golden: list[Json]) -> bool:
    """Pulsar counts failures for small bundles too, and hits of bundles it does not own."""
    for tick in given:
        stats = tick.get("bundleStats", {})
        if set(tick.get("notOwned", ())) & set(stats):
            return True
        if set(name.rpartition("/")[0] for name in stats) - set(tick["namespaceBundleCount"]):
            return True
        for name, one in stats.items():
            lower, upper = name.rpartition("/")[2].split("_")
            if int(upper, 16) - int(lower, 16) <= 1 or one.get("topics", 0) < 2:
                return True
    return False


def wrong_cast(scenario: Json, given: list[Json], golden: list[Json]) -> bool:
    """Pulsar casts the options of the configured algorithm to those of the one asked for."""
    return "quirk-algorithm-cast" in scenario.get("tags", ())


FIXES: dict[str, tuple[Condition, ...]] = {
    "OverloadShedder": (idle_bundle_moved,),
    "ThresholdShedder": (idle_bundle_moved, lower_boundary),
    "UniformLoadShedder": (silent_bundle_moved, beyond_an_int),
    "AvgShedder": (mixed_capacities, broker_gone),
    "AvgShedderPlacement": (mixed_capacities, broker_gone, value_as_key),
    "TransferShedder": (swap_without_gain, swap_unchecked, frozen_alone),
    "BundleSplitAlgorithm": (wrong_cast,),
    "DefaultNamespaceBundleSplit": (
        order_of_a_map,
        several_boundaries,
        beside_another_namespace,
        count_of_the_unsplittable,
    ),
}


def explained_by(name: str, row: Json) -> list[str]:
    """Names of the fixes that can matter in a golden scenario."""
    given, golden = ticks(row["in"]), row["out"]["ticks"]
    found = [fix for fix in FIXES.get(name, ()) if fix(row["in"], given, golden)]
    return [fix.__name__ for fix in found]
