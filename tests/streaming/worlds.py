"""Plans, logs and made-up brokers for the tests of the job."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from controller.core.settings import LivenessSettings, RoundSettings, Settings
from controller.transport.embedded import EmbeddedLog
from controller.transport.place import TransportPlace
from controller.transport.port import OutRecord
from controller.wire.commands import Assign, Command, encode_command
from controller.wire.reports import (
    BundleStats,
    Heartbeat,
    LoadReport,
    ResourceUsage,
    encode_heartbeat,
    encode_load_report,
)
from streaming.plan import JobPlan
from streaming.topics import create_topics

SETTINGS = Settings(
    rounds=RoundSettings(interval_ms=1_000, upkeep_interval_ms=500, settle_ms=100, warmup_ms=500),
    liveness=LivenessSettings(
        report_ttl_ms=60_000, late_after_ms=50_000, takeover_after_ms=100_000
    ),
)


def settings(cluster: str) -> Settings:
    return replace(SETTINGS, channel_topic=f"bundle-state-{cluster}")


def plan(folder: Path, *clusters: str, **changes: object) -> JobPlan:
    """A job over `folder/log.db`."""
    made = JobPlan(
        transport=TransportPlace(path=str(folder / "log.db")),
        checkpoint=str(folder / "checkpoint"),
        clusters={name: settings(name) for name in clusters or ("east",)},
        lease_ttl_ms=2_000,
    )
    return replace(made, **changes)


def new_log(job: JobPlan, **options: object) -> EmbeddedLog:
    log = EmbeddedLog(job.transport.path, **options)
    create_topics(job, log)
    return log


def bundle(number: int) -> str:
    return f"t/n/0x{number << 24:08x}_0x{(number + 1) << 24:08x}"


def load_report(cluster: str, broker: str, sequence: int, bundles: Iterable[int] = ()) -> OutRecord:
    usage = ResourceUsage(30.0, 100.0)
    stats = BundleStats(
        msgRateIn=10.0, msgRateOut=10.0, msgThroughputIn=1e3, msgThroughputOut=1e3, topics=2
    )
    value = encode_load_report(
        LoadReport(
            cluster=cluster,
            broker=broker,
            sequence=sequence,
            timestamp=1,
            full=True,
            cpu=usage,
            memory=usage,
            directMemory=usage,
            bandwidthIn=usage,
            bandwidthOut=usage,
            bundles={bundle(n): stats for n in bundles},
        )
    )
    return OutRecord("load-reports", f"{cluster}/{broker}", value)


def heartbeat(cluster: str, broker: str, sequence: int) -> OutRecord:
    beat = Heartbeat(cluster=cluster, broker=broker, sequence=sequence, timestamp=1)
    return OutRecord("load-reports", f"{cluster}/{broker}", encode_heartbeat(beat))


def command(cluster: str, content: Command, who: str = "x") -> OutRecord:
    return OutRecord("controller-commands", f"{cluster}/{who}", encode_command(content))


def assign(cluster: str, number: int) -> OutRecord:
    return command(cluster, Assign(bundle=bundle(number), requestedBy="client"))


def values(log: EmbeddedLog, topic: str) -> list[bytes | None]:
    """All values of a topic of one partition."""
    return [record.value for record in log.read(topic, 0, 0, 1_000_000)]
