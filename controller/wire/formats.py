"""Structs of the load-report formats: Pulsar's two, with Pulsar's names, and ours.

Unknown members are ignored, required ones must be there, types are strict. Ranges of numbers are
checked later, all at once, in `controller.wire.reports`, which re-exports these names.

Units: rates msg/s, throughput byte/s; cpu in percentage points (100 per core), memory MB,
bandwidth Kbit/s (only usage/limit counts); times ms since 1970.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

Natural = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
TopicHash = Annotated[int, msgspec.Meta(ge=0, le=0xFFFFFFFF)]


class ResourceUsage(msgspec.Struct, frozen=True, gc=False):
    """Use and capacity of one resource, in the same unit."""

    usage: float
    limit: float


class NamespaceBundleStats(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What one bundle carries."""

    msgRateIn: float
    msgThroughputIn: float
    msgRateOut: float
    msgThroughputOut: float
    consumerCount: int = 0
    producerCount: int = 0
    topics: int
    cacheSize: int = 0


class BundleStats(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`NamespaceBundleStats` plus the CRC-32 hashes of the bundle's topics, where known.

    `topicRates` (msg/s) and `topicThroughputs` (byte/s), in + out, stand in the order of
    `topicHashes`; both are given or neither. 0.0 where a topic's load is not known.
    """

    msgRateIn: float
    msgThroughputIn: float
    msgRateOut: float
    msgThroughputOut: float
    consumerCount: int = 0
    producerCount: int = 0
    topics: int
    cacheSize: int = 0
    topicHashes: list[TopicHash] | None = None
    topicRates: list[float] | None = None
    topicThroughputs: list[float] | None = None


class LocalBrokerData(msgspec.Struct, frozen=True, kw_only=True):
    """Pulsar's report of the modular load manager; members that nobody reads are left out."""

    cpu: ResourceUsage
    memory: ResourceUsage
    directMemory: ResourceUsage
    bandwidthIn: ResourceUsage
    bandwidthOut: ResourceUsage
    msgRateIn: float
    msgRateOut: float
    msgThroughputIn: float
    msgThroughputOut: float
    lastUpdate: Natural
    lastStats: dict[str, NamespaceBundleStats]
    brokerVersionString: str | None = None
    persistentTopicsEnabled: bool = True
    nonPersistentTopicsEnabled: bool = True


class BrokerLoadData(msgspec.Struct, frozen=True, kw_only=True):
    """Pulsar's report of the extensible load manager: usage only; its averages are not used."""

    cpu: ResourceUsage
    memory: ResourceUsage
    directMemory: ResourceUsage
    bandwidthIn: ResourceUsage
    bandwidthOut: ResourceUsage
    msgRateIn: float
    msgRateOut: float
    msgThroughputIn: float
    msgThroughputOut: float
    updatedAt: Natural


class TopBundle(msgspec.Struct, frozen=True):
    """One entry of `TopBundlesLoadData`."""

    bundleName: str
    stats: NamespaceBundleStats


class TopBundlesLoadData(msgspec.Struct, frozen=True):
    """Pulsar's top-k bundles of a broker, smallest first."""

    topBundlesLoadData: list[TopBundle]


# up; leaving: wants to be rid of its bundles, then stops; gone: has stopped serving everything.
BrokerStatus = Literal["up", "leaving", "gone"]
# How the agent finds the transport: jittery = reads or writes of it failed of late.
TransportHealth = Literal["stable", "jittery"]


class LoadReport(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    tag_field="reportType",
    tag="LoadReport",
):
    """Our report: usage and all bundles (`full`), or the largest ones and the broker's totals.

    Totals: of all bundles, also those that are not listed. All four are given or none; `topics`
    may stand alone. What a full report says of them is not used: its bundles are summed.
    """

    cluster: str
    broker: str
    sequence: Natural
    timestamp: Natural
    full: bool
    cpu: ResourceUsage
    memory: ResourceUsage
    directMemory: ResourceUsage
    bandwidthIn: ResourceUsage
    bandwidthOut: ResourceUsage
    zone: str | None = None
    brokerVersion: str | None = None
    persistentTopicsEnabled: bool = True
    nonPersistentTopicsEnabled: bool = True
    bundles: dict[str, BundleStats]
    status: BrokerStatus = "up"
    transport: TransportHealth = "stable"
    msgRateIn: float | None = None
    msgRateOut: float | None = None
    msgThroughputIn: float | None = None
    msgThroughputOut: float | None = None
    topics: Natural | None = None


class Heartbeat(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    tag_field="reportType",
    tag="Heartbeat",
):
    """Sign of life between load reports."""

    cluster: str
    broker: str
    sequence: Natural
    timestamp: Natural
    status: BrokerStatus = "up"
    transport: TransportHealth = "stable"
