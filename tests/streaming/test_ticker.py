"""Ticks come when they are due, and a log that takes none ends the job."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import msgspec

from controller.core.settings import RoundSettings
from controller.transport.embedded import EmbeddedLog
from streaming.halt import Halt
from streaming.lease import LeaseKeeper
from streaming.ticker import Ticker
from tests.streaming.worlds import new_log, plan

ROUNDS = RoundSettings(interval_ms=200, upkeep_interval_ms=100, settle_ms=30)
PATIENCE_S = 20.0


def test_every_cluster_gets_a_tick_after_each_upkeep_interval_and_its_settle_time(
    tmp_path: Path,
) -> None:
    job = plan(tmp_path)
    log = new_log(job)
    rounds = {"east": ROUNDS, "west": ROUNDS}
    halt = Halt()
    ticker = Ticker(lambda: EmbeddedLog(job.transport.path), rounds, "controller-commands", halt)
    ticker.start()
    deadline = time.monotonic() + PATIENCE_S
    while len(log.read("controller-commands", 0, 0, 100)) < 8 and time.monotonic() < deadline:
        threading.Event().wait(0.02)
    ticker.stop()
    records = log.read("controller-commands", 0, 0, 100)

    assert {r.key for r in records} == {"east/_tick", "west/_tick"}
    assert all(msgspec.json.decode(r.value or b"")["command"] == "tick" for r in records)
    ticks = [r.ingest_ms for r in records if r.key == "east/_tick"]
    intervals = [ms // ROUNDS.upkeep_interval_ms for ms in ticks]
    assert len(set(intervals)) == len(intervals), "never two in one interval"
    assert all(ms % ROUNDS.upkeep_interval_ms >= ROUNDS.settle_ms for ms in ticks)
    assert halt.failure is None


def test_a_log_that_takes_no_ticks_ends_the_job_with_the_reason(tmp_path: Path) -> None:
    job = plan(tmp_path)
    new_log(job).close()
    halt = Halt()
    ticker = Ticker(
        lambda: EmbeddedLog(job.transport.path), {"east": ROUNDS}, "no-such-topic", halt
    )
    ticker.start()
    assert halt.wait(PATIENCE_S)
    ticker.stop()

    assert ticker.failures >= 5
    assert "no-such-topic" in str(halt.failure)


def test_a_log_that_cannot_be_opened_ends_the_job_too(tmp_path: Path) -> None:
    """A thread that dies quietly would leave a job without time."""
    halt = Halt()
    ticker = Ticker(lambda: EmbeddedLog(tmp_path), {"east": ROUNDS}, "controller-commands", halt)
    ticker.start()
    assert halt.wait(PATIENCE_S)
    ticker.stop()

    assert str(tmp_path) in str(halt.failure)


def test_a_lease_that_cannot_be_renewed_ends_the_job(tmp_path: Path) -> None:
    job = plan(tmp_path)
    log = new_log(job)
    halt = Halt()
    keeper = LeaseKeeper(lambda: EmbeddedLog(tmp_path), job.name, "me", 300)
    keeper.acquire(log, halt, 0)
    keeper.keep(halt)
    assert halt.wait(PATIENCE_S)
    keeper.release(log)

    assert not keeper.is_held
    assert str(tmp_path) in str(halt.failure)
