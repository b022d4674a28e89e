"""One simulated cluster: brokers with agents, two controllers, clients, an operator, one log.

Its times keep the inequalities that a real configuration must (`controller.config.checks`), only
shorter, so that a run sees many take-overs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from controller.agent.runtime import RuntimeSettings
from controller.agent.state import AgentSettings
from controller.core.settings import (
    ActionSettings,
    LivenessSettings,
    RoundSettings,
    Settings,
)
from controller.model.bundles import FULL_UPPER, equal_boundaries
from controller.sim.boundaries import MemoryBoundaries
from controller.sim.chaos.agent_process import AgentProcess
from controller.sim.chaos.controller_process import Checkpoint, ControllerProcess
from controller.sim.chaos.judge import Judge
from controller.sim.chaos.kernel import Kernel
from controller.sim.chaos.log import SimLog
from controller.strategies.params import AvgParams, ThresholdSplitParams

CLUSTER = "sim"
NAMESPACE = "chaos/ns"
CHANNEL, COMMANDS, REPORTS = "bundle-state-sim", "controller-commands", "load-reports"
DRIFT_MAX = 0.01


AGENT = AgentSettings(
    heartbeat_interval_ms=400,
    report_interval_ms=1_000,
    lease_ms=3_000,
    unheard_poll_ms=500,
    heard_settle_ms=2_100,
    takeover_grace_ms=800,
    retry_ms=400,
)
RUNTIME = RuntimeSettings(
    channel_topic=CHANNEL,
    reports_topic=REPORTS,
    commands_topic=COMMANDS,
    poll_interval_ms=200,
    backoff_min_ms=100,
    backoff_max_ms=800,
    shutdown_wait_ms=4_000,
)
CORE = Settings(
    rounds=RoundSettings(interval_ms=2_000, upkeep_interval_ms=500, settle_ms=100, warmup_ms=1_500),
    liveness=LivenessSettings(report_ttl_ms=4_000, late_after_ms=1_500, takeover_after_ms=5_000),
    actions=ActionSettings(
        in_flight_timeout_ms=4_000,
        pending_timeout_ms=8_000,
        decision_ttl_ms=2_000,
        bundle_cooldown_ms=1_000,
        no_return_ms=2_000,
        tombstone_delay_ms=15_000,
    ),
    avg=AvgParams(hit_count_low=2, hit_count_high=1, min_unload_rate=10.0),
    thresholds=ThresholdSplitParams(rate_max=6_000.0, hit_count=2, namespace_bundles_max=12),
    channel_topic=CHANNEL,
    commands_topic=COMMANDS,
    reports_topic=REPORTS,
)


@dataclass(frozen=True, slots=True)
class Scale:
    """Size of a run, and how long what lasts."""

    brokers: int = 3
    bundles: int = 4
    faults_ms: int = 12_000  # faults happen for so long
    quiet_ms: int = 16_000  # after that all must be well: the stated bound of convergence
    watched_ms: int = 2_000  # ... and stay so
    agent: AgentSettings = AGENT
    runtime: RuntimeSettings = RUNTIME
    core: Settings = CORE


@dataclass(slots=True)
class World:
    """Builds the processes of one run and starts them."""

    kernel: Kernel
    scale: Scale
    log: SimLog = field(init=False)
    boundaries: MemoryBoundaries = field(init=False)
    agents: list[AgentProcess] = field(init=False)
    controllers: list[ControllerProcess] = field(init=False)
    judge: Judge = field(init=False)
    hot: float = 0.0  # where on the ring the load is, as a share

    def __post_init__(self) -> None:
        scale, kernel = self.scale, self.kernel
        partitions = kernel.random.choice((1, 2))
        topics = {CHANNEL: partitions, COMMANDS: 1, REPORTS: 2, "decision-log": 1}
        self.log = SimLog(kernel, topics)
        edges = equal_boundaries(scale.bundles)
        self.boundaries = MemoryBoundaries()
        self.boundaries.compare_and_set(NAMESPACE, 0, tuple(edges))
        self.agents = [self._agent(f"b{n + 1}") for n in range(scale.brokers)]
        shared = Checkpoint("query-1")
        self.controllers = [
            self._controller("leader", shared),
            self._controller("standby", Checkpoint("query-2")),
        ]
        self.judge = Judge(CHANNEL, self._served)
        self.log.watchers.append(self.judge.see)
        kernel.after_event = self.judge.look

    def start(self) -> None:
        """Starts everything; the standby a little later."""
        for agent in self.agents:
            agent.start()
        self.controllers[0].start()
        self.kernel.later(300, self.controllers[1].start)

    def bundles(self) -> list[str]:
        """The namespace's bundles, by its boundaries."""
        found = self.boundaries.read(NAMESPACE)
        assert found is not None
        edges = found[1]
        return [f"{NAMESPACE}/0x{a:08x}_0x{b:08x}" for a, b in pairwise(edges)]

    def rate_of(self, bundle: str) -> float:
        """Load of a bundle, msg/s: its share of the ring, more where the ring is hot."""
        lower, upper = (int(part, 16) for part in bundle.rpartition("/")[2].split("_"))
        share = (upper - lower) / FULL_UPPER
        is_hot = lower <= self.hot * FULL_UPPER < upper
        return 6_000.0 * share + (4_000.0 if is_hot else 0.0)

    def _served(self) -> Iterator[tuple[str, frozenset[str]]]:
        return ((agent.name, agent.serves()) for agent in self.agents)

    def _agent(self, name: str) -> AgentProcess:
        return AgentProcess(
            self.kernel,
            name,
            drift=self.kernel.random.uniform(-DRIFT_MAX, DRIFT_MAX) / 2,
            log=self.log,
            cluster=CLUSTER,
            boundaries=self.boundaries,
            rate_of=self.rate_of,
            settings=self.scale.agent,
            runtime_settings=self.scale.runtime,
        )

    def _controller(self, name: str, checkpoint: Checkpoint) -> ControllerProcess:
        return ControllerProcess(
            self.kernel,
            name,
            log=self.log,
            cluster=CLUSTER,
            settings=self.scale.core,
            checkpoint=checkpoint,
        )
