"""What a load report lists: which bundles, and of which of them the topics too. Pure.

Rules: without a limit all bundles, in the broker's order; with one the largest as Pulsar's
reporters choose them (`controller.load.top`), smallest first, ties by name. Topics are listed of
bundles that are likely to be split: those with many topics or a high rate, the fastest first, as
long as all their topics fit into the report. Called by `controller.agent.signs`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from controller.agent.port import BrokerLoad, TopicLoad
from controller.agent.settings import RuntimeSettings
from controller.load.namespaces import left_out
from controller.load.publish import Reported
from controller.load.top import BYTES_IN, BYTES_OUT, RATE_IN, RATE_OUT, Floats, top_k
from controller.load.usage import max_usage
from controller.model.bundles import split_name
from controller.wire.reports import BundleStats, ResourceUsage

RATE_DIGITS, THROUGHPUT_DIGITS = 3, 0
"""Decimals of a topic's figures: they are many, and nobody decides by less."""


def figures_of(bundles: Mapping[str, BundleStats]) -> Floats:
    """[n, 7] figures of the bundles in their order, as `wire.reports.Report.bundle_stats`."""
    rows = [
        (
            stats.msgRateIn,
            stats.msgRateOut,
            stats.msgThroughputIn,
            stats.msgThroughputOut,
            stats.consumerCount + stats.producerCount,
            stats.topics,
            stats.cacheSize,
        )
        for stats in bundles.values()
    ]
    return np.array(rows, np.float64).reshape(-1, 7)


def reported_of(load: BrokerLoad, figures: Floats) -> Reported:
    """Of a load and the figures of its bundles, what the next report is compared with."""
    sums = figures.sum(axis=0).tolist()
    parts: tuple[ResourceUsage, ...] = (
        load.cpu,
        load.memory,
        load.direct_memory,
        load.bandwidth_in,
        load.bandwidth_out,
    )
    usage = max_usage(tuple(value for part in parts for value in (part.usage, part.limit)))
    return Reported(
        rate=sums[RATE_IN] + sums[RATE_OUT],
        throughput=sums[BYTES_IN] + sums[BYTES_OUT],
        bundles=len(figures),
        usage=usage,
    )


def listed(
    bundles: Mapping[str, BundleStats], figures: Floats, settings: RuntimeSettings
) -> list[str]:
    """Names of the bundles that a report lists, in its order."""
    names = list(bundles)
    if settings.report_bundles_max == 0:
        return names
    namespaces = [split_name(name)[0] for name in names]
    is_excluded = left_out(namespaces, settings.report_excluded_namespaces)
    ranks = np.empty(len(names), np.int64)
    ranks[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    largest = top_k(figures, settings.report_bundles_max, ranks, is_excluded)
    return [names[at] for at in largest.tolist()]


def with_topics(
    bundles: Mapping[str, BundleStats], names: list[str], settings: RuntimeSettings
) -> list[str]:
    """Of the listed bundles, those whose topics are to be listed too."""

    def rate(name: str) -> float:
        return bundles[name].msgRateIn + bundles[name].msgRateOut

    wanted = [
        name
        for name in names
        if bundles[name].topics > settings.topic_hashes_above
        or rate(name) > settings.topic_loads_above_rate
    ]
    room, chosen = settings.report_topics_max, []
    for name in sorted(wanted, key=lambda name: (-rate(name), name)):
        if bundles[name].topics <= room:
            room -= bundles[name].topics
            chosen.append(name)
    return chosen


def topic_members(topics: list[TopicLoad]) -> dict[str, list[int] | list[float]]:
    """Members of `BundleStats` for these topics; no loads where none is known."""
    members: dict[str, list[int] | list[float]] = {"topicHashes": [one.hash for one in topics]}
    if any(one.rate or one.throughput for one in topics):
        members["topicRates"] = [round(one.rate, RATE_DIGITS) for one in topics]
        throughputs = [round(one.throughput, THROUGHPUT_DIGITS) for one in topics]
        members["topicThroughputs"] = throughputs
    return members
