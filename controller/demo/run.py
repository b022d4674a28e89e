"""The demo's play: start-up, the run with its three events, the end.

Order: topics; the controller's job and six simulated brokers as processes; assignment requests
for every bundle, as the lookups of clients would send them; when every bundle is served, the
run begins and its length counts. At a quarter a seventh broker joins, at a third the growing
bundle passes the split threshold (by the workload's own clock), at half the broker with most
bundles is killed. However it ends, no process is left. Called by `bundlectl demo`.
"""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from controller.agent.own_log import steady_clock
from controller.config import ConfigError
from controller.demo.children import Children
from controller.demo.observer import Observer
from controller.demo.plan import DemoPlan, make_plan
from controller.demo.summary import Summary, complaints, in_words, summarize, write_json
from controller.demo.view import Phase, Screen
from controller.devkafka import Broker
from controller.sim.process import ProcessSpec, write_spec
from controller.sim.workload import Workload
from controller.transport.errors import BusyError, UnreachableError
from controller.transport.place import open_transport
from controller.transport.port import OutRecord, Transport
from controller.wire.commands import Assign, encode_command

JOIN_SHARE, KILL_SHARE = 0.25, 0.5
"""When the seventh broker joins and one is killed, as shares of the run."""

LOOP_S = 0.2
"""Pace of watching; two frames of the view and a tenth of a report interval."""

REQUEST_CHUNK = 32
"""Assignment requests per append, as if 32 clients looked their topics up at once."""

REQUEST_AGAIN_S = 4.0
"""Clients ask again for bundles that are still unowned."""

STARTUP_MAX_S = 180.0
"""Spark and seven Python processes start within 15 to 60 s on a laptop."""

JUDGED_FROM_S = 60
"""Shorter runs are shown but not judged by their balance: hit counts and cool-downs need time."""

OK, FAILED, NOT_CONVERGED, INTERRUPTED = 0, 1, 4, 130
JOB = "job"


class DemoError(Exception):
    """The demo cannot go on; the text says why and where to look."""


