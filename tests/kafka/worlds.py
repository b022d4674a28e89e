"""A job on a real broker, what is sent to it, and a judge who reads committed records only."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec

from controller.core.settings import ActionSettings
from controller.transport.errors import TransportError
from controller.transport.kafka.log import KafkaLog
from controller.transport.kafka.settings import KafkaSettings
from controller.transport.place import TransportPlace
from controller.transport.port import LogRecord, OutRecord
from controller.wire.commands import Assign, Command, Transfer, encode_command
from streaming.faults import VARIABLE
from streaming.plan import JobPlan
from streaming.topics import create_topics
from tests.streaming.worlds import SETTINGS, bundle, load_report

ROOT = Path(__file__).parents[2]
CLUSTER = "east"
FOREVER_MS = 10**9  # nothing expires, nothing is repaired: every record has one cause
PACE_S = 0.1
PATIENCE_S = 90.0


def kafka_plan(folder: Path, settings: KafkaSettings, end: str, **changes: object) -> JobPlan:
    """A job of its own on a broker that others use too; `end` is in all its names."""
    actions = ActionSettings(decision_ttl_ms=FOREVER_MS, in_flight_timeout_ms=FOREVER_MS)
    cluster = replace(
        SETTINGS,
        actions=actions,
        is_paced_by_ticks=True,
        reports_topic=f"reports-{end}",
        commands_topic=f"commands-{end}",
        channel_topic=f"channel-{end}",
    )
    made = JobPlan(
        transport=TransportPlace(kind="kafka", kafka=settings, busy_wait_ms=8_000),
        checkpoint=str(folder / "checkpoint"),
        clusters={CLUSTER: cluster},
        name=f"job-{end}",
        decisions_topic=f"decisions-{end}",
        dead_letters_topic=f"dead-{end}",
        report_partitions=2,
        trigger_ms=100,
        lease_ttl_ms=3_000,
    )
    return replace(made, **changes)


class Job:
    """The job as a process that leads a group; started again at will."""

    def __init__(self, folder: Path, settings: KafkaSettings, end: str) -> None:
        self.folder, self.settings, self.end = folder, settings, end
        self.plan = kafka_plan(folder, settings, end)
        self.output = folder / "out"
        self.process: subprocess.Popen[bytes] | None = None
        log = KafkaLog(settings)
        create_topics(self.plan, log)
        log.close()

    def start(self, fault: str = "", **changes: object) -> None:
        spec = self.folder / f"spec-{uuid4().hex[:6]}.json"
        kafka = msgspec.to_builtins(self.settings)
        spec.write_text(
            json.dumps([str(self.folder), kafka, self.end, {"may_adopt": True, **changes}])
        )
        environment = dict(os.environ)
        if fault:
            environment[VARIABLE] = fault
        with self.output.open("ab") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.kafka.job_process", str(spec)],
                cwd=ROOT, env=environment, stdout=out, stderr=out, start_new_session=True,
            )  # fmt: skip

    def wait(self, seconds: float = 120) -> int:
        """The status it ends with; what it had started must end by itself too."""
        assert self.process is not None
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still runs after {seconds} s:\n{self.tail()}") from None
        deadline = time.monotonic() + 30
        while self._has_group() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not self._has_group(), "something of the job outlives its driver"
        return status

    def stop(self) -> int:
        assert self.process is not None
        self.process.terminate()
        return self.wait(60)

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        os.killpg(self.process.pid, number)

    def end_all(self) -> None:
        if self.process is not None and self._has_group():
            self.signal(signal.SIGKILL)
            self.process.wait(30)

    def last_batch(self) -> int:
        folder = self.folder / "checkpoint" / "commits"
        return max((int(p.name) for p in folder.glob("*") if p.name.isdecimal()), default=-1)

    def tail(self) -> str:
        return self.output.read_text(errors="replace")[-3_000:] if self.output.exists() else ""

    def _has_group(self) -> bool:
        assert self.process is not None
        try:
            os.killpg(self.process.pid, 0)
        except ProcessLookupError:
            return False
        return True


class Feeder:
    """Three brokers that report, clients that ask, an operator who commands: a thread.

    What was acknowledged is `asked` and `commanded`; what failed on the way may be there or not.
    """

    def __init__(self, plan: JobPlan) -> None:
        self._plan = plan
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.asked: list[str] = []
        self.commanded: list[str] = []
        self.failures = 0

    def start(self) -> Feeder:
        self._thread.start()
        return self

    def stop(self) -> None:
        self._done.set()
        self._thread.join(30)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        log = KafkaLog(self._plan.transport.kafka, 3_000)
        number = 0
        while not self._done.wait(PACE_S):
            number += 1
            try:
                if number % 5 == 1:
                    log.append(self._reports(number))
                self._send(log, number)
            except TransportError:
                self.failures += 1
        log.close()

    def _reports(self, number: int) -> list[OutRecord]:
        made = [load_report(CLUSTER, broker, number) for broker in ("b1", "b2", "b3")]
        return [replace(one, topic=self._plan.report_topics[0]) for one in made]

    def _send(self, log: KafkaLog, number: int) -> None:
        name, command_id = bundle_name(number), f"c{number}"
        move = Transfer(bundle=bundle(0), destination="b2", who="test", id=command_id)
        log.append([self._record(Assign(bundle=name, requestedBy="client")), self._record(move)])
        self.asked.append(name)
        self.commanded.append(command_id)

    def _record(self, command: Command) -> OutRecord:
        return OutRecord(self._plan.commands_topic, f"{CLUSTER}/test", encode_command(command))


def _id_of(line: dict[str, Any]) -> str:
    return str(line.get("command", {}).get("id"))


def bundle_name(number: int) -> str:
    return f"t/n{number}/0x00000000_0xffffffff"


class Judge:
    """What readers of committed records see of a job."""

    def __init__(self, plan: JobPlan) -> None:
        self._plan = plan
        self._log = KafkaLog(plan.transport.kafka)

    def close(self) -> None:
        self._log.close()

    def records(self, topic: str) -> list[LogRecord]:
        parts = self._log.end_offsets(topic)
        found = [self._log.read(topic, part, 0, 1_000_000) for part in parts]
        for records in found:
            offsets = [one.offset for one in records]
            assert offsets == sorted(set(offsets)), "each record is read once"
        return [one for records in found for one in records]

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(one.value or b"") for one in self.records(self._plan.decisions_topic)]

    def answers(self) -> Counter[str]:
        """How often each command was answered."""
        return Counter(_id_of(line) for line in self.lines() if "command" in line)

    def assigned(self) -> Counter[str]:
        """How often each bundle was assigned on the channel."""
        return Counter(one.key or "" for one in self.records(self._plan.channels[CLUSTER]))

    def rounds(self) -> list[int]:
        return [line["round"] for line in self.lines() if line["type"] == "round"]

    def dead_letters(self) -> list[dict[str, Any]]:
        return [json.loads(one.value or b"") for one in self.records(self._plan.dead_letters_topic)]

    def doubled(self) -> list[str]:
        """Everything that was said more than once."""
        twice = [
            key
            for counts in (self.answers(), self.assigned())
            for key, times in counts.items()
            if times > 1
        ]
        return twice + [str(n) for n, times in Counter(self.rounds()).items() if times > 1]

    def epochs(self) -> list[int]:
        """Epochs of the leases that the decisions were written under, in their order."""
        records = self.records(self._plan.decisions_topic)
        return [int(dict(one.headers)["epoch"]) for one in records]

    def assert_placed_once(self, feeder: Feeder) -> None:
        """Waits until all that was asked has its answer; the channel has every placement once."""
        await_so(lambda: set(feeder.commanded) <= set(self.answers()), "all commands are answered")
        await_so(lambda: set(feeder.asked) <= set(self.assigned()), "all bundles are assigned")
        twice = {key for key, times in self.assigned().items() if times > 1}
        records = self.records(self._plan.channels[CLUSTER])
        shown = [(r.offset, r.ingest_ms, r.headers, r.value) for r in records if r.key in twice]
        assert not twice, shown

    def assert_once(self, feeder: Feeder) -> None:
        """The same, and the decision log of one checkpoint says everything once."""
        self.assert_placed_once(feeder)
        doubled = self.doubled()
        assert not doubled, [line for line in self.lines() if _id_of(line) in doubled]
        rounds = self.rounds()
        assert rounds == list(range(rounds[0], rounds[0] + len(rounds))), "rounds follow each other"


class World:
    """Job, feeder and judge on topics of their own."""

    def __init__(self, folder: Path, settings: KafkaSettings, end: str) -> None:
        self.job = Job(folder, settings, end)
        self.feeder, self.judge = Feeder(self.job.plan).start(), Judge(self.job.plan)
        self.settings = settings

    def dies(self, fault: str) -> None:
        """Starts the job with a fault and waits for its death."""
        at = fault.format(next=self.job.last_batch() + 4)
        self.job.start(at)
        status = self.job.wait()
        expected = {1, 75} if at.endswith(":jvm") else {-signal.SIGKILL}
        assert status in expected, f"{at} ended with {status}:\n{self.job.tail()}"
        print(f"{at}: died, {len(self.judge.rounds())} rounds so far")

    def concludes(self) -> None:
        """Runs on without faults, stops cleanly, and is judged."""
        rounds = len(self.judge.rounds())
        self.job.start()
        await_so(lambda: len(self.judge.rounds()) > rounds + 4, f"goes on:\n{self.job.tail()}")
        self.feeder.stop()
        self.judge.assert_once(self.feeder)
        assert self.job.stop() == 0, self.job.tail()

    def close(self) -> None:
        self.feeder.stop()
        self.judge.close()
        self.job.end_all()


def await_so(is_so: Callable[[], object], what: str, seconds: float = PATIENCE_S) -> float:
    started = time.monotonic()
    while not is_so():
        assert time.monotonic() - started < seconds, f"not after {seconds} s: {what}"
        time.sleep(0.1)
    return time.monotonic() - started
