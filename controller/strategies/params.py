"""Parameters of the strategies: one frozen class each, Pulsar's names in the comments.

Where Pulsar has one key that several strategies read, each strategy has its own here, so that a
change for one of them does not move the others; `bundlectl config import` sets them all.
Defaults are Pulsar's 4.2 unless a comment says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1_048_576.0


@dataclass(frozen=True, slots=True)
class AvgParams:
    """AvgShedder (pulsar.md §3.5)."""

    low_threshold_points: float = 15.0  # loadBalancerAvgShedderLowThreshold
    high_threshold_points: float = 40.0  # loadBalancerAvgShedderHighThreshold
    hit_count_low: int = 8  # loadBalancerAvgShedderHitCountLowThreshold
    hit_count_high: int = 2  # loadBalancerAvgShedderHitCountHighThreshold
    max_unload_ratio: float = 0.5  # maxUnloadPercentage (5.0): the pair meets in the middle
    min_unload_rate: float = 1_000.0  # minUnloadMessage, msg/s
    min_unload_throughput: float = MIB  # minUnloadMessageThroughput, byte/s


@dataclass(frozen=True, slots=True)
class OverloadParams:
    """OverloadShedder (pulsar.md §3.2)."""

    overloaded_points: float = 85.0  # loadBalancerBrokerOverloadedThresholdPercentage


@dataclass(frozen=True, slots=True)
class ThresholdParams:
    """ThresholdShedder (pulsar.md §3.3)."""

    margin_points: float = 10.0  # loadBalancerBrokerThresholdShedderPercentage
    history_ratio: float = 0.9  # loadBalancerHistoryResourcePercentage
    min_unload_throughput: float = 10 * MIB  # loadBalancerBundleUnloadMinThroughputThreshold
    is_lower_boundary_enabled: bool = False  # lowerBoundarySheddingEnabled


@dataclass(frozen=True, slots=True)
class UniformParams:
    """UniformLoadShedder (pulsar.md §3.4)."""

    rate_difference_percent: float = 50.0  # loadBalancerMsgRateDifferenceShedderThreshold
    throughput_multiplier: float = 4.0  # loadBalancerMsgThroughputMultiplierDifference…Threshold
    max_unload_ratio: float = 0.2  # maxUnloadPercentage
    min_unload_rate: float = 1_000.0  # minUnloadMessage, msg/s
    min_unload_throughput: float = MIB  # minUnloadMessageThroughput, byte/s
    bundles_per_round_max: int = -1  # maxUnloadBundleNumPerShedding; -1 = no limit


@dataclass(frozen=True, slots=True)
class TransferParams:
    """TransferShedder (pulsar.md §3.7)."""

    target_std_ratio: float = 0.25  # loadBalancerBrokerLoadTargetStd
    overloaded_points: float = 85.0  # loadBalancerBrokerOverloadedThresholdPercentage
    hit_count: int = 4  # acts on the 4th round: loadBalancerSheddingConditionHitCountThreshold is 3
    brokers_per_round_max: int = 3  # loadBalancerMaxNumberOfBrokerSheddingPerCycle
    names_destination: bool = True  # loadBalancerTransferEnabled; False = unload
    broker_delay_ms: int = 180_000  # loadBalanceSheddingDelayInSeconds
    load_ttl_ms: int = 1_800_000  # loadBalancerBrokerLoadDataTTLInSeconds
    top_bundles_max: int = 10  # loadBalancerMaxNumberOfBundlesInBundleLoadReport
    # loadBalancerSheddingBundlesWithPoliciesEnabled
    sheds_bundles_with_policies: bool = False
    counts_gain: bool = True  # only parity heeds it: loadBalancerDebugModeEnabled, Pulsar's False


@dataclass(frozen=True, slots=True)
class LeastResourceParams:
    """Our deterministic form of LeastResourceUsageWithWeight."""

    broker_topics_max: int = 50_000  # loadBalancerBrokerMaxTopics


@dataclass(frozen=True, slots=True)
class MessageRateParams:
    """LeastLongTermMessageRate (pulsar.md §4.3)."""

    overloaded_points: float = 85.0  # loadBalancerBrokerOverloadedThresholdPercentage


@dataclass(frozen=True, slots=True)
class UsageParams:
    """LeastResourceUsageWithWeight, modular and extensible (pulsar.md §4.3)."""

    # loadBalancerAverageResourceUsageDifferenceThresholdPercentage
    margin_points: float = 10.0
    history_ratio: float = 0.9  # loadBalancerHistoryResourcePercentage; the modular form only


@dataclass(frozen=True, slots=True)
class ThresholdSplitParams:
    """Split by thresholds (pulsar.md §5); all strictly greater."""

    is_enabled: bool = True  # loadBalancerAutoBundleSplitEnabled
    topics_max: int = 1_000  # loadBalancerNamespaceBundleMaxTopics
    sessions_max: int = 1_000  # loadBalancerNamespaceBundleMaxSessions; <= 0 switches it off
    rate_max: float = 30_000.0  # loadBalancerNamespaceBundleMaxMsgRate, in + out
    throughput_max: float = 100 * MIB  # …MaxBandwidthMbytes, byte/s in + out
    hit_count: int = 4  # acts on the 4th round: Pulsar needs count > 3
    namespace_bundles_max: int = 128  # loadBalancerNamespaceMaximumBundles
    splits_per_round_max: int = 10  # loadBalancerMaxNumberOfBundlesToSplitPerCycle
    algorithm: str = "range_equally_divide"  # defaultNamespaceBundleSplitAlgorithm
    flow_difference_points: float = 10.0  # flowOrQpsDifferenceThresholdPercentage


@dataclass(frozen=True, slots=True)
class BiggestFirstParams:
    """The example strategy (controller/strategies/shed/example.py)."""

    gap_points: float = 20.0  # the hottest broker acts when it is so far above the coldest


@dataclass(frozen=True, slots=True)
class FilterParams:
    """The rules that leave brokers out before a placement chooses (pulsar.md §4.1, §4.2)."""

    broker_topics_max: int = 50_000  # loadBalancerBrokerMaxTopics
    # loadBalancerDistributeBundlesEvenlyEnabled; Pulsar 4: True. It fights load (#16059), 5.0: off
    is_spread_even: bool = False
    uses_failure_domains: bool = False  # failureDomainsEnabled
    prefers_later_versions: bool = False  # preferLaterVersions
    # loadBalancerBrokerOverloadedThresholdPercentage: a choice above it is made anew, see pipeline
    overloaded_points: float = 85.0
