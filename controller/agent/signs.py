"""Signs of life as they stand in the log: heartbeats, and load reports of the broker's figures.

Rules: a report is sent when one is due by Pulsar's rule (`controller.load.publish`): it is forced
because bundles of this broker moved, or the last is too old, or the load has changed enough.
Compared is with the last report that the log has acknowledged, so one that got lost is made up
for. In the place of a report that is not sent stands a heartbeat. Used by the runtime's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from controller.agent.events import SendHeartbeat, SendReport
from controller.agent.port import Broker, BrokerLoad
from controller.agent.report import figures_of, listed, reported_of, topic_members, with_topics
from controller.agent.settings import RuntimeSettings
from controller.load.publish import Reported, max_change, must_publish
from controller.load.top import TOPICS, Floats
from controller.wire.reports import (
    TOTALS,
    BundleStats,
    Heartbeat,
    LoadReport,
    encode_heartbeat,
    encode_load_report,
)


class SignsOfLife:
    """Encodes what one broker says; see the module text.

    Args:
        cluster: name of the cluster.
        broker: broker id.
        port: the broker, which is asked for its load.
        settings: what reports list, and when they are due.
        clock: monotonic ms, for the age of a report; `wall`: ms since 1970, for timestamps.
    """

    def __init__(
        self,
        cluster: str,
        broker: str,
        port: Broker,
        settings: RuntimeSettings,
        clock: Callable[[], int],
        wall: Callable[[], int],
    ) -> None:
        self._cluster = cluster
        self._broker = broker
        self._port = port
        self._settings = settings
        self._clock = clock
        self._wall = wall
        self._is_forced = False  # by a move that no acknowledged report has followed yet
        self._last: tuple[Reported, int] | None = None  # acknowledged report, when it was made
        self._made: tuple[Reported, int] | None = None  # the same of one that is on its way

    def heartbeat(self, sign: SendHeartbeat | SendReport) -> bytes:
        """A heartbeat; also stands in for a report that is not due or that the broker lacks."""
        self._made = None
        beat = Heartbeat(
            cluster=self._cluster,
            broker=self._broker,
            sequence=sign.sequence,
            timestamp=self._wall(),
            status=sign.status,
            transport=sign.transport,
        )
        return encode_heartbeat(beat)

    def report(self, sign: SendReport) -> bytes | None:
        """A load report if one is due, else None; raises whatever the broker raises."""
        self._made = None
        self._is_forced |= sign.is_forced
        now_ms, load = self._clock(), self._port.load_report()
        figures = figures_of(load.bundles)
        reported = reported_of(load, figures)
        if not self._is_due(reported, now_ms):
            return None
        value = encode_load_report(self._load_report(sign, load, figures))
        self._made = reported, now_ms
        return value

    def acknowledged(self) -> None:
        """The log has the last sign of life that was made here."""
        if self._made is not None:
            self._last, self._made = self._made, None
            self._is_forced = False

    def _is_due(self, now: Reported, now_ms: int) -> bool:
        if self._last is None or self._settings.report_change_points == 0.0:
            return True
        last, last_ms = self._last
        return must_publish(
            is_forced=self._is_forced,
            age_ms=now_ms - last_ms,
            max_interval_ms=self._settings.report_max_interval_ms,
            change_points=max_change(last, now),
            threshold_points=self._settings.report_change_points,
        )

    def _load_report(self, sign: SendReport, load: BrokerLoad, figures: Floats) -> LoadReport:
        is_full = self._settings.report_bundles_max == 0
        return LoadReport(
            cluster=self._cluster,
            broker=self._broker,
            sequence=sign.sequence,
            timestamp=self._wall(),
            full=is_full,
            cpu=load.cpu,
            memory=load.memory,
            directMemory=load.direct_memory,
            bandwidthIn=load.bandwidth_in,
            bandwidthOut=load.bandwidth_out,
            zone=load.zone,
            brokerVersion=load.version,
            bundles=self._listed(load.bundles, figures),
            status=sign.status,
            transport=sign.transport,
            **({} if is_full else _totals(figures)),
        )

    def _listed(
        self, bundles: Mapping[str, BundleStats], figures: Floats
    ) -> dict[str, BundleStats]:
        names = listed(bundles, figures, self._settings)
        stats = {name: bundles[name] for name in names}
        for name in with_topics(bundles, names, self._settings):
            members: Any = topic_members(self._port.topic_loads(name))
            stats[name] = msgspec.structs.replace(stats[name], **members)
        return stats


def _totals(figures: Floats) -> dict[str, Any]:
    """Members of a report that does not list all bundles: sums over all of them."""
    sums = figures.sum(axis=0).tolist()
    totals = dict(zip(TOTALS, sums[: len(TOTALS)], strict=True))
    return {**totals, "topics": int(sums[TOPICS])}
