"""Signs of life as they stand in the log: heartbeats, and load reports of the broker's figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from controller.agent.events import SendHeartbeat, SendReport
from controller.agent.port import Broker
from controller.wire.reports import (
    BundleStats,
    Heartbeat,
    LoadReport,
    encode_heartbeat,
    encode_load_report,
)


@dataclass(frozen=True, slots=True)
class SignsOfLife:
    """Encodes what one broker says; `wall` gives ms since 1970."""

    cluster: str
    broker: str
    port: Broker
    topic_hashes_above: int
    wall: Callable[[], int]

    def heartbeat(self, sign: SendHeartbeat | SendReport) -> bytes:
        """A heartbeat; also stands in for a report that the broker could not give."""
        beat = Heartbeat(
            cluster=self.cluster,
            broker=self.broker,
            sequence=sign.sequence,
            timestamp=self.wall(),
            status=sign.status,
            transport=sign.transport,
        )
        return encode_heartbeat(beat)

    def report(self, sign: SendReport) -> bytes:
        """A full load report; raises whatever the broker raises."""
        load = self.port.load_report()
        report = LoadReport(
            cluster=self.cluster,
            broker=self.broker,
            sequence=sign.sequence,
            timestamp=self.wall(),
            full=True,
            cpu=load.cpu,
            memory=load.memory,
            directMemory=load.direct_memory,
            bandwidthIn=load.bandwidth_in,
            bandwidthOut=load.bandwidth_out,
            zone=load.zone,
            brokerVersion=load.version,
            bundles={name: self._with_hashes(name, load.bundles[name]) for name in load.bundles},
            status=sign.status,
            transport=sign.transport,
        )
        return encode_load_report(report)

    def _with_hashes(self, bundle: str, stats: BundleStats) -> BundleStats:
        if stats.topics <= self.topic_hashes_above:
            return stats
        return msgspec.structs.replace(stats, topicHashes=self.port.topic_hashes(bundle))
