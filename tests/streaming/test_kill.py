"""Real processes, really killed: what they decide together is what one undisturbed run decides."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from controller.core.inputs import RawRecord
from controller.core.settings import Settings
from controller.core.state import new_state
from controller.core.step import step
from controller.transport.embedded import EmbeddedLog
from controller.transport.port import OutRecord
from controller.wire.commands import Transfer
from streaming.faults import VARIABLE
from streaming.plan import JobPlan
from tests.streaming.worlds import heartbeat, new_log, plan, values
from tests.world import CLUSTER, SETTINGS, World

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(400)]

ROOT = Path(__file__).parents[2]
ROWS = 12  # records per batch, so that the recorded log takes many batches
NEVER_EXPIRES_MS = 10**14  # the recorded log is old; a sink would refuse to act on it
POINTS = ("operator", "state_commit", "before_publish", "after_publish")  # and start_up


def world_settings() -> Settings:
    return replace(SETTINGS, actions=replace(SETTINGS.actions, decision_ttl_ms=NEVER_EXPIRES_MS))


def world_plan(folder: Path) -> JobPlan:
    return plan(folder, rows_max=ROWS, trigger_ms=100, clusters={CLUSTER: world_settings()})


def record_world(job: JobPlan) -> int:
    """A world with a hot broker, recorded into the job's log; the time of its last record."""
    bundles = {f"t/n/0x{n << 26:08x}_0x{(n + 1) << 26:08x}": 100.0 + n for n in range(16)}
    world = World(brokers={"b1": 1_200.0, "b2": 5_000.0, "b3": 5_000.0}, bundles=bundles)
    names = sorted(bundles)
    for at in range(0, len(names), 4):  # requests, and later commands, spread over many batches
        world.run(1_200).ask(names[at : at + 4])
    world.run(8_000)
    for name in names[:4]:
        other = "b2" if world.owners[name] == "b3" else "b3"
        world.command(Transfer(bundle=name, destination=other, who="test"))
        world.run(1_500)
    now = [0]
    log = new_log(job, clock=lambda: now[0])
    for record in world.log:
        now[0] = record.ingest_ms
        log.append([OutRecord(record.topic, record.key, record.value)])
    log.close()
    return now[0]


def expected(job: JobPlan, log: EmbeddedLog) -> tuple[list[bytes], list[bytes]]:
    """Decision-log lines and channel values that one step over the recorded log gives."""
    result = step(new_state(CLUSTER, world_settings()), inputs(job, log), 0, world_settings())
    return list(result.rounds), [write.value for write in result.records]


def inputs(job: JobPlan, log: EmbeddedLog) -> list[RawRecord]:
    columns = log.read_columns(0, log.end_sequence(), job.source_topics, 1_000_000)
    _, topics, partitions, offsets, keys, contents, times = columns
    return list(map(RawRecord, times, topics, partitions, offsets, keys, contents))


def faults(job: JobPlan, log: EmbeddedLog) -> list[str]:
    """Deaths at start-up, and at each point in a batch of its own that writes to the channel."""
    records, state, busy = inputs(job, log), new_state(CLUSTER, world_settings()), []
    for number, start in enumerate(range(0, len(records), ROWS)):
        result = step(state, records[start : start + ROWS], 0, world_settings())
        state = result.state
        if result.records:
            busy.append(number)
    assert len(busy) >= len(POINTS), "each point needs a batch that decides something"
    chosen = [busy[i * len(busy) // len(POINTS)] for i in range(len(POINTS))]
    return ["start_up:0", *[f"{p}:{n}" for p, n in zip(POINTS, chosen, strict=True)]]


def start(folder: Path, fault: str = "") -> subprocess.Popen[bytes]:
    environment = {**os.environ, VARIABLE: fault} if fault else dict(os.environ)
    with (folder / "out").open("ab") as out:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.streaming.job_process", str(folder)],
            cwd=ROOT,
            env=environment,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )


def await_lines(log: EmbeddedLog, topic: str, count: int, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + 60
    while len(values(log, topic)) < count:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.1)


def test_killed_anywhere_nothing_is_lost_or_published_twice(tmp_path: Path) -> None:
    job = world_plan(tmp_path)
    last_ms = record_world(job)
    log = EmbeddedLog(job.transport.path)
    lines, writes = expected(job, log)
    channel = job.channels[CLUSTER]
    recorded = len(values(log, channel))
    assert len(lines) > 10 and len(writes) > 3, "the recorded world must give something to do"

    for fault in faults(job, log):
        process = start(tmp_path, fault)
        died = process.wait(60) == -signal.SIGKILL
        assert died, f"{fault}: {(tmp_path / 'out').read_text()[-3_000:]}"
    seen = len(values(log, job.decisions_topic))
    assert any(b'"hitsLow":1' in line for line in lines), "hit counts run across the deaths"
    process = start(tmp_path)
    await_lines(log, job.decisions_topic, max(len(lines), seen) + 4, process)
    process.send_signal(signal.SIGTERM)
    stopped = time.monotonic()
    assert process.wait(20) == 0
    assert time.monotonic() - stopped < 10

    decided = [line for line in values(log, job.decisions_topic) if clock_of(line) <= last_ms]
    published = values(log, channel)[recorded:]
    assert decided == lines
    assert published[: len(writes)] == writes
    ids = [msgspec.json.decode(value)["decisionId"] for value in published]
    assert len(ids) == len(set(ids))
    records = map(msgspec.json.decode, values(log, job.decisions_topic))
    rounds = [record["round"] for record in records if record["type"] == "round"]
    assert rounds == list(range(1, len(rounds) + 1))


def clock_of(line: bytes | None) -> int:
    return msgspec.json.decode(line)["clockMs"]


def test_a_second_job_waits_for_the_lease_and_says_who_holds_it(tmp_path: Path) -> None:
    job = world_plan(tmp_path)
    log = new_log(job)
    log.append([heartbeat(CLUSTER, "b1", 1)])
    lease = log.acquire_lease(job.name, "somebody-else", 600_000)
    process = start(tmp_path)
    assert process.wait(60) == 1
    assert "held by somebody-else" in (tmp_path / "out").read_text()
    log.release_lease(lease)


def test_losing_the_lease_ends_the_job(tmp_path: Path) -> None:
    job = world_plan(tmp_path)
    log = new_log(job)
    log.append([heartbeat(CLUSTER, "b1", 1)])
    process = start(tmp_path)
    await_lines(log, job.decisions_topic, 1, process)
    with log.store.writing() as connection:  # a clock that jumped: the lease ran out unnoticed
        connection.execute("UPDATE leases SET expires_ms = 0")
    log.acquire_lease(job.name, "somebody-else", 60_000)
    assert process.wait(30) == 1
    text = (tmp_path / "out").read_text()
    assert "bundle-controller: " in text and "lease" in text.splitlines()[-1]


def test_a_stop_while_spark_starts_leaves_no_process_behind(tmp_path: Path) -> None:
    process = start(tmp_path)
    deadline = time.monotonic() + 30
    while not any(b"java" in line for line in group_of(process.pid)):
        assert process.poll() is None and time.monotonic() < deadline, "no JVM was started"
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
    time.sleep(0.5)  # a killed process takes a moment to go
    assert group_of(process.pid) == []


def group_of(group: int) -> list[bytes]:
    """Command lines of the processes of a group."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rpartition(")")[2].split()[2]) == group:
                found.append((stat.parent / "cmdline").read_bytes())
        except OSError:
            continue  # it has ended meanwhile
    return [line for line in found if line]
