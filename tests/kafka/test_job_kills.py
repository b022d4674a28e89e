"""SIGKILL of driver and JVM at every stage: readers of committed records see each decision once.

Five deaths here; `make chaos` plays every stage with every victim. The control shows that the
judge can tell: without the marker the same death publishes a batch twice.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.transport.kafka.log import KafkaLog
from controller.transport.kafka.settings import KafkaSettings
from controller.transport.kafka.topics import markers_topic
from controller.transport.port import OutRecord
from tests.kafka.worlds import Feeder, Job, Judge, await_so

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1_800)]

FIVE = (
    "start_up:0",
    "mid_send:{next}:python",
    "before_commit:{next}",
    "after_publish:{next}",
    "operator:{next}:jvm",
)


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


@pytest.fixture
def world(tmp_path: Path, settings: KafkaSettings, unique: str) -> Iterator[World]:
    made = World(tmp_path, settings, unique)
    yield made
    made.close()


def test_five_deaths_lose_nothing_and_double_nothing(world: World) -> None:
    for fault in FIVE:
        world.dies(fault)
    world.concludes()
    assert world.feeder.failures == 0 and len(world.feeder.commanded) > 100


def test_without_the_marker_the_same_death_doubles_a_batch(world: World) -> None:
    world.dies("after_publish:5")
    log = KafkaLog(world.settings)
    name = world.job.plan.name
    log.append([OutRecord(markers_topic(name), name, None)])
    before = log.marker(name)
    assert before is not None, "older markers are still there"
    place = log.end_offsets(markers_topic(name))[0]
    records = log.read(markers_topic(name), 0, 0, place)
    older = [one.value for one in records if one.value and one.value != records[-1].value][-2]
    log.append([OutRecord(markers_topic(name), name, older)])  # as if the last were not there
    log.close()
    world.job.start()
    await_so(world.judge.doubled, f"a batch is doubled:\n{world.job.tail()}", 60)
    assert world.job.stop() == 0
