"""The configuration as the program reads it: frozen sections, one for each table of the file.

Rules: every default stands once, here or in the settings class that it belongs to; units are in
the names, as in `controller.core.settings`; the operator's text stands in `conf/embedded.toml`.
Made by `controller.config.load`; read by the job, the agent, the demo and the CLI.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from controller.agent.runtime import RuntimeSettings
from controller.agent.state import AgentSettings
from controller.core.settings import Settings
from controller.transport.place import TransportPlace

_AGENT = AgentSettings()
_RUNTIME = RuntimeSettings()


@dataclass(frozen=True, slots=True)
class JobSection:
    """[job]: the streaming query and its Spark session."""

    name: str = "bundle-controller"  # of the query, the writer lease and the marker
    checkpoint: str = "checkpoints/bundle-controller"
    act: Literal["channel", "observe"] = "channel"  # observe: decides and logs, publishes nothing
    may_adopt: bool = True  # False: refuses a log that another checkpoint published to
    trigger_ms: int = 250
    max_rows_per_trigger: int = 20_000
    max_bytes_per_trigger: int = 64 * 1024 * 1024
    shuffle_partitions: int = 1  # frozen in the checkpoint
    read_partitions: int = 1
    master: str = "local[2,4]"
    driver_memory: str = "1g"
    ui_port: int = 4040  # of Spark's UI; 0 = no UI
    spark_conf: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicsSection:
    """[topics]: names that all clusters share."""

    load_reports: str = "load-reports"
    commands: str = "controller-commands"
    decision_log: str = "decision-log"
    dead_letters: str = "dead-letters"
    partitions: int = 4  # of topics with load reports, when they are created


@dataclass(frozen=True, slots=True)
class ClusterSection:
    """[clusters.<name>]: topics of one cluster."""

    channel: str = ""  # empty: bundle-state-<name>
    reports_topics: tuple[str, ...] = ()  # keys there are plain broker ids of this cluster


@dataclass(frozen=True, slots=True)
class AgentSection:
    """[agent]: times and bounds of the agent beside each broker."""

    heartbeat_interval_ms: int = _AGENT.heartbeat_interval_ms
    report_interval_ms: int = _AGENT.report_interval_ms
    report_change_points: float = _RUNTIME.report_change_points
    report_max_interval_ms: int = _RUNTIME.report_max_interval_ms
    report_bundles_max: int = _RUNTIME.report_bundles_max
    report_excluded_namespaces: tuple[str, ...] = _RUNTIME.report_excluded_namespaces
    poll_interval_ms: int = _RUNTIME.poll_interval_ms
    lease_ms: int = _AGENT.lease_ms
    unheard_poll_ms: int = _AGENT.unheard_poll_ms
    heard_settle_ms: int = _AGENT.heard_settle_ms
    takeover_grace_ms: int = _AGENT.takeover_grace_ms
    clock_drift_max_ratio: float = 0.01  # two clocks never differ more in speed than this
    retry_ms: int = _AGENT.retry_ms
    split_tries_max: int = _AGENT.split_tries_max
    split_retry_ms: int = _AGENT.split_retry_ms
    shutdown_wait_ms: int = _RUNTIME.shutdown_wait_ms
    busy_wait_ms: int = 2_000  # for the log's lock; well below the lease
    read_records_max: int = _RUNTIME.read_records_max
    release_threads: int = _RUNTIME.release_threads
    backoff_min_ms: int = _RUNTIME.backoff_min_ms
    backoff_max_ms: int = _RUNTIME.backoff_max_ms
    outbox_records_max: int = _RUNTIME.outbox_records_max
    topic_hashes_above: int = _RUNTIME.topic_hashes_above
    topic_loads_above_rate: float = _RUNTIME.topic_loads_above_rate
    report_topics_max: int = _RUNTIME.report_topics_max


@dataclass(frozen=True, slots=True)
class MetricsSection:
    """[metrics]: the web server with /metrics, /health, /ready and /status."""

    host: str = "127.0.0.1"
    port: int = 8080  # 0 = any free one


@dataclass(frozen=True, slots=True)
class LeaseSection:
    """[lease]: the right to be the one controller of a log."""

    ttl_ms: int = 10_000
    wait_ms: int = 30_000  # longer than the lease of a crashed predecessor


@dataclass(frozen=True, slots=True)
class JobConfig:
    """All that one job, its agents and its tools need to know.

    `balance` holds what the file says under [balance] and [limits]; its topic names are filled
    in by `settings_for`. `source` names the file for messages.
    """

    job: JobSection = field(default_factory=JobSection)
    transport: TransportPlace = field(default_factory=TransportPlace)
    topics: TopicsSection = field(default_factory=TopicsSection)
    clusters: Mapping[str, ClusterSection] = field(
        default_factory=lambda: {"local": ClusterSection()}
    )
    balance: Settings = field(default_factory=Settings)
    agent: AgentSection = field(default_factory=AgentSection)
    metrics: MetricsSection = field(default_factory=MetricsSection)
    lease: LeaseSection = field(default_factory=LeaseSection)
    source: str = "defaults"

    @property
    def is_acting(self) -> bool:
        """False if the job only decides and logs."""
        return self.job.act == "channel"

    @property
    def report_topic_clusters(self) -> dict[str, str]:
        """Cluster of each topic whose keys are plain broker ids."""
        return {topic: name for name, one in self.clusters.items() for topic in one.reports_topics}

    def channel_topic(self, cluster: str) -> str:
        """The channel of a configured cluster; raises `KeyError`."""
        return self.clusters[cluster].channel or f"bundle-state-{cluster}"

    def settings_for(self, cluster: str) -> Settings:
        """The core's settings for a configured cluster; raises `KeyError`."""
        return replace(
            self.balance,
            reports_topic=self.topics.load_reports,
            commands_topic=self.topics.commands,
            channel_topic=self.channel_topic(cluster),
            is_paced_by_ticks=self.transport.kind != "embedded",
        )

    def agent_settings(self) -> AgentSettings:
        """Times of the agent's protocol."""
        return AgentSettings(
            heartbeat_interval_ms=self.agent.heartbeat_interval_ms,
            report_interval_ms=self.agent.report_interval_ms,
            lease_ms=self.agent.lease_ms,
            unheard_poll_ms=self.agent.unheard_poll_ms,
            heard_settle_ms=self.agent.heard_settle_ms,
            takeover_grace_ms=self.agent.takeover_grace_ms,
            retry_ms=self.agent.retry_ms,
            split_tries_max=self.agent.split_tries_max,
            split_retry_ms=self.agent.split_retry_ms,
        )

    def runtime_settings(self, cluster: str) -> RuntimeSettings:
        """How the loop of an agent of this cluster talks to the log; raises `KeyError`."""
        return RuntimeSettings(
            channel_topic=self.channel_topic(cluster),
            reports_topic=self.topics.load_reports,
            commands_topic=self.topics.commands,
            poll_interval_ms=self.agent.poll_interval_ms,
            read_records_max=self.agent.read_records_max,
            release_threads=self.agent.release_threads,
            backoff_min_ms=self.agent.backoff_min_ms,
            backoff_max_ms=self.agent.backoff_max_ms,
            outbox_records_max=self.agent.outbox_records_max,
            shutdown_wait_ms=self.agent.shutdown_wait_ms,
            report_change_points=self.agent.report_change_points,
            report_max_interval_ms=self.agent.report_max_interval_ms,
            report_bundles_max=self.agent.report_bundles_max,
            report_excluded_namespaces=self.agent.report_excluded_namespaces,
            topic_hashes_above=self.agent.topic_hashes_above,
            topic_loads_above_rate=self.agent.topic_loads_above_rate,
            report_topics_max=self.agent.report_topics_max,
        )
