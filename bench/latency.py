"""Two latencies of the real job under load, as a consumer of the log sees them. Needs Java.

    python -m bench.latency --brokers 100 --bundles 100 --seconds 60

The job runs in a process of its own with a trigger of 250 ms, while every broker sends a
heartbeat a second and a full report every five. Measured: assignment request appended -> its
Assigning record readable on the channel; and a round due (tick + settle) -> its decision record
readable. The log is polled every 5 ms.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import numpy as np

from bench.load import CLUSTER, SETTINGS, broker_name, bundle_names, ownership, report
from bench.report import percentile
from controller.core.settings import RoundSettings
from controller.transport.embedded import EmbeddedLog
from controller.transport.place import TransportPlace
from controller.transport.port import OutRecord
from controller.wire.commands import Assign, encode_command
from controller.wire.reports import Heartbeat, encode_heartbeat
from streaming.job import create_topics
from streaming.plan import JobPlan
from streaming.process import run_plan

WARM_UP_S = 30.0  # the JVM compiles for that long; not measured
POLL_S = 0.005
ASK_EVERY_S = 0.37  # no multiple of the trigger, so that requests meet all its phases
REPORT_EVERY_S = 5
SETTLE_MS = RoundSettings().settle_ms
READ_MAX = 10_000


@dataclass
class Reader:
    """Follows a topic of one partition."""

    log: EmbeddedLog
    topic: str
    offset: int = 0

    def new(self) -> list[tuple[str | None, bytes]]:
        """Keys and values since the last call."""
        records = self.log.read(self.topic, 0, self.offset, READ_MAX)
        if records:
            self.offset = records[-1].offset + 1
        return [(record.key, record.value or b"null") for record in records]


@dataclass
class Figures:
    """Latencies in ms; `asked` are requests without an answer yet."""

    assign: list[float] = field(default_factory=list)
    rounds: list[float] = field(default_factory=list)
    asked: dict[str, float] = field(default_factory=dict)


def job_plan(folder: Path) -> JobPlan:
    rounds = RoundSettings(
        interval_ms=1_000,
        upkeep_interval_ms=1_000,
        settle_ms=SETTLE_MS,
        warmup_ms=0,
    )
    return JobPlan(
        transport=TransportPlace(path=str(folder / "log.db")),
        checkpoint=str(folder / "checkpoint"),
        clusters={CLUSTER: replace(SETTINGS, rounds=rounds)},
        trigger_ms=250,
    )


def traffic(brokers: int, names: list[str]) -> Iterator[list[OutRecord]]:
    """Records of each twentieth of a second, for ever."""
    rng = np.random.default_rng(1)
    ready = [report(b, names[b::brokers], 1, rng) for b in range(brokers)]
    parsed = [msgspec.json.decode(value) for value in ready]
    slot = 0
    while True:
        sequence = time.time_ns() // 1_000_000
        records = []
        for b in range(slot % 20, brokers, 20):
            key = f"{CLUSTER}/{broker_name(b)}"
            if (slot // 20) % REPORT_EVERY_S == b % REPORT_EVERY_S:
                value = msgspec.json.encode({**parsed[b], "sequence": sequence})
            else:
                beat = Heartbeat(
                    cluster=CLUSTER,
                    broker=broker_name(b),
                    sequence=sequence,
                    timestamp=sequence,
                )
                value = encode_heartbeat(beat)
            records.append(OutRecord(SETTINGS.reports_topic, key, value))
        yield records
        slot += 1


def observe(figures: Figures, channel: Reader, decisions: Reader) -> None:
    """Takes the time of everything new on the channel and in the decision log."""
    for key, _ in channel.new():
        asked = figures.asked.pop(key or "", None)
        if asked is not None:
            figures.assign.append((time.time() - asked) * 1_000)
    for _, value in decisions.new():
        line = msgspec.json.decode(value)
        if line["type"] == "round":
            figures.rounds.append(time.time() * 1_000 - line["tickMs"] - SETTLE_MS)


def drive(
    log: EmbeddedLog, plan: JobPlan, brokers: int, names: list[str], seconds: float
) -> Figures:
    """Sends the load and the requests; returns what was measured after the warm-up."""
    figures = Figures()
    channel = Reader(log, SETTINGS.channel_topic, log.end_offsets(SETTINGS.channel_topic)[0])
    decisions = Reader(log, plan.decisions_topic)
    load, fresh = traffic(brokers, names), deque(bundle_names(len(names) + 10_000)[len(names) :])
    while not decisions.new():
        log.append(next(load))
        time.sleep(0.05)
    began = next_load = next_ask = time.time()
    is_warm = False
    while time.time() < began + WARM_UP_S + seconds:
        now = time.time()
        if not is_warm and now > began + WARM_UP_S:
            figures, is_warm = Figures(), True
        if now >= next_load:
            log.append(next(load))
            next_load += 0.05
        if now >= next_ask:
            name = fresh.popleft()
            command = encode_command(Assign(bundle=name, requestedBy="bench"))
            figures.asked[name] = time.time()
            log.append([OutRecord(SETTINGS.commands_topic, f"{CLUSTER}/bench", command)])
            next_ask += ASK_EVERY_S
        observe(figures, channel, decisions)
        time.sleep(POLL_S)
    return figures


def measure(brokers: int, bundles: int, seconds: float) -> Figures:
    """Runs the job beside the load."""
    with tempfile.TemporaryDirectory() as folder:
        plan = job_plan(Path(folder))
        log = EmbeddedLog(plan.transport.path)
        create_topics(plan, log)
        names = bundle_names(brokers * bundles)
        log.append(
            [
                OutRecord(SETTINGS.channel_topic, name, value)
                for name, value in ownership(brokers, names)
            ]
        )
        with (Path(folder) / "out").open("wb") as out:
            command = [sys.executable, "-m", "bench.latency", "--job", folder]
            job = subprocess.Popen(command, stdout=out, stderr=out)
        try:
            return drive(log, plan, brokers, names, seconds)
        finally:
            job.terminate()
            job.wait(30)


def main() -> None:
    """Prints p50 and p99, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--brokers", type=int, default=100)
    parser.add_argument("--bundles", type=int, default=100, help="bundles of each broker")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--job", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job is not None:
        sys.exit(run_plan(job_plan(options.job)))
    figures = measure(options.brokers, options.bundles, options.seconds)
    rows = {"assignment": figures.assign, "round": figures.rounds}
    summary = {
        name: {"n": len(v), "p50": percentile(v, 0.5), "p99": percentile(v, 0.99)}
        for name, v in rows.items()
    }
    if options.json:
        print(json.dumps({"latency_ms": summary, "unanswered": len(figures.asked)}))
        return
    for name, row in summary.items():
        print(f"{name:12s} n {row['n']:5d}  p50 {row['p50']:7.1f} ms  p99 {row['p99']:7.1f} ms")
    print(f"requests without an answer at the end: {len(figures.asked)}")


if __name__ == "__main__":
    main()
