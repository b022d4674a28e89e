"""SIGKILL of driver and JVM at every stage: readers of committed records see each decision once.

Five deaths here; `make chaos` plays every stage with every victim. The control shows that the
judge can tell: without the marker the same death publishes a batch twice.
"""

from __future__ import annotations

import pytest

from controller.transport.kafka.log import KafkaLog
from controller.transport.kafka.topics import markers_topic
from controller.transport.port import OutRecord
from tests.kafka.worlds import World, await_so

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1_800)]

FIVE = (
    "start_up:0",
    "mid_send:{next}:python",
    "before_commit:{next}",
    "after_publish:{next}",
    "operator:{next}:jvm",
)


def test_five_deaths_lose_nothing_and_double_nothing(world: World) -> None:
    for fault in FIVE:
        world.dies(fault)
    world.concludes()
    assert world.feeder.failures == 0 and len(world.feeder.commanded) > 100


def test_without_the_marker_the_same_death_doubles_a_batch(world: World) -> None:
    world.dies("after_publish:5")
    name = world.job.plan.name
    log, topic = KafkaLog(world.settings), markers_topic(name)
    records = log.read(topic, 0, 0, log.end_offsets(topic)[0])
    *_, older, _ = [one.value for one in records]
    log.append([OutRecord(topic, name, older)])  # as if the last were not there
    log.close()
    world.job.start()
    await_so(world.judge.doubled, f"a batch is doubled:\n{world.job.tail()}", 60)
    assert world.job.stop() == 0
