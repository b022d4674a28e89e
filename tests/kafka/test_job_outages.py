"""Brokers that die, controllers that sleep, checkpoints that are lost: what readers see of it."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.devkafka import Broker
from controller.processes import process_of
from controller.transport.kafka.settings import KafkaSettings
from tests.kafka.worlds import Job, World, await_so

pytestmark = [pytest.mark.chaos, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

SUPERVISED = """
import sys
from controller.logs import configure_logs
from controller.supervise import Supervisor
configure_logs()
sys.exit(Supervisor(sys.argv[1:]).run())
"""
OUTAGE_S = 60.0


@pytest.fixture
def own_broker() -> Iterator[Broker]:
    """For tests that kill it."""
    with Broker() as broker:
        yield broker


@pytest.fixture
def own_world(tmp_path: Path, own_broker: Broker, unique: str) -> Iterator[World]:
    made = World(tmp_path, KafkaSettings(bootstrap_servers=own_broker.bootstrap), unique)
    yield made
    own_broker.resume() if own_broker.is_running else own_broker.restart()
    made.close()


def paused(job: Job, point: str) -> None:
    """Starts the job, and returns when it stands still at the point."""
    job.start(f"{point}:{job.last_batch() + 5}:pause")
    assert job.process is not None
    pid = job.process.pid
    await_so(lambda: (one := process_of(pid)) and one.state == "T", f"pauses at {point}")


def test_a_broker_that_dies_during_a_commit(own_world: World, own_broker: Broker) -> None:
    paused(own_world.job, "before_commit")
    own_broker.kill()
    own_world.job.signal(signal.SIGCONT)
    killed = time.monotonic()
    status = own_world.job.wait()
    print(f"the job ended with {status} after {time.monotonic() - killed:.1f} s")
    assert status in (1, 75), own_world.job.tail()
    last = own_world.job.output.read_text().splitlines()[-1]
    assert last.startswith("bundle-controller: ") and "Kafka at 127.0.0.1" in last
    own_broker.restart()
    own_world.concludes()


def test_a_broker_that_stands_still_during_a_commit(own_world: World, own_broker: Broker) -> None:
    """The transaction is whole at the broker; nobody learns in time whether it was committed."""
    paused(own_world.job, "before_commit")
    own_broker.pause()
    own_world.job.signal(signal.SIGCONT)
    status = own_world.job.wait()
    assert status in (1, 75), own_world.job.tail()
    own_broker.resume()
    own_world.concludes()


def test_a_broker_that_is_gone_for_a_minute_under_the_supervisor(
    own_world: World, own_broker: Broker, tmp_path: Path
) -> None:
    job = own_world.job
    job.start()
    await_so(lambda: len(own_world.judge.rounds()) > 3, "the job acts")
    assert job.stop() == 0
    spec = next(tmp_path.glob("spec-*.json"))
    command = [sys.executable, "-m", "tests.kafka.job_process", str(spec)]
    with (tmp_path / "supervisor").open("wb") as out:
        supervisor = subprocess.Popen(
            [sys.executable, "-c", SUPERVISED, *command], stdout=out, stderr=out
        )
    try:
        rounds = len(own_world.judge.rounds())
        await_so(lambda: len(own_world.judge.rounds()) > rounds + 3, "the supervised job acts")
        own_broker.kill()
        time.sleep(OUTAGE_S)
        assert own_world.feeder.failures > 0
        rounds = own_broker.restart() and len(own_world.judge.rounds())
        resumed = await_so(lambda: len(own_world.judge.rounds()) > rounds, "it resumes by itself")
        print(f"rounds again {resumed:.1f} s after the broker was back")
        own_world.feeder.stop()
        own_world.judge.assert_once(own_world.feeder)
    finally:
        supervisor.terminate()
        assert supervisor.wait(60) == 0, (tmp_path / "supervisor").read_text()[-3_000:]


def test_a_controller_that_slept_past_its_lease_publishes_nothing(
    world: World, tmp_path: Path
) -> None:
    zombie = world.job
    paused(zombie, "before_commit")
    (tmp_path / "second").mkdir()
    second = Job(tmp_path / "second", world.settings, zombie.end)
    second.start()
    try:
        before = len(world.judge.answers())
        await_so(lambda: len(world.judge.answers()) > before + 20, f"it acts:\n{second.tail()}")
        zombie.signal(signal.SIGCONT)
        assert zombie.wait(90) == 1
        sentence = zombie.output.read_text().splitlines()[-1]
        assert sentence.startswith("bundle-controller: "), sentence
        assert "another controller" in sentence, sentence
        world.feeder.stop()
        world.judge.assert_placed_once(world.feeder)
        assert world.judge.epochs() == sorted(world.judge.epochs()), "the first is not heard again"
        assert second.stop() == 0
    finally:
        second.end_all()


def test_a_lost_checkpoint_is_adopted_and_no_placement_is_lost_or_doubled(
    world: World, tmp_path: Path
) -> None:
    world.dies("after_publish:6")
    shutil.rmtree(tmp_path / "checkpoint")
    world.job.start(may_adopt=False)
    assert world.job.wait() == 78
    assert "job.may_adopt is false: allow adopting, or use" in world.job.tail()
    shutil.rmtree(tmp_path / "checkpoint", ignore_errors=True)
    world.job.start()
    answered = len(world.judge.answers())
    await_so(lambda: len(world.judge.answers()) > answered + 20, f"it acts:\n{world.job.tail()}")
    world.feeder.stop()
    world.judge.assert_placed_once(world.feeder)
    assert world.job.stop() == 0
