"""Made-up clusters for the benchmarks: names, an owned state, load reports."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np

from controller.core.inputs import RawRecord
from controller.core.settings import RoundSettings, Settings
from controller.core.state import ClusterState, new_state
from controller.core.step import step
from controller.wire.channel import ServiceUnitState, ServiceUnitStateData, encode_channel
from controller.wire.reports import BundleStats, LoadReport, ResourceUsage, encode_load_report

START_MS = 1_700_000_000_000
CLUSTER = "bench"
SETTINGS = replace(
    Settings(channel_topic=f"bundle-state-{CLUSTER}"),
    rounds=RoundSettings(interval_ms=1_000, upkeep_interval_ms=1_000, settle_ms=0, warmup_ms=0),
)
BUNDLES_PER_NAMESPACE = 128  # Pulsar's default cap


def bundle_names(count: int) -> list[str]:
    """Names over as many namespaces as the cap asks for."""
    edges = [k << 25 for k in range(BUNDLES_PER_NAMESPACE)] + [0xFFFFFFFF]
    ranges = [f"0x{a:08x}_0x{b:08x}" for a, b in itertools.pairwise(edges)]
    return [
        f"tenant/ns-{i // BUNDLES_PER_NAMESPACE:05d}/{ranges[i % BUNDLES_PER_NAMESPACE]}"
        for i in range(count)
    ]


def broker_name(number: int) -> str:
    """Name of the n-th broker."""
    return f"broker-{number:04d}"


def ownership(brokers: int, names: list[str]) -> list[tuple[str, bytes]]:
    """Channel records (key, value) that give every bundle an owner, round robin."""
    return [
        (
            name,
            encode_channel(
                ServiceUnitStateData(
                    state=ServiceUnitState.Owned,
                    dstBroker=broker_name(i % brokers),
                    timestamp=START_MS,
                    versionId=1,
                )
            ),
        )
        for i, name in enumerate(names)
    ]


def owned_state(brokers: int, names: list[str]) -> ClusterState:
    """The state of a cluster in which every bundle is owned."""
    records = [
        RawRecord(START_MS, SETTINGS.channel_topic, 0, i, key, value)
        for i, (key, value) in enumerate(ownership(brokers, names))
    ]
    return step(new_state(CLUSTER, SETTINGS), records, START_MS, SETTINGS).state


def report(broker: int, own: list[str], at: int, rng: np.random.Generator) -> bytes:
    """One full load report with random figures; `at` is its sequence."""
    rates = rng.lognormal(5.0, 1.5, size=(len(own), 4)).tolist()
    usage = ResourceUsage(float(rng.uniform(20, 90)), 100.0)
    return encode_load_report(
        LoadReport(
            cluster=CLUSTER,
            broker=broker_name(broker),
            sequence=at,
            timestamp=START_MS + at * 1_000,
            full=True,
            cpu=usage,
            memory=usage,
            directMemory=usage,
            bandwidthIn=usage,
            bandwidthOut=usage,
            bundles={
                name: BundleStats(
                    msgRateIn=r[0],
                    msgRateOut=r[1],
                    msgThroughputIn=r[2] * 1_000,
                    msgThroughputOut=r[3] * 1_000,
                    topics=17,
                    producerCount=5,
                    consumerCount=9,
                )
                for name, r in zip(own, rates, strict=True)
            },
        )
    )


def reports(brokers: int, names: list[str], at: int, rng: np.random.Generator) -> list[RawRecord]:
    """One full report of every broker, spread over most of a second."""
    return [
        RawRecord(
            START_MS + at * 1_000 + b * 900 // brokers,
            SETTINGS.reports_topic,
            0,
            at * brokers + b,
            f"{CLUSTER}/{broker_name(b)}",
            report(b, names[b::brokers], at, rng),
        )
        for b in range(brokers)
    ]