@dataclass(slots=True)
class Demo:
    """One run; `play` does it all."""

    plan: DemoPlan
    workload: Workload
    seconds: int
    is_forever: bool
    screen: Screen
    children: Children
    transport: Transport
    observer: Observer
    doomed: str | None = None
    _asked_s: float = field(default=float("-inf"))

    def play(self) -> None:
        """Start-up, then the run; returns when the time is over."""
        self._start_up()
        started_s = time.monotonic()
        self.plan.start_file.write_text(f"{self.observer.clock():.3f}")
        self.observer.start()
        while True:
            elapsed_s = time.monotonic() - started_s
            if not self.is_forever and elapsed_s >= self.seconds:
                return
            self._events(elapsed_s)
            self._request_unowned(REQUEST_AGAIN_S)
            self._watch(self._phase(elapsed_s))

    def start_broker(self, number: int) -> str:
        """Starts one simulated broker as a process."""
        broker = f"broker-{number}"
        spec = ProcessSpec(
            transport=self.plan.transport.with_busy_wait(self.plan.broker_wait_ms),
            cluster=self.plan.cluster,
            broker=broker,
            own_log=str(self.plan.own_logs / f"{broker}.jsonl"),
            boundaries=str(self.plan.boundaries),
            start_file=str(self.plan.start_file),
            clock_offset_ms=self.plan.clock_offset_ms,
            agent=self.plan.agent,
            runtime=self.plan.runtime,
            workload=self.workload.spec,
        )
        path = self.plan.directory / f"{broker}.json"
        write_spec(spec, path)
        self.children.start(broker, [sys.executable, "-m", "controller.sim.process", str(path)])
        return broker

    # ------------------------------------------------------------------------- start-up

    def _start_up(self) -> None:
        started_s = time.monotonic()
        self.screen.say(f"Run directory: {self.plan.directory}")
        self.screen.say("Starting the controller's Spark job and six simulated brokers ...")
        self.children.start(JOB, self.plan.job_command)
        for number in range(1, self.plan.brokers + 1):
            self.start_broker(number)
        total = len(self.workload.bundle_names())
        while True:
            elapsed_s = time.monotonic() - started_s
            if elapsed_s > STARTUP_MAX_S:
                raise DemoError(
                    f"not all bundles are served after {STARTUP_MAX_S:.0f} s; "
                    f"the last lines of the job's log:\n{self._job_tail()}"
                )
            service = self.observer.service
            served = sum(len(bundles) for bundles in service.served().values())
            if served >= total and service.has_fresh_loads():
                self.screen.say(f"All {total} bundles are served; start-up {elapsed_s:.0f} s.")
                return
            self._watch(Phase(self._startup_text(served, total), elapsed_s, None))
            if self.observer.decisions.rounds > 0:
                self._request_unowned(REQUEST_AGAIN_S)

    def _startup_text(self, served: int, total: int) -> str:
        if self.observer.decisions.rounds == 0:
            live = len(self.observer.service.live)
            return f"start-up: {live} brokers are up, waiting for Spark's first round"
        return f"start-up: {served} of {total} bundles are assigned and served"

    # -------------------------------------------------------------------------- the run

    def _events(self, elapsed_s: float) -> None:
        newcomer = f"broker-{self.plan.brokers + 1}"
        if elapsed_s >= JOIN_SHARE * self.seconds and newcomer not in self.children.started:
            self.start_broker(self.plan.brokers + 1)
            self.screen.say(f"{newcomer} joins.")
        if elapsed_s >= KILL_SHARE * self.seconds and self.doomed is None:
            served = self.observer.service.served()
            self.doomed = max(sorted(served), key=lambda broker: len(served[broker]))
            self.children.kill(self.doomed)
            self.observer.died(self.doomed, self.observer.clock())
            orphans = len(served[self.doomed])
            self.screen.say(f"{self.doomed} is killed (SIGKILL); it served {orphans} bundles.")

    def _phase(self, elapsed_s: float) -> Phase:
        left_s = None if self.is_forever else self.seconds - elapsed_s
        if elapsed_s < JOIN_SHARE * self.seconds:
            wait_s = JOIN_SHARE * self.seconds - elapsed_s
            return Phase(f"balancing; a 7th broker joins in {wait_s:.0f} s", elapsed_s, left_s)
        if self.doomed is None:
            wait_s = KILL_SHARE * self.seconds - elapsed_s
            return Phase(
                f"a 7th broker has joined, a bundle outgrows the split threshold; "
                f"a broker is killed in {wait_s:.0f} s",
                elapsed_s,
                left_s,
            )
        takeover_s = self.observer.takeover_s()
        if takeover_s is None:
            text = f"{self.doomed} is dead; its bundles wait until its lease has surely run out"
        else:
            text = f"{self.doomed} is dead; its bundles were taken over after {takeover_s:.1f} s"
        return Phase(text, elapsed_s, left_s)

    def _watch(self, phase: Phase) -> None:
        """One turn: look, draw, check that everybody lives, pause."""
        turn_s = time.monotonic()
        with suppress(BusyError):  # others write; what is missed now is read in the next turn
            self.observer.update()
        self.screen.show(self.observer, phase)
        for child in self.children.ended():
            tail = "\n".join(child.tail(25))
            raise DemoError(
                f"{child.name} ended with status {child.process.returncode}; "
                f"its last lines ({child.output}):\n{tail}"
            )
        time.sleep(max(LOOP_S - (time.monotonic() - turn_s), 0.0))

    def _request_unowned(self, again_s: float) -> None:
        """Plays the clients: their lookups ask for an owner of every unowned bundle."""
        now_s = time.monotonic()
        if now_s - self._asked_s < again_s:
            return
        wanted = self.observer.channel.unowned(self.workload.bundle_names())
        if not wanted:
            return
        self._asked_s = now_s
        for at in range(0, len(wanted), REQUEST_CHUNK):
            self._append([self._request(name) for name in wanted[at : at + REQUEST_CHUNK]])

    def _request(self, bundle: str) -> OutRecord:
        command = Assign(bundle=bundle, requestedBy="client-lookup", who="demo")
        key = f"{self.plan.cluster}/client-lookup"
        return OutRecord(self.plan.commands_topic, key, encode_command(command))

    def _append(self, records: list[OutRecord]) -> None:
        try:
            self.transport.append(records)
        except (BusyError, UnreachableError):
            self._asked_s = float("-inf")  # the next turn asks again

    def _job_tail(self) -> str:
        job = self.children.running.get(JOB)
        return "\n".join(job.tail(25)) if job is not None else "(the job has ended)"


