"""Loads of single topics: kept from the owner's reports, and used where a split asks."""

from __future__ import annotations

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from controller.core.settings import LogSettings
from controller.core.state import decode_state, encode_state
from controller.core.state.topics import count_of, packed, unpacked
from controller.strategies.params import ThresholdSplitParams
from controller.wire.reports import BundleStats, LoadReport, ResourceUsage, encode_load_report
from controller.wire.topics import TopicLoads
from tests.world import CLUSTER, SETTINGS, World, serving, world

USAGE = ResourceUsage(10.0, 100.0)
FLOW = {
    "thresholds": ThresholdSplitParams(
        rate_max=1_000.0, hit_count=1, algorithm="flow_or_qps_equally_divide"
    )
}


def report(w: World, broker: str, bundle: str, sequence: int, **topics: list[float] | None) -> None:
    """A full report of one bundle only, with what is given of its topics."""
    stats = BundleStats(
        msgRateIn=3_000.0, msgThroughputIn=1.0, msgRateOut=0.0, msgThroughputOut=0.0, topics=3
    )
    value = encode_load_report(
        LoadReport(
            cluster=CLUSTER,
            broker=broker,
            sequence=sequence,
            timestamp=1,
            full=True,
            cpu=USAGE,
            memory=USAGE,
            directMemory=USAGE,
            bandwidthIn=USAGE,
            bandwidthOut=USAGE,
            bundles={bundle: msgspec.structs.replace(stats, **topics)},
        )
    )
    w.append("load-reports", f"{CLUSTER}/{broker}", value)
    assert w.results[-1].rejects == ()


def owned_bundle(w: World) -> tuple[str, str]:
    return min((bundle, broker) for bundle, broker in w.owners.items())


def test_a_bundle_is_cut_so_often_that_every_part_is_below_the_limit() -> None:
    w = serving(world(brokers=2, bundles=2, **FLOW))
    bundle, owner = owned_bundle(w)
    low = int(bundle.rpartition("/")[2].split("_")[0], 16)
    hashes = [low + 10, low + 20, low + 30]
    rates = {"topicRates": [900.0, 900.0, 900.0], "topicThroughputs": [1.0, 1.0, 1.0]}
    w.run(6_000)
    report(w, owner, bundle, 10**15, topicHashes=hashes, **rates)  # type: ignore[arg-type]
    assert count_of(w.state.memory.topics[bundle]) == 3
    w.run(2_000)

    [split] = [d for d in w.decisions if d["kind"] == "split" and d["bundle"] == bundle]
    assert len(split["children"]) == 3


def test_what_is_kept_is_the_last_report_of_the_owner_and_goes_with_it() -> None:
    w = serving(world(brokers=2, bundles=2))
    bundle, owner = owned_bundle(w)
    loads = {"topicHashes": [1], "topicRates": [5.0], "topicThroughputs": [7.0]}
    report(w, owner, bundle, 10**15, **loads)  # type: ignore[arg-type]
    assert bundle in w.state.memory.topics
    other = next(name for name in ("b0", "b1") if name != owner)
    report(w, other, bundle, 10**15)
    assert bundle in w.state.memory.topics
    report(w, owner, bundle, 10**15 + 1)
    assert w.state.memory.topics == {}


def test_what_exceeds_the_bound_is_counted_and_not_kept() -> None:
    w = serving(world(brokers=2, bundles=2, log=LogSettings(topic_loads_max=2)))
    bundle, owner = owned_bundle(w)
    loads = {"topicHashes": [1, 2, 3], "topicRates": [1.0] * 3, "topicThroughputs": [1.0] * 3}
    report(w, owner, bundle, 10**15, **loads)  # type: ignore[arg-type]
    assert w.state.memory.topics == {}
    assert w.state.memory.counters["topic_loads_refused"] == 1


def test_topics_are_part_of_the_blob() -> None:
    w = serving(world(brokers=2, bundles=2))
    bundle, owner = owned_bundle(w)
    loads = {"topicHashes": [9, 1], "topicRates": [5.0, 6.0], "topicThroughputs": [7.0, 8.0]}
    report(w, owner, bundle, 10**15, **loads)  # type: ignore[arg-type]
    again = decode_state(encode_state(w.state), SETTINGS)
    assert again.memory.topics == w.state.memory.topics
    assert unpacked(again.memory.topics[bundle]).hashes.tolist() == [1, 9]
    assert unpacked(again.memory.topics[bundle]).rates.tolist() == [6.0, 5.0]


@given(st.lists(st.tuples(st.integers(0, 2**32 - 1), st.floats(0, 1e6, width=32)), max_size=20))
def test_packing_loses_nothing_but_the_order(topics: list[tuple[int, float]]) -> None:
    hashes = np.array([h for h, _ in topics], np.int64)
    rates = np.array([r for _, r in topics], np.float64)
    found = unpacked(packed(TopicLoads(hashes, rates, rates * 0.5)))
    pairs = list(zip(found.hashes.tolist(), found.rates.tolist(), strict=True))
    assert sorted(pairs) == sorted(topics)
    assert [h for h, _ in pairs] == sorted(h for h, _ in topics)
