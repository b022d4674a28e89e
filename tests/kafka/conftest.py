"""One real broker for all tests of this folder; what it needs is fetched, nothing is skipped."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from controller.devkafka import Broker
from controller.transport.kafka.settings import KafkaSettings
from tests.kafka.worlds import World

# A broker that is down for a minute gives a client much to say.
logging.getLogger("kafka").propagate = False


@pytest.fixture(scope="session")
def kafka_broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def settings(kafka_broker: Broker) -> KafkaSettings:
    return KafkaSettings(bootstrap_servers=kafka_broker.bootstrap)


@pytest.fixture
def unique() -> str:
    """One broker serves all tests, so names of topics and jobs end with this."""
    return uuid4().hex[:8]


@pytest.fixture
def world(tmp_path: Path, settings: KafkaSettings, unique: str) -> Iterator[World]:
    made = World(tmp_path, settings, unique)
    yield made
    made.close()