def run_demo(
    seconds: int,
    forever: bool = False,
    summary: Path | None = None,
    config: Path | None = None,
    is_on_kafka: bool = False,
) -> int:
    """Plays the demo and prints the summary; the exit status of `bundlectl demo`.

    0 = done; 1 = it failed, or the observer saw violations; 4 = a run of full length did not end
    balanced; 130 = interrupted, unless it was to run without end. `is_on_kafka`: on a broker that
    is started for it and stopped at the end. Raises ConfigError for a bad configuration,
    BrokerError and JarsError.
    """
    if summary is not None and not summary.resolve().parent.is_dir():
        raise FileNotFoundError(f"there is no directory {summary.parent} for the summary: make it")
    directory = Path(tempfile.mkdtemp(prefix="bundle-demo-"))
    with ExitStack() as stack:
        place = _kafka(directory, stack) if is_on_kafka else None
        try:
            plan = make_plan(config, directory, place)
        except ConfigError:
            shutil.rmtree(directory)
            raise
        workload = Workload(
            replace(
                plan.workload, run_ms=max(seconds, 1) * 1_000, growing_topics=plan.split_topics_max
            )
        )
        transport = open_transport(plan.transport)
        stack.callback(transport.close)
        for topic, (partitions, cleanup) in plan.topics.items():
            transport.create_topic(topic, partitions, cleanup)
        observer = Observer(
            transport,
            plan.own_logs,
            plan.channel_topic,
            plan.decisions_topic,
            clock=steady_clock(plan.clock_offset_ms),
        )
        return _run(plan, workload, transport, observer, seconds, forever, summary)


def _kafka(directory: Path, stack: ExitStack) -> dict[str, object]:
    """Starts a broker for the demo; the keys that lead to it."""
    print("Starting a Kafka broker (its jars are fetched the first time) ...", flush=True)
    broker = stack.enter_context(Broker(directory / "kafka"))
    print(f"Kafka runs at {broker.bootstrap}, process {broker.pid}.", flush=True)
    return {"transport.kind": "kafka", "transport.kafka.bootstrap_servers": broker.bootstrap}


def _run(
    plan: DemoPlan,
    workload: Workload,
    transport: Transport,
    observer: Observer,
    seconds: int,
    forever: bool,
    summary: Path | None,
) -> int:
    screen = Screen()
    is_complete = True
    try:
        with _sigterm_interrupts(), Children(plan.directory) as children, screen:
            demo = Demo(plan, workload, seconds, forever, screen, children, transport, observer)
            demo.play()
            observer.update(is_last=True)
    except DemoError as error:
        screen.say(f"The demo failed: {error}")
        return FAILED
    except KeyboardInterrupt:
        screen.say("Interrupted; all processes are stopped.")
        if observer.started_ms is None:
            return INTERRUPTED
        is_complete = False
    result = _conclude(screen, observer, summary)
    if result.violations:
        return FAILED
    if not is_complete:  # the only end that a run without end has
        return OK if forever else INTERRUPTED
    return _judge(screen, observer, result) if seconds >= JUDGED_FROM_S else OK


def _conclude(screen: Screen, observer: Observer, summary: Path | None) -> Summary:
    result = summarize(observer)
    screen.say("")
    for line in in_words(result, observer):
        screen.say(line)
    if summary is not None:
        write_json(result, summary)
        screen.say(f"Summary written to {summary}")
    return result


def _judge(screen: Screen, observer: Observer, result: Summary) -> int:
    found = complaints(result, observer)
    if not found:
        return OK
    screen.say("Not as it should be: " + "; ".join(found) + ".")
    return NOT_CONVERGED


@contextmanager
def _sigterm_interrupts() -> Iterator[None]:
    """SIGTERM ends the demo as Ctrl-C does: with all children stopped."""

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
