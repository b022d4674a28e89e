"""A runtime driven turn by turn, with clocks of the test's own, on a real log made to fail."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from controller.agent.port import BoundariesChangedError, BrokerError, BrokerLoad, TopicLoad
from controller.agent.runtime import AgentRuntime, RuntimeSettings
from controller.agent.state import AgentSettings
from controller.transport.embedded import EmbeddedLog
from controller.transport.errors import BusyError
from controller.transport.port import LogRecord, OutRecord
from controller.wire.channel import ServiceUnitState, decode_channel, encode_channel
from controller.wire.limits import WireLimits
from controller.wire.reports import BundleStats, Report, ResourceUsage, decode_report
from tests.agent.builders import LOW, PARENT, data

AGENT = AgentSettings(
    heartbeat_interval_ms=100,
    report_interval_ms=1_000,
    lease_ms=5_000,
    heard_settle_ms=10,
    takeover_grace_ms=200,
)
SETTINGS = RuntimeSettings(
    channel_topic="channel",
    reports_topic="reports",
    commands_topic="commands",
    poll_interval_ms=10,
    backoff_min_ms=100,
    backoff_max_ms=400,
    topic_hashes_above=5,
)
NONE = ResourceUsage(0.0, 100.0)


def stats(rate: float = 2.0, throughput: float = 2.0, topics: int = 5) -> BundleStats:
    """Figures of a bundle, in + out."""
    return BundleStats(
        msgRateIn=rate / 2,
        msgRateOut=rate / 2,
        msgThroughputIn=throughput / 2,
        msgThroughputOut=throughput / 2,
        topics=topics,
    )


class ShakyLog(EmbeddedLog):
    """A real log whose reads or writes fail while it is told so."""

    fails_reading = False
    fails_writing = False
    fails_reading_partition: int | None = None

    def read(self, topic: str, partition: int, offset: int, limit: int) -> list[LogRecord]:
        is_failing = self.fails_reading or partition == self.fails_reading_partition
        if is_failing and topic == "channel":
            raise BusyError("locked")
        return super().read(topic, partition, offset, limit)

    def append(self, records: Sequence[OutRecord]) -> list[tuple[int, int]]:
        if self.fails_writing:
            raise BusyError("locked")
        return super().append(records)


class ListBroker:
    """A broker that notes what it is told, in the order in which it happens."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.load_fails = False
        self.cpu = NONE
        self.stats = {LOW: stats(topics=5), PARENT: stats(topics=6)}
        self.topics_fail = False
        self.topics = [TopicLoad(1), TopicLoad(2), TopicLoad(3)]
        self.failing: dict[str, int] = {}  # how often a method is going to fail
        self.may_close = threading.Event()
        self.may_close.set()
        self.fenced = threading.Event()
        self.while_closing: Callable[[], None] = lambda: None

    def load_report(self) -> BrokerLoad:
        if self.load_fails:
            raise BrokerError("no figures")
        return BrokerLoad(self.cpu, NONE, NONE, NONE, NONE, dict(self.stats))

    def topic_loads(self, bundle: str) -> list[TopicLoad]:
        if self.topics_fail:
            raise BrokerError("no topics")
        return self.topics

    def acquire(self, bundle: str) -> None:
        self.calls.append(f"acquire {bundle}")

    def release(self, bundle: str, destination: str | None) -> None:
        self.may_close.wait(timeout=10)
        self.calls.append(f"release {bundle}")

    def drop(self, bundle: str) -> None:
        self.calls.append(f"drop {bundle}")
        self.fail("drop")

    def redirect(self, bundle: str, owner: str | None) -> None:
        self.calls.append(f"redirect {bundle} {owner}")
        self.fail("redirect")

    def fail(self, what: str) -> None:
        if self.failing.get(what, 0) > 0:
            self.failing[what] -= 1
            raise BrokerError(f"{what} fails")

    def split(self, bundle: str, children: tuple[str, ...]) -> None:
        self.calls.append(f"split {bundle}")
        if self.failing.pop("split", 0):
            raise BoundariesChangedError("somebody else was quicker")

    def fence(self) -> None:
        self.calls.append("fence")
        self.fail("fence")
        self.fenced.set()

    def unfence(self) -> None:
        self.calls.append("unfence")
        self.fail("unfence")

    def close(self) -> None:
        self.while_closing()
        self.calls.append("close")
        self.fail("close")


class Bench:
    """A runtime driven turn by turn; or, where the clock `ticks`, by its own thread."""

    def __init__(
        self,
        path: Path,
        channel_partitions: int = 1,
        ticks: bool = False,
        settings: RuntimeSettings = SETTINGS,
    ) -> None:
        self.now_ms = 1_000
        started_ns = time.monotonic_ns() if ticks else None

        def clock() -> int:
            passed_ns = 0 if started_ns is None else time.monotonic_ns() - started_ns
            return self.now_ms + passed_ns // 1_000_000

        self.log = ShakyLog(path)
        self.log.create_topic("channel", channel_partitions)
        self.log.create_topic("reports", 2)
        self.log.create_topic("commands", 1)
        self.broker = ListBroker()
        self.runtime = AgentRuntime(
            "c",
            "b1",
            self.broker,
            self.log,
            AGENT,
            settings,
            clock=clock,
            wall=lambda: 7_000_000 + clock(),
        )

    def turns(self, count: int, step_ms: int = 10) -> None:
        for _ in range(count):
            self.now_ms += step_ms
            self.runtime.turn()

    def write(self, bundle: str, state: str, version: int, *brokers: str | None) -> None:
        value = encode_channel(data(state, version, *brokers))
        self.log.append([OutRecord("channel", bundle, value)])

    def last(self) -> tuple[ServiceUnitState, int] | None:
        rows = self.log.read("channel", 0, 0, 1_000)
        unit = decode_channel(rows[-1].value) if rows else None
        return None if unit is None else (unit.state, unit.versionId)

    def signs(self) -> list[Report]:
        rows = [r for p in range(2) for r in self.log.read("reports", p, 0, 1_000)]
        return [decode_report(r.value, "b1", "c", WireLimits()) for r in rows]

    def reports(self) -> list[str]:
        return [sign.kind for sign in self.signs()]
