"""Settings of the core: frozen, complete, free of I/O.

`controller.config` maps TOML onto these; strategies and `step` read one frozen tree per call.
Every field has its unit in its name and its reason beside it; the operator's text is in
`conf/embedded.toml`. Durations are milliseconds, percentages are points (15 = 15 %), rates
messages per second, throughputs bytes per second.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from controller.load.usage import ResourceWeights
from controller.strategies.params import (
    AvgParams,
    BiggestFirstParams,
    FilterParams,
    LeastResourceParams,
    MessageRateParams,
    OverloadParams,
    ThresholdParams,
    ThresholdSplitParams,
    TransferParams,
    UniformParams,
    UsageParams,
)
from controller.wire.limits import WireLimits


@dataclass(frozen=True, slots=True)
class RoundSettings:
    """When rounds happen and when they may act."""

    interval_ms: int = 60_000  # Pulsar sheds once a minute (loadBalancerSheddingIntervalMinutes)
    upkeep_interval_ms: int = 5_000  # orphans and waiting requests; divides interval_ms
    settle_ms: int = 450  # patience for records of slower partitions before a due round runs;
    # ticks and triggers both fall on multiples of 250 ms, so this just catches the next trigger
    warmup_ms: int = 10_000  # a new memory only watches for this long, then it acts
    catchup_ticks_max: int = 1_000  # ticks made up for after a silence of the whole log


@dataclass(frozen=True, slots=True)
class WindowSettings:
    """How samples are averaged (pulsar.md §2.2)."""

    short_samples: int = 10  # Pulsar's NUM_SHORT_SAMPLES
    long_samples: int = 1_000  # Pulsar's NUM_LONG_SAMPLES
    broker_history_ratio: float = 0.9  # weight of history in the broker's EMA
    precision: str = "float32"  # "float64" doubles the state; needed only for exact parity


@dataclass(frozen=True, slots=True)
class LivenessSettings:
    """When a broker counts as silent, and when as gone."""

    report_ttl_ms: int = 180_000  # older load is not acted on: the broker is frozen
    late_after_ms: int = 10_000  # silent for so long: late; too many late ones are safe mode
    takeover_after_ms: int = 20_000  # no sign of life for so long: its bundles are orphans
    safe_mode_share: float = 0.5  # more late brokers than this: suspect the pipeline, not them
    forget_after_ms: int = 3_600_000  # gone brokers and bundles that nobody owns leave the memory


@dataclass(frozen=True, slots=True)
class ActionSettings:
    """What a round may do at most, and how long things are left alone after it."""

    moves_per_round_max: int = 64  # bounds the work that one round gives to the brokers
    in_flight_max: int = 64  # in flight in total; also brakes a controller that catches up
    in_flight_per_broker_max: int = 16  # one broker closes and opens only so many at once
    overrides_per_round_max: int = 64  # loadBalancerServiceUnitStateMaxConcurrentOverrides
    in_flight_timeout_ms: int = 30_000  # loadBalancerInFlightServiceUnitStateWaitingTimeInMillis
    tombstone_delay_ms: int = 3_600_000  # loadBalancerServiceUnitStateTombstoneDelayTimeInSeconds
    pending_timeout_ms: int = 600_000  # a write that never came back is forgotten after this
    decision_ttl_ms: int = 15_000  # the sink refuses what is older (catch-up after downtime)
    bundle_cooldown_ms: int = 300_000  # a bundle is not moved again within this time
    no_return_ms: int = 1_800_000  # it does not go back to the broker it left within this time
    no_return_change_ratio: float = 0.5  # ... unless its load changed by more than this share
    broker_cooldown_ms: int = 0  # a broker just involved in a move is left alone for this time
    excluded_namespaces: tuple[str, ...] = ("pulsar/system",)  # never shed or split


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Bounds of what the core remembers and writes."""

    verdicts_top: int = 10  # refusals written in full per round; the others only as counts
    requests_max: int = 100_000  # assignment requests waiting for a broker
    bundles_max: int = 500_000  # bundles of one cluster; beyond it reports are rejected
    brokers_max: int = 10_000  # brokers of one cluster
    drains_max: int = 1_000  # brokers that operators drain at once
    topic_loads_max: int = 200_000  # single topics whose load is kept for splits, 12 bytes each
    pins_max: int = 10_000  # bundles that operators keep on one broker


@dataclass(frozen=True, slots=True)
class Settings:
    """All that `step` may depend on besides its state and inputs."""

    rounds: RoundSettings = field(default_factory=RoundSettings)
    windows: WindowSettings = field(default_factory=WindowSettings)
    liveness: LivenessSettings = field(default_factory=LivenessSettings)
    actions: ActionSettings = field(default_factory=ActionSettings)
    log: LogSettings = field(default_factory=LogSettings)
    limits: WireLimits = field(default_factory=WireLimits)
    weights: ResourceWeights = field(default_factory=ResourceWeights)
    shed: str = "avg"
    place: str = "least_resource"
    split: str = "thresholds"
    is_shed_enabled: bool = True  # loadBalancerSheddingEnabled
    parity: bool = False  # decide as Pulsar 4.2 does, its known defects included
    avg: AvgParams = field(default_factory=AvgParams)
    overload: OverloadParams = field(default_factory=OverloadParams)
    threshold: ThresholdParams = field(default_factory=ThresholdParams)
    uniform: UniformParams = field(default_factory=UniformParams)
    transfer: TransferParams = field(default_factory=TransferParams)
    biggest_first: BiggestFirstParams = field(default_factory=BiggestFirstParams)
    least_resource: LeastResourceParams = field(default_factory=LeastResourceParams)
    message_rate: MessageRateParams = field(default_factory=MessageRateParams)
    usage: UsageParams = field(default_factory=UsageParams)
    filters: FilterParams = field(default_factory=FilterParams)
    thresholds: ThresholdSplitParams = field(default_factory=ThresholdSplitParams)
    reports_topic: str = "load-reports"
    commands_topic: str = "controller-commands"
    channel_topic: str = "bundle-state"  # of this cluster
    is_paced_by_ticks: bool = False  # of the log: its partitions may be read unevenly
