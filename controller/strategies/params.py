"""Parameters of the strategies: one frozen class each, Pulsar's names in the comments."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ResourceWeights:
    """Weights of the resources in the load ratio (loadBalancer…ResourceWeight); heap left out."""

    cpu: float = 1.0
    direct_memory: float = 0.0
    bandwidth_in: float = 1.0
    bandwidth_out: float = 1.0


@dataclass(frozen=True, slots=True)
class AvgParams:
    """AvgShedder (pulsar.md §3.5)."""

    low_threshold_points: float = 15.0  # loadBalancerAvgShedderLowThreshold
    high_threshold_points: float = 40.0  # loadBalancerAvgShedderHighThreshold
    hit_count_low: int = 8  # loadBalancerAvgShedderHitCountLowThreshold
    hit_count_high: int = 2  # loadBalancerAvgShedderHitCountHighThreshold
    max_unload_ratio: float = 0.5  # maxUnloadPercentage (5.0): the pair meets in the middle
    min_unload_rate: float = 1_000.0  # minUnloadMessage, msg/s
    min_unload_throughput: float = 1_048_576.0  # minUnloadMessageThroughput, byte/s


@dataclass(frozen=True, slots=True)
class LeastResourceParams:
    """LeastResourceUsageWithWeight (pulsar.md §4.3) with the topic cap of §4.1."""

    broker_topics_max: int = 50_000  # loadBalancerBrokerMaxTopics


@dataclass(frozen=True, slots=True)
class ThresholdSplitParams:
    """Split by thresholds (pulsar.md §5); all strictly greater."""

    is_enabled: bool = True  # loadBalancerAutoBundleSplitEnabled
    topics_max: int = 1_000  # loadBalancerNamespaceBundleMaxTopics
    sessions_max: int = 1_000  # loadBalancerNamespaceBundleMaxSessions; <= 0 switches it off
    rate_max: float = 30_000.0  # loadBalancerNamespaceBundleMaxMsgRate, in + out
    throughput_max: float = 100 * 1_048_576.0  # …MaxBandwidthMbytes, byte/s in + out
    hit_count: int = 4  # acts on the 4th round: Pulsar needs count > 3
    namespace_bundles_max: int = 128  # loadBalancerNamespaceMaximumBundles
    splits_per_round_max: int = 10  # loadBalancerMaxNumberOfBundlesToSplitPerCycle
    algorithm: str = "range_equally_divide"  # defaultNamespaceBundleSplitAlgorithm


@dataclass(frozen=True, slots=True)
class BiggestFirstParams:
    """The example strategy (controller/strategies/example.py)."""

    gap_points: float = 20.0  # the hottest broker acts when it is so far above the coldest
