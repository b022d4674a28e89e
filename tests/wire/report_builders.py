"""Builders of load reports in all formats, as Python dicts."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def bundle_name(at: int) -> str:
    return f"tenant/ns/0x{at << 24:08x}_0x{(at + 1) << 24:08x}"


def stats(at: int = 1) -> Json:
    return {
        "msgRateIn": 10.5 * at,
        "msgThroughputIn": 1000.25 * at,
        "msgRateOut": 20.5 * at,
        "msgThroughputOut": 2000.25 * at,
        "consumerCount": 2,
        "producerCount": 3,
        "topics": 4,
        "cacheSize": 5,
    }


def usages() -> Json:
    names = ("cpu", "memory", "directMemory", "bandwidthIn", "bandwidthOut")
    return {name: {"usage": 10.0 + at, "limit": 100.0} for at, name in enumerate(names)}


def totals() -> Json:
    names = ("msgRateIn", "msgRateOut", "msgThroughputIn", "msgThroughputOut")
    return {name: 100.0 + at for at, name in enumerate(names)}


def local_broker_data(bundles: int = 2) -> Json:
    return {
        **usages(),
        **totals(),
        "lastUpdate": 1_700_000_000_000,
        "lastStats": {bundle_name(at): stats(at) for at in range(bundles)},
        "bundles": [*(bundle_name(at) for at in range(bundles)), bundle_name(99)],
        "brokerVersionString": "4.2.4",
        "loadReportType": "LocalBrokerData",
    }


def broker_load_data() -> Json:
    return {
        **usages(),
        **totals(),
        "bundleCount": 2,
        "topics": 3,
        "maxResourceUsage": 0.2,
        "weightedMaxEMA": 0.2,
        "msgThroughputEMA": 205.0,
        "updatedAt": 1_700_000_000_000,
        "reportedAt": 0,
    }


def top_bundles_load_data(bundles: int = 2) -> Json:
    entries = [{"bundleName": bundle_name(at), "stats": stats(at)} for at in range(bundles)]
    return {"topBundlesLoadData": entries}


def load_report(bundles: int = 2, full: bool = True) -> Json:
    return {
        "reportType": "LoadReport",
        "cluster": "c1",
        "broker": "b1",
        "sequence": 7,
        "timestamp": 1_700_000_000_000,
        "full": full,
        **usages(),
        "zone": "z1",
        "brokerVersion": "0.1.0",
        "bundles": {
            bundle_name(at): {**stats(at), "topicHashes": [5, 4_000_000_000]}
            for at in range(bundles)
        },
    }


def load_report_with_topics() -> Json:
    document = load_report()
    for stats_of_bundle in document["bundles"].values():
        stats_of_bundle |= {"topicRates": [1.5, 0.0], "topicThroughputs": [150.0, 0.0]}
    return document


def partial_report() -> Json:
    return {**load_report(full=False), **totals(), "topics": 12}


def heartbeat() -> Json:
    return {
        "reportType": "Heartbeat",
        "cluster": "c1",
        "broker": "b1",
        "sequence": 8,
        "timestamp": 1_700_000_000_001,
    }
