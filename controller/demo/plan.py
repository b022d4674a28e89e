"""What one demo needs to know: places, topics, commands, settings; made from a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from controller.agent.runtime import RuntimeSettings
from controller.agent.state import AgentSettings
from controller.sim.workload import WorkloadSpec


@dataclass(frozen=True, slots=True)
class DemoPlan:
    """One demo: a fresh run directory, one cluster, one job."""

    directory: Path
    log_path: Path
    cluster: str
    topics: Mapping[str, int]  # to be created: name -> partitions
    channel_topic: str
    commands_topic: str
    decisions_topic: str
    job_command: tuple[str, ...]
    job_environment: Mapping[str, str]
    agent: AgentSettings
    runtime: RuntimeSettings
    split_topics_max: int  # the growing bundle passes it at a third of the run
    brokers: int = 6  # at the start
    workload: WorkloadSpec = field(default_factory=WorkloadSpec)

    @property
    def own_logs(self) -> Path:
        """Directory of the brokers' own logs."""
        return self.directory / "own"

    @property
    def start_file(self) -> Path:
        """File that holds the start of the workload's time."""
        return self.directory / "workload-start"


def make_plan(config: Path | None) -> DemoPlan:
    """Plan of a fresh run directory; `config` None = the demo's own configuration."""
    raise NotImplementedError(config)
