"""Every load-balance key of Pulsar's broker.conf, and where it lives in our configuration.

One table, two readers: `bundlectl config import` turns a broker.conf into ours by it, and
`bundlectl decide` runs a recorded scenario by it. Names, defaults and units are those of Pulsar
4.2's ServiceConfiguration; a target is a dotted name of our file. A key without a target has no
meaning here, and says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from controller.config.pulsar.classes import placement_of, shedder_of, split_of
from controller.config.pulsar.units import (
    as_is,
    in_points,
    mebibytes,
    minutes,
    namespaces,
    one_more,
    positive_or_off,
    seconds,
)

Convert = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class PulsarKey:
    """One key: its type and default in Pulsar, its targets here, and what to say about it."""

    default: Any
    targets: tuple[str, ...] = ()
    convert: Convert = as_is
    why: str = ""
    is_dynamic: bool = False


def _key(default: Any, *targets: str, convert: Convert = as_is, why: str = "") -> PulsarKey:
    return PulsarKey(default, targets, convert, why, is_dynamic=False)


def _dynamic(default: Any, *targets: str, convert: Convert = as_is, why: str = "") -> PulsarKey:
    return PulsarKey(default, targets, convert, why, is_dynamic=True)


_AVG, _UNIFORM, _SPLIT = "balance.avg", "balance.uniform", "balance.thresholds"
_OVERLOADED = (
    "balance.overload.overloaded_points",
    "balance.transfer.overloaded_points",
    "balance.message_rate.overloaded_points",
    "balance.filters.overloaded_points",
)
_HISTORY = (
    "balance.windows.broker_history_ratio",
    "balance.threshold.history_ratio",
    "balance.usage.history_ratio",
)

STRATEGIES: Mapping[str, PulsarKey] = {
    "loadManagerClassName": _dynamic(
        "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl",
        "balance.split",
        convert=split_of,
        why="the latest sample, for hit_count rounds, sees a hot bundle sooner than an average",
    ),
    "loadBalancerLoadSheddingStrategy": _dynamic(
        "org.apache.pulsar.broker.loadbalance.impl.ThresholdShedder",
        "balance.shed",
        convert=shedder_of,
        why="avg is the default of Pulsar 5.0, and sees an idle broker (#18215)",
    ),
    "loadBalancerLoadPlacementStrategy": _key(
        "org.apache.pulsar.broker.loadbalance.impl.LeastLongTermMessageRate",
        "balance.place",
        convert=placement_of,
        why="placing by usage does not send a bundle back to a loaded broker (#16274)",
    ),
    "loadBalancerSheddingEnabled": _dynamic(True, "balance.is_shed_enabled"),
    "loadBalancerAutoBundleSplitEnabled": _dynamic(True, f"{_SPLIT}.is_enabled"),
}

TIMES: Mapping[str, PulsarKey] = {
    "loadBalancerSheddingIntervalMinutes": _dynamic(
        1, "balance.rounds.interval_ms", convert=minutes
    ),
    "loadBalancerSheddingGracePeriodMinutes": _dynamic(
        30,
        "balance.actions.bundle_cooldown_ms",
        convert=minutes,
        why="five minutes, and no_return_ms keeps a bundle from going back for thirty",
    ),
    "loadBalanceSheddingDelayInSeconds": _dynamic(
        180, "balance.transfer.broker_delay_ms", convert=seconds
    ),
    "loadBalancerBrokerLoadDataTTLInSeconds": _dynamic(
        1800, "balance.transfer.load_ttl_ms", convert=seconds
    ),
    "loadBalancerInFlightServiceUnitStateWaitingTimeInMillis": _key(
        30_000, "balance.actions.in_flight_timeout_ms"
    ),
    "loadBalancerServiceUnitStateMonitorIntervalInSeconds": _key(
        60,
        "balance.rounds.upkeep_interval_ms",
        convert=seconds,
        why="orphans wait for an upkeep; five seconds cost nothing here",
    ),
    "loadBalancerServiceUnitStateTombstoneDelayTimeInSeconds": _key(
        3600, "balance.actions.tombstone_delay_ms", convert=seconds
    ),
    "loadBalancerServiceUnitStateMaxConcurrentOverrides": _dynamic(
        64, "balance.actions.overrides_per_round_max"
    ),
}

REPORTS: Mapping[str, PulsarKey] = {
    "loadBalancerReportUpdateThresholdPercentage": _dynamic(
        10,
        "agent.report_change_points",
        convert=in_points,
        why="0, every report is sent: windows here average once per report",
    ),
    "loadBalancerReportUpdateMinIntervalMillis": _dynamic(
        5_000,
        "agent.report_interval_ms",
        why="two seconds: a round sees fresher load for a few kilobytes more",
    ),
    "loadBalancerReportUpdateMaxIntervalMinutes": _dynamic(
        15,
        "agent.report_max_interval_ms",
        convert=minutes,
        why="one minute: load older than balance.liveness.report_ttl_ms is not acted on",
    ),
    "loadBalancerMaxNumberOfBundlesInBundleLoadReport": _dynamic(
        10,
        "balance.transfer.top_bundles_max",
        why="agents here report all their bundles; agent.report_bundles_max limits it",
    ),
    "loadBalancerCPUResourceWeight": _dynamic(1.0, "balance.weights.cpu"),
    "loadBalancerMemoryResourceWeight": _dynamic(0.0, "balance.weights.memory"),
    "loadBalancerDirectMemoryResourceWeight": _dynamic(0.0, "balance.weights.direct_memory"),
    "loadBalancerBandwidthInResourceWeight": _dynamic(1.0, "balance.weights.bandwidth_in"),
    "loadBalancerBandwidthOutResourceWeight": _dynamic(1.0, "balance.weights.bandwidth_out"),
    "loadBalancerHistoryResourcePercentage": _dynamic(0.9, *_HISTORY),
}

SHEDDING: Mapping[str, PulsarKey] = {
    "loadBalancerBrokerOverloadedThresholdPercentage": _dynamic(
        85, *_OVERLOADED, convert=in_points
    ),
    "loadBalancerBrokerThresholdShedderPercentage": _dynamic(
        10, "balance.threshold.margin_points", convert=in_points
    ),
    "lowerBoundarySheddingEnabled": _key(False, "balance.threshold.is_lower_boundary_enabled"),
    "loadBalancerBundleUnloadMinThroughputThreshold": _dynamic(
        10.0, "balance.threshold.min_unload_throughput", convert=mebibytes
    ),
    "loadBalancerMsgRateDifferenceShedderThreshold": _dynamic(
        50.0, f"{_UNIFORM}.rate_difference_percent", convert=float
    ),
    "loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold": _dynamic(
        4.0, f"{_UNIFORM}.throughput_multiplier", convert=float
    ),
    "maxUnloadPercentage": _dynamic(
        0.2,
        f"{_UNIFORM}.max_unload_ratio",
        f"{_AVG}.max_unload_ratio",
        convert=float,
        why="0.5 for avg, as in Pulsar 5.0: the pair meets in the middle",
    ),
    "minUnloadMessage": _dynamic(
        1_000, f"{_UNIFORM}.min_unload_rate", f"{_AVG}.min_unload_rate", convert=float
    ),
    "minUnloadMessageThroughput": _dynamic(
        1_048_576,
        f"{_UNIFORM}.min_unload_throughput",
        f"{_AVG}.min_unload_throughput",
        convert=float,
    ),
    "maxUnloadBundleNumPerShedding": _dynamic(-1, f"{_UNIFORM}.bundles_per_round_max"),
    "loadBalancerAvgShedderLowThreshold": _dynamic(
        15, f"{_AVG}.low_threshold_points", convert=in_points
    ),
    "loadBalancerAvgShedderHighThreshold": _dynamic(
        40, f"{_AVG}.high_threshold_points", convert=in_points
    ),
    "loadBalancerAvgShedderHitCountLowThreshold": _dynamic(8, f"{_AVG}.hit_count_low"),
    "loadBalancerAvgShedderHitCountHighThreshold": _dynamic(2, f"{_AVG}.hit_count_high"),
    "loadBalancerBrokerLoadTargetStd": _dynamic(
        0.25, "balance.transfer.target_std_ratio", convert=float
    ),
    "loadBalancerSheddingConditionHitCountThreshold": _dynamic(
        3, "balance.transfer.hit_count", convert=one_more
    ),
    "loadBalancerTransferEnabled": _dynamic(True, "balance.transfer.names_destination"),
    "loadBalancerMaxNumberOfBrokerSheddingPerCycle": _dynamic(
        3, "balance.transfer.brokers_per_round_max"
    ),
    "loadBalancerSheddingBundlesWithPoliciesEnabled": _dynamic(
        False, "balance.transfer.sheds_bundles_with_policies"
    ),
    "loadBalancerSheddingExcludedNamespaces": _key(
        [],
        "balance.actions.excluded_namespaces",
        convert=namespaces,
        why="pulsar/system is never moved by a round, in Pulsar by other means",
    ),
    "loadBalancerDebugModeEnabled": _dynamic(
        False,
        "balance.transfer.counts_gain",
        why="what a swap brings back always counts; only with balance.parity does this key matter",
    ),
}

PLACEMENT: Mapping[str, PulsarKey] = {
    "loadBalancerAverageResourceUsageDifferenceThresholdPercentage": _dynamic(
        10, "balance.usage.margin_points", convert=in_points
    ),
    "loadBalancerBrokerMaxTopics": _dynamic(
        50_000, "balance.filters.broker_topics_max", "balance.least_resource.broker_topics_max"
    ),
    "loadBalancerDistributeBundlesEvenlyEnabled": _dynamic(
        True,
        "balance.filters.is_spread_even",
        why="off as in Pulsar 5.0: an even number of bundles fights even load (#16059)",
    ),
    "failureDomainsEnabled": _dynamic(False, "balance.filters.uses_failure_domains"),
    "preferLaterVersions": _dynamic(False, "balance.filters.prefers_later_versions"),
}

SPLITTING: Mapping[str, PulsarKey] = {
    "loadBalancerNamespaceBundleMaxTopics": _dynamic(1_000, f"{_SPLIT}.topics_max"),
    "loadBalancerNamespaceBundleMaxSessions": _dynamic(
        1_000, f"{_SPLIT}.sessions_max", convert=positive_or_off
    ),
    "loadBalancerNamespaceBundleMaxMsgRate": _dynamic(30_000, f"{_SPLIT}.rate_max", convert=float),
    "loadBalancerNamespaceBundleMaxBandwidthMbytes": _dynamic(
        100, f"{_SPLIT}.throughput_max", convert=mebibytes
    ),
    "loadBalancerNamespaceMaximumBundles": _dynamic(128, f"{_SPLIT}.namespace_bundles_max"),
    "loadBalancerMaxNumberOfBundlesToSplitPerCycle": _dynamic(10, f"{_SPLIT}.splits_per_round_max"),
    "loadBalancerNamespaceBundleSplitConditionHitCountThreshold": _dynamic(
        3, f"{_SPLIT}.hit_count", convert=one_more
    ),
    "defaultNamespaceBundleSplitAlgorithm": _dynamic("range_equally_divide", f"{_SPLIT}.algorithm"),
    "flowOrQpsDifferenceThresholdPercentage": _dynamic(
        10, f"{_SPLIT}.flow_difference_points", convert=in_points
    ),
}

WITHOUT_MEANING: Mapping[str, PulsarKey] = {
    "loadBalancerEnabled": _key(
        True, why="it switches the brokers' own manager; here job.act says what is done"
    ),
    "loadBalancerHostUsageCheckIntervalMinutes": _dynamic(
        1, why="a broker measures its usage by itself, whenever its agent asks for a report"
    ),
    "loadBalancerOverrideBrokerNicSpeedGbps": _key(
        None, why="the limit of a resource comes with the broker's report"
    ),
    "loadBalancerOverrideBrokerNics": _key([], why="a broker measures its usage by itself"),
    "loadBalancerResourceQuotaUpdateIntervalMinutes": _key(
        15, why="averages live in the checkpoint and are never written to a metadata store"
    ),
    "loadBalancerAutoUnloadSplitBundlesEnabled": _dynamic(
        True, why="children stay where they are until a round moves them"
    ),
    "loadBalancerSplitIntervalMinutes": _key(
        1, why="splits are decided in the same rounds: balance.rounds.interval_ms"
    ),
    "supportedNamespaceBundleSplitAlgorithms": _dynamic(
        [
            "range_equally_divide",
            "topic_count_equally_divide",
            "specified_positions_divide",
            "flow_or_qps_equally_divide",
        ],
        why="all are there; balance.thresholds.algorithm names the one in use",
    ),
    "topicBundleAssignmentStrategy": _key(
        "org.apache.pulsar.common.naming.ConsistentHashingTopicBundleAssigner",
        why="the CRC-32 of the topic's name is the only assignment here",
    ),
    "defaultNumberOfNamespaceBundles": _dynamic(
        4, why="namespaces are made by Pulsar, not by this controller"
    ),
    "namespaceBundleUnloadingTimeoutMs": _dynamic(
        60_000,
        why="a close has no limit of its own; balance.actions.in_flight_timeout_ms repairs it",
    ),
    "loadBalancerMultiPhaseBundleUnload": _key(
        True, why="a transfer always tells the clients of the old owner who the new one is"
    ),
    "loadManagerServiceUnitStateTableViewClassName": _key(
        "org.apache.pulsar.broker.loadbalance.extensions.channel.ServiceUnitStateTableViewImpl",
        why="the transport keeps the channel: [transport] kind",
    ),
    "loadBalancerServiceUnitTableViewSyncer": _dynamic(
        "None", why="there is one channel, so there is nothing to keep in step"
    ),
    "lookupPropertyPrefix": _key("lookup.", why="lookups are the brokers' own"),
    "metadataStoreOperationTimeoutSeconds": _key(
        30, why="no metadata store is asked; transport.busy_wait_ms limits a write"
    ),
    "statsUpdateFrequencyInSecs": _key(60, why="statistics are the brokers' own"),
    "exposeBundlesMetricsInPrometheus": _dynamic(False, why="metrics of bundles are the brokers'"),
    "loadBalancerPlacementStrategy": _key(
        "leastLoadedServer", why="of SimpleLoadManager, which is not supported"
    ),
    "loadBalancerBrokerUnderloadedThresholdPercentage": _dynamic(
        50, why="of SimpleLoadManager, which is not supported"
    ),
    "loadBalancerBrokerComfortLoadLevelPercentage": _dynamic(
        65, why="of SimpleLoadManager, which is not supported"
    ),
    "loadManagerMigrationEnabled": _dynamic(
        False, why="redirects between manager classes are the brokers' own"
    ),
    "defaultNumberOfSystemNamespaceBundles": _key(
        64, why="namespaces are made by Pulsar, not by this controller"
    ),
}

ALIASES: Mapping[str, str] = {
    "loadBalancerBandwithInResourceWeight": "loadBalancerBandwidthInResourceWeight",
    "loadBalancerBandwithOutResourceWeight": "loadBalancerBandwidthOutResourceWeight",
}
"""Misspelt twins that Pulsar heeds where the proper key has its default."""

KEYS: Mapping[str, PulsarKey] = {
    **STRATEGIES,
    **TIMES,
    **REPORTS,
    **SHEDDING,
    **PLACEMENT,
    **SPLITTING,
    **WITHOUT_MEANING,
}
