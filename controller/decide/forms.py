"""The forms of a scenario's ticks, one for each family of classes; unknown members are errors.

Rates are messages/s, throughputs bytes/s, times ms; of a usage only usage / limit counts, and a
limit that is 0 or missing makes it 0 %.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

Amount = Annotated[float, msgspec.Meta(ge=0)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Millis = Annotated[float, msgspec.Meta(ge=-1e15, le=1e15)]
Position = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class _Form(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Strict about names."""


class Usage(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, frozen=True):
    """Use and capacity of one resource."""

    usage: Amount = 0.0
    limit: float = 0.0


NO_USAGE = Usage()


class Average(_Form):
    """A windowed average of a bundle's traffic."""

    msgRateIn: Amount = 0.0
    msgRateOut: Amount = 0.0
    msgThroughputIn: Amount = 0.0
    msgThroughputOut: Amount = 0.0
    numSamples: Count | None = None
    maxSamples: Count | None = None


class Stats(_Form):
    """What one bundle carries now."""

    msgRateIn: Amount = 0.0
    msgRateOut: Amount = 0.0
    msgThroughputIn: Amount = 0.0
    msgThroughputOut: Amount = 0.0
    consumerCount: Count = 0
    producerCount: Count = 0
    topics: Count = 0
    cacheSize: Count = 0


class BundleData(_Form):
    """Averages of a bundle; the long-term ones are the short-term ones if absent."""

    shortTerm: Average = msgspec.field(default_factory=Average)
    longTerm: Average | None = None
    topics: Count = 1

    @property
    def long(self) -> Average:
        """Long-term averages."""
        return self.shortTerm if self.longTerm is None else self.longTerm


class TimeAverage(_Form):
    """Sums of a broker's bundles' averages."""

    shortTermMsgRateIn: Amount = 0.0
    shortTermMsgRateOut: Amount = 0.0
    shortTermMsgThroughputIn: Amount = 0.0
    shortTermMsgThroughputOut: Amount = 0.0
    longTermMsgRateIn: Amount = 0.0
    longTermMsgRateOut: Amount = 0.0
    longTermMsgThroughputIn: Amount = 0.0
    longTermMsgThroughputOut: Amount = 0.0


class UsedBroker(_Form):
    """Usages and totals of a broker."""

    cpu: Usage = NO_USAGE
    memory: Usage = NO_USAGE
    directMemory: Usage = NO_USAGE
    bandwidthIn: Usage = NO_USAGE
    bandwidthOut: Usage = NO_USAGE
    msgRateIn: Amount = 0.0
    msgRateOut: Amount = 0.0
    msgThroughputIn: Amount = 0.0
    msgThroughputOut: Amount = 0.0

    @property
    def usage(self) -> tuple[float, ...]:
        """The ten figures that `controller.load.usage` reads."""
        pairs = (self.cpu, self.memory, self.directMemory, self.bandwidthIn, self.bandwidthOut)
        return tuple(figure for one in pairs for figure in (one.usage, one.limit))


class ModularBroker(UsedBroker):
    """A broker as the modular manager's leader knows it."""

    bundles: list[str] = []
    timeAverage: TimeAverage = msgspec.field(default_factory=TimeAverage)
    preallocated: dict[str, BundleData] = {}
    stats: dict[str, Stats] = {}


class Select(_Form):
    """A request for an owner."""

    bundle: str
    candidates: list[str]


class _Tick(_Form):
    conf: dict[str, Any] | None = None


class ModularTick(_Tick, kw_only=True):
    """Shedders, placements and the splitter of the modular manager."""

    brokers: dict[str, ModularBroker] = {}
    bundleData: dict[str, BundleData] = {}
    recentlyUnloaded: list[str] | dict[str, float] = []
    activeBrokers: list[str] | None = None
    report: str = ""  # "selectOnly": no shedding; "counts": no decisions
    select: list[Select] = []
    candidates: list[str] = []
    namespaceBundleCount: dict[str, Count] = {}


class StoredBroker(UsedBroker):
    """A broker's record in the load data store; without EMAs they come from the usages."""

    weightedMaxEMA: Amount | None = None
    msgThroughputEMA: Amount | None = None
    ageMs: Millis = 0.0


class TopBundle(Stats, kw_only=True):
    """One of a broker's reported bundles."""

    bundle: str


class PolicyNamespaces(_Form):
    """Namespaces with an isolation policy or an anti-affinity group."""

    isolation: list[str] = []
    antiAffinity: list[str] = []


class TransferTick(_Tick, kw_only=True):
    """TransferShedder, and the extensible placement."""

    brokers: dict[str, StoredBroker] = {}
    candidates: list[str] = []
    available: list[str] | None = None
    registryFails: bool = False
    topBundles: dict[str, list[TopBundle]] = {}
    owner: dict[str, str] = {}
    recentlyUnloadedBundles: list[str] = []
    recentlyUnloadedBrokers: dict[str, Millis] = {}
    allowed: dict[str, list[str]] = {}
    policyNamespaces: PolicyNamespaces = msgspec.field(default_factory=PolicyNamespaces)


class TopicRates(_Form):
    """Traffic of one topic."""

    msgRateIn: Amount = 0.0
    msgRateOut: Amount = 0.0
    msgThroughputIn: Amount = 0.0
    msgThroughputOut: Amount = 0.0


class SplitTick(_Tick, kw_only=True):
    """DefaultNamespaceBundleSplit."""

    bundleStats: dict[str, Stats] = {}
    namespaceBundleCount: dict[str, Count] = {}
    self: str = "self"
    notOwned: list[str] = []
    splitting: list[str] = []
    topics: list[str] = []
    topicStats: dict[str, TopicRates] = {}


class AlgorithmTick(_Tick, kw_only=True):
    """BundleSplitAlgorithm."""

    algorithm: str
    bundle: str
    topics: list[str] = []
    topicStats: dict[str, TopicRates] = {}
    positions: list[Position] | None = None
    boundaries: list[str] | None = None
    defaultAlgorithm: str | None = None


class TopTick(_Tick, kw_only=True):
    """TopKBundles."""

    bundleStats: dict[str, Stats] = {}
    topk: Count | None = None
    policyNamespaces: PolicyNamespaces = msgspec.field(default_factory=PolicyNamespaces)


class ChannelRecord(_Form):
    """One record of the bundle-state channel."""

    state: Literal["Init", "Free", "Assigning", "Owned", "Releasing", "Splitting", "Deleted"]
    version: Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)] = 0
    dst: str | None = None
    src: str | None = None
    force: bool = False


class ConflictCase(_Form, rename={"before": "from", "after": "to"}):
    """The record that stands, and the one that came."""

    before: ChannelRecord | None = None
    after: ChannelRecord | None = None


class ConflictTick(_Tick, kw_only=True):
    """ServiceUnitStateConflict."""

    storage: Literal["SystemTopic", "MetadataStore"]
    cases: list[ConflictCase]


class LoadTick(_Tick, kw_only=True):
    """BrokerLoadData."""

    broker: UsedBroker = msgspec.field(default_factory=UsedBroker)
    clear: bool = False


class SampleTick(_Tick, kw_only=True):
    """BundleData."""

    sample: Stats
    initial: Average | None = None
    shortSamples: Annotated[int, msgspec.Meta(ge=1)] = 10
    longSamples: Annotated[int, msgspec.Meta(ge=1)] = 1_000


class HashTick(_Tick, kw_only=True):
    """BundleHash."""

    namespace: str
    numBundles: Annotated[int, msgspec.Meta(ge=1)] | None = None
    boundaries: list[str] | None = None
    topics: list[str] = []
