"""One simulated broker as a process of its own: agent runtime, simulated broker, own log.

`python -m controller.sim.process SPEC.json` runs what a `ProcessSpec` says until SIGTERM or
Ctrl-C, on which the agent leaves: it waits until its bundles are taken, as long as
`runtime.shutdown_wait_ms` allows; a second signal ends the waiting, a third the process.
`bundlectl agent --simulated` and the demo come through here. Exit status 0 after a clean stop,
1 when the log cannot be opened.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from controller.agent.own_log import OwnLog, clock_offset_ms, steady_clock, wall_ms
from controller.agent.runtime import AgentRuntime, RuntimeSettings
from controller.agent.state import AgentSettings
from controller.config.sections import JobConfig
from controller.logs import configure_logs
from controller.sim.boundaries import Boundaries, FileBoundaries, create_namespaces
from controller.sim.broker import Capacity, SimulatedBroker
from controller.sim.workload import Workload, WorkloadSpec
from controller.transport.errors import TransportError
from controller.transport.place import TransportPlace, open_transport

CREATE_WAIT_S = 10.0
"""All brokers of a cluster may start at once, and each creates the namespaces."""


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """All that a simulated broker needs to know; written to a file by who starts it."""

    transport: TransportPlace
    cluster: str
    broker: str
    own_log: str
    boundaries: str | None = None  # file of the cluster's boundaries; None = beside the log
    start_file: str | None = None  # holds the start of the workload's time, once it has begun
    clock_offset_ms: float | None = None  # of the own log; None = measured by the process
    agent: AgentSettings = field(default_factory=AgentSettings)
    runtime: RuntimeSettings = field(default_factory=RuntimeSettings)
    capacity: Capacity = field(default_factory=Capacity)
    workload: WorkloadSpec = field(default_factory=WorkloadSpec)


class WorkloadTime:
    """Milliseconds since the start of the workload, the same in all processes.

    The start stands in a small file (wall ms since 1970) that somebody writes when the run
    begins; before that the time stands at 0. Without a file, the process's own start counts.
    """

    def __init__(self, start_file: Path | None, clock: Callable[[], float] = wall_ms) -> None:
        self._start_file = start_file
        self._clock = clock
        self._started_ms: float | None = clock() if start_file is None else None

    def elapsed_ms(self) -> float:
        """See the class text."""
        if self._started_ms is None:
            self._started_ms = self._read()
        return 0.0 if self._started_ms is None else max(self._clock() - self._started_ms, 0.0)

    def _read(self) -> float | None:
        assert self._start_file is not None
        try:
            return float(self._start_file.read_text())
        except (FileNotFoundError, ValueError):  # not there yet, or half written
            return None


def run_simulated(
    spec: ProcessSpec, stop: threading.Event, hurry: threading.Event | None = None
) -> int:
    """Serves as `spec` says until `stop` is set, then leaves; the exit status."""
    try:
        transport = open_transport(spec.transport)
    except TransportError as error:
        print(f"agent {spec.broker}: {error}", file=sys.stderr)
        return 1
    offset_ms = clock_offset_ms() if spec.clock_offset_ms is None else spec.clock_offset_ms
    clock = steady_clock(offset_ms)
    own_log = OwnLog(Path(spec.own_log), spec.broker, clock)
    start_file = None if spec.start_file is None else Path(spec.start_file)
    time = WorkloadTime(start_file, clock)
    workload = Workload(spec.workload)
    broker = SimulatedBroker(
        workload, spec.capacity, own_log, time.elapsed_ms, _boundaries(spec, workload)
    )
    runtime = AgentRuntime(spec.cluster, spec.broker, broker, transport, spec.agent, spec.runtime)
    try:
        runtime.run(stop, hurry)
    finally:
        transport.close()
        own_log.close()
    return 0


def _boundaries(spec: ProcessSpec, workload: Workload) -> Boundaries:
    """The cluster's boundaries, with the workload's namespaces in them."""
    path = f"{spec.transport.path}.boundaries" if spec.boundaries is None else spec.boundaries
    boundaries = FileBoundaries(Path(path), CREATE_WAIT_S)
    create_namespaces(boundaries, workload.bundle_names())
    return FileBoundaries(Path(path))


def run_agent(config: JobConfig, cluster: str, broker: str, own_log: Path | None = None) -> int:
    """Runs a simulated broker of a configured cluster until SIGTERM; the exit status.

    `own_log` None puts the own log beside the transport's file, as `<broker>.jsonl`. Raises
    KeyError for a cluster that the configuration does not name.
    """
    beside = Path(config.transport.path).parent / "own" / f"{broker}.jsonl"
    spec = ProcessSpec(
        transport=config.transport.with_busy_wait(config.agent.busy_wait_ms),
        cluster=cluster,
        broker=broker,
        own_log=str(own_log or beside),
        agent=config.agent_settings(),
        runtime=config.runtime_settings(cluster),
    )
    return run_until_signal(spec)


def run_until_signal(spec: ProcessSpec) -> int:
    """`run_simulated`, ended by signals: see the module text."""
    stop, hurry = threading.Event(), threading.Event()

    def asked_to_stop(number: int, _frame: object) -> None:
        if stop.is_set():
            hurry.set()
            signal.signal(number, signal.SIG_DFL)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, asked_to_stop)
    return run_simulated(spec, stop, hurry)


def read_spec(path: Path) -> ProcessSpec:
    """A spec from its file; raises `msgspec.ValidationError` naming the field."""
    return msgspec.json.decode(path.read_bytes(), type=ProcessSpec)


def write_spec(spec: ProcessSpec, path: Path) -> None:
    """Writes a spec for `python -m controller.sim.process`."""
    path.write_bytes(msgspec.json.encode(spec))


def main(arguments: list[str] | None = None) -> int:
    """Entry of the process."""
    given = sys.argv[1:] if arguments is None else arguments
    if len(given) != 1:
        print("usage: python -m controller.sim.process SPEC.json", file=sys.stderr)
        return 2
    configure_logs()
    return run_until_signal(read_spec(Path(given[0])))


if __name__ == "__main__":
    sys.exit(main())
