"""A real cluster on one machine: the Spark job and simulated brokers as processes, one log.

The judge is the demo's observer, which reads the brokers' own logs and the channel. Every process
runs in a group of its own and is ended at the end of the test, in every case.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from controller.agent.own_log import clock_offset_ms, steady_clock
from controller.config import as_tables, as_toml, load_config
from controller.demo.children import Children
from controller.demo.observer import Observer, ObserverSettings
from controller.sim.broker import Capacity
from controller.sim.process import ProcessSpec, write_spec
from controller.sim.workload import Workload, WorkloadSpec
from controller.transport.embedded import EmbeddedLog
from controller.transport.place import TransportPlace
from controller.transport.port import OutRecord
from controller.wire.channel import ServiceUnitState, ServiceUnitStateData
from controller.wire.commands import Assign, Command, encode_command

CLUSTER = "kills"
JOB, STANDBY = "job", "standby"
BROKERS = ("b1", "b2", "b3")
CLOSE_MS = 1_000.0  # so slow that a kill can fall into it
CONVERGED_S = 30.0  # the limit that the project promises
TAKEOVER_MS = 6_000
WORKLOAD = WorkloadSpec(
    namespaces=("kill/ns",),
    bundles_per_namespace=6,
    topics_per_namespace=48,
    rate_total=20_000.0,
    growing_topics=1,
    growing_rate=0.0,
)
OVERRIDES = {
    "balance.rounds.interval_ms": 600_000,  # nothing moves but what the test asks for
    "balance.rounds.upkeep_interval_ms": 500,
    "balance.rounds.settle_ms": 100,
    "balance.rounds.warmup_ms": 1_000,
    "balance.liveness.late_after_ms": 3_000,
    "balance.liveness.takeover_after_ms": TAKEOVER_MS,
    "balance.liveness.safe_mode_share": 0.5,
    # Above the take-over, as by default: a dead source is an orphan's owner before it is stuck, and
    # the live destination finishes the move.
    "balance.actions.in_flight_timeout_ms": 8_000,
    "balance.actions.tombstone_delay_ms": 8_000,
    "agent.heartbeat_interval_ms": 500,
    "agent.report_interval_ms": 1_000,
    "agent.lease_ms": 3_000,
    "agent.backoff_max_ms": 500,
    "agent.busy_wait_ms": 1_000,
    "lease.ttl_ms": 3_000,
    "metrics.port": 0,
    "job.ui_port": 0,
}


class Cluster:
    """Job, brokers and observer; times in seconds."""

    def __init__(self, home: Path) -> None:
        self.home = home
        places = {"transport.path": str(home / "log.db"), "job.checkpoint": str(home / "cp")}
        file = home / "kills.toml"
        file.write_text(f"[clusters.{CLUSTER}]\n")
        self.config = load_config(file, {**OVERRIDES, **places})
        file.write_text(as_toml(as_tables(self.config)))
        self.file = file
        self.offset_ms = clock_offset_ms()
        self.clock = steady_clock(self.offset_ms)
        (home / "own").mkdir()
        self.log = EmbeddedLog(home / "log.db")
        self.channel = self.config.channel_topic(CLUSTER)
        for topic, partitions in (
            (self.config.topics.load_reports, 2),
            (self.config.topics.commands, 1),
            (self.config.topics.decision_log, 1),
            (self.channel, 1),
        ):
            self.log.create_topic(
                topic, partitions, "compact" if topic == self.channel else "delete"
            )
        self.observer = Observer(
            self.log,
            home / "own",
            self.channel,
            self.config.topics.decision_log,
            ObserverSettings(gap_limit_ms=CONVERGED_S * 1_000, settle_ms=200.0),
            clock=self.clock,
        )
        self.children = Children(home)

    def start(self) -> None:
        """Job and brokers; returns when all bundles are served."""
        self.start_job()
        for broker in BROKERS:
            self.start_broker(broker)
        self.until(lambda: self.batches() > 0, "the job has begun", 120)
        for bundle in Workload(WORKLOAD).bundle_names():
            self.send(Assign(bundle=bundle, requestedBy="client"))
        self.until(self.is_settled, "all bundles are served", 60)

    def start_job(self) -> None:
        command = [sys.executable, "-m", "controller.cli.main", "run", "--config", str(self.file)]
        self.children.start(JOB, command)

    def start_standby(self) -> None:
        """A second controller with a checkpoint of its own; returns when it is ready."""
        command = [sys.executable, "-m", "controller.cli.main", "run", "--standby"]
        command += ["--config", str(self.file), "--set", f"job.checkpoint={self.home / 'cp2'}"]
        standby = self.children.start(STANDBY, command)
        self.until(lambda: b"event=ready" in standby.output.read_bytes(), "a standby", 120)

    def start_broker(self, broker: str) -> None:
        spec = ProcessSpec(
            transport=TransportPlace(path=str(self.home / "log.db"), busy_wait_ms=2_000),
            cluster=CLUSTER,
            broker=broker,
            own_log=str(self.home / "own" / f"{broker}.jsonl"),
            clock_offset_ms=self.offset_ms,
            agent=self.config.agent_settings(),
            runtime=replace(self.config.runtime_settings(CLUSTER), shutdown_wait_ms=0),
            capacity=Capacity(close_ms=CLOSE_MS),
            workload=WORKLOAD,
        )
        path = self.home / f"{broker}.json"
        write_spec(spec, path)
        self.children.start(broker, [sys.executable, "-m", "controller.sim.process", str(path)])

    def kill(self, name: str) -> None:
        """SIGKILL; a broker's death is told to the observer."""
        self.children.kill(name)
        if name != JOB:
            self.observer.died(name, self.clock())

    def pause(self, name: str) -> None:
        self.children.running[name].process.send_signal(signal.SIGSTOP)

    def resume(self, name: str) -> None:
        self.children.running[name].process.send_signal(signal.SIGCONT)

    def send(self, command: Command) -> None:
        topic, value = self.config.topics.commands, encode_command(command)
        self.log.append([OutRecord(topic, f"{CLUSTER}/test", value)])

    def record(self, bundle: str) -> ServiceUnitStateData | None:
        """What stands for the bundle on the channel, as of now."""
        return self.observer.channel.table.get(bundle)

    def state(self, bundle: str) -> ServiceUnitState | None:
        record = self.record(bundle)
        return None if record is None else record.state

    def owned_by(self, broker: str) -> list[str]:
        """Bundles that the broker owns by the channel and serves by its own log."""
        served = self.observer.service.served().get(broker, [])
        owned = self.observer.channel.owned()
        return sorted(name for name in served if owned.get(name) == broker)

    def batches(self) -> int:
        """The number of the last batch that the job has committed; 0 = none."""
        folder = self.home / "cp" / "commits"
        found = [int(path.name) for path in folder.glob("*") if path.name.isdecimal()]
        return max(found, default=0)

    def is_settled(self) -> bool:
        """Nothing in flight, every bundle served by its owner, no hash without a server."""
        channel, service = self.observer.channel, self.observer.service
        owned = channel.owned()
        served = {name: b for b, names in service.served().items() for name in names}
        is_whole = bool(owned) and owned == served and service.open_gaps() == 0
        return is_whole and not channel.in_flight() and not channel.unowned(())

    def until(self, condition: Callable[[], bool], what: str, seconds: float = 20.0) -> float:
        """Waits on the outside world; returns the seconds, fails with the state of things."""
        started = time.monotonic()
        self.observer.update()
        while not condition():
            waited = time.monotonic() - started
            state = {k: str(v) for k, v in self.observer.channel.table.items()}
            assert waited < seconds, f"{what}: not after {waited:.1f} s: {state}"
            time.sleep(0.005)
            self.observer.update()
        return time.monotonic() - started

    def stop(self) -> None:
        for name in list(self.children.running):
            self.children.kill(name)
        self.children.stop_all()
        self.log.close()
