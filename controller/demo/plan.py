"""What one demo needs to know: places, topics, commands, settings; made from a configuration.

A demo runs in a fresh directory with a log, a checkpoint and free ports of its own, so that it
never touches a real installation and two demos can run side by side. The configuration in force
is written there too, and the job reads that file.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from controller.agent.own_log import clock_offset_ms
from controller.agent.runtime import RuntimeSettings
from controller.agent.state import AgentSettings
from controller.config import ConfigError, JobConfig, as_tables, as_toml, load_config
from controller.sim.workload import WorkloadSpec
from controller.transport.place import TransportPlace

PROJECT = Path(__file__).resolve().parents[2]
"""Where the project stands: the demo runs from a clone, and uses its conf/."""

DEFAULT_CONFIG = PROJECT / "conf" / "demo.toml"


@dataclass(frozen=True, slots=True)
class DemoPlan:
    """One demo: a fresh run directory, one cluster, one job."""

    directory: Path
    transport: TransportPlace
    cluster: str
    topics: Mapping[str, tuple[int, str]]  # to be created: name -> partitions, cleanup
    channel_topic: str
    commands_topic: str
    decisions_topic: str
    job_command: tuple[str, ...]
    agent: AgentSettings
    runtime: RuntimeSettings
    broker_wait_ms: int  # how long brokers wait for the log
    clock_offset_ms: float  # of the one clock that observer and brokers share
    split_topics_max: int  # the growing bundle passes it at a third of the run
    brokers: int = 6  # at the start
    workload: WorkloadSpec = field(default_factory=WorkloadSpec)

    @property
    def own_logs(self) -> Path:
        """Directory of the brokers' own logs."""
        return self.directory / "own"

    @property
    def boundaries(self) -> Path:
        """File with the bundles' boundaries, which all simulated brokers share."""
        return self.directory / "boundaries.db"

    @property
    def start_file(self) -> Path:
        """File that holds the start of the workload's time."""
        return self.directory / "workload-start"


def make_plan(
    path: Path | None, directory: Path, transport: Mapping[str, object] | None = None
) -> DemoPlan:
    """Plan in a fresh directory; `path` None = conf/demo.toml.

    `transport` are keys of another log than the embedded one in that directory.

    Raises ConfigError, also when the file does not name exactly one cluster.
    """
    file = DEFAULT_CONFIG if path is None else path
    places = {
        "job.checkpoint": str(directory / "checkpoint"),
        "metrics.port": 0,
        "job.ui_port": 0,
        **(transport or {"transport.path": str(directory / "log.db")}),
    }
    config = load_config(file, places)
    cluster = _only_cluster(config)
    in_force = directory / "demo.toml"
    in_force.write_text(as_toml(as_tables(config)))
    return DemoPlan(
        directory=directory,
        transport=config.transport,
        cluster=cluster,
        topics=_topics(config, cluster),
        channel_topic=config.channel_topic(cluster),
        commands_topic=config.topics.commands,
        decisions_topic=config.topics.decision_log,
        job_command=(sys.executable, "-m", "controller.cli.main", "run", "--config", str(in_force)),
        agent=config.agent_settings(),
        runtime=config.runtime_settings(cluster),
        broker_wait_ms=config.agent.busy_wait_ms,
        clock_offset_ms=clock_offset_ms(),
        split_topics_max=config.balance.thresholds.topics_max,
    )


def _only_cluster(config: JobConfig) -> str:
    if len(config.clusters) != 1:
        names = ", ".join(sorted(config.clusters)) or "none"
        raise ConfigError(
            config.source, [f"[clusters] the demo plays one cluster; the file names {names}"]
        )
    return next(iter(config.clusters))


def _topics(config: JobConfig, cluster: str) -> dict[str, tuple[int, str]]:
    return {
        config.topics.load_reports: (config.topics.partitions, "delete"),
        config.topics.commands: (1, "delete"),
        config.topics.decision_log: (1, "delete"),
        config.topics.dead_letters: (1, "delete"),
        config.channel_topic(cluster): (1, "compact"),
    }
