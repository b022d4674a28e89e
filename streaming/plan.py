"""What the job is to do, in one frozen value: topics, clusters, bounds, places.

`streaming.from_config` makes it from the configuration file; tests and benches make their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.core.settings import Settings
from controller.transport.place import TransportPlace


@dataclass(frozen=True, slots=True)
class JobPlan:
    """One job: one query, one checkpoint, one log, any number of clusters."""

    transport: TransportPlace
    checkpoint: str
    clusters: Mapping[str, Settings]  # name -> settings; each names its topics
    name: str = "bundle-controller"  # of the query, the lease and the marker
    report_topic_clusters: Mapping[str, str] = field(default_factory=dict)  # topic -> cluster
    report_partitions: int = 4  # of a report topic that the job creates
    decisions_topic: str = "decision-log"
    dead_letters_topic: str = "dead-letters"
    is_acting: bool = True  # False: decides and logs, publishes nothing to the channel
    may_adopt: bool = True  # False: refuses a log that another checkpoint published to
    master: str = "local[2,4]"
    shuffle_partitions: int = 1  # frozen in the checkpoint
    trigger_ms: int = 250
    rows_max: int = 20_000  # records per micro-batch
    bytes_max: int = 64 * 1024 * 1024  # bytes of values per micro-batch
    read_partitions: int = 1
    lease_ttl_ms: int = 10_000
    lease_wait_ms: int = 30_000  # longer than the lease of a crashed predecessor
    is_standby: bool = False  # True: waits for lease and checkpoint without limit, then takes over
    http_host: str = "127.0.0.1"
    http_port: int = 0
    ui_port: int | None = None
    spark_conf: Mapping[str, str] = field(default_factory=dict)

    def first_settings(self) -> Settings:
        """Settings of any cluster, for what is the same in all of them."""
        return next(iter(self.clusters.values()))

    @property
    def commands_topic(self) -> str:
        """All clusters share one command topic."""
        return self.first_settings().commands_topic

    @property
    def channels(self) -> dict[str, str]:
        """Cluster -> its channel topic."""
        return {name: settings.channel_topic for name, settings in self.clusters.items()}

    @property
    def report_topics(self) -> list[str]:
        """All topics that carry load reports."""
        named = {settings.reports_topic for settings in self.clusters.values()}
        return sorted(named | set(self.report_topic_clusters))

    @property
    def source_topics(self) -> list[str]:
        """All topics that the job reads."""
        return sorted({*self.report_topics, self.commands_topic, *self.channels.values()})

    @property
    def topic_clusters(self) -> dict[str, str]:
        """Topics that belong to one cluster as a whole."""
        mapped = {topic: name for name, topic in self.channels.items()}
        return {**self.report_topic_clusters, **mapped}
