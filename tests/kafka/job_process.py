"""A job on Kafka in a process of its own, for tests that kill it: `SPEC.json` of `worlds.Job`."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import msgspec

from controller.transport.kafka.settings import KafkaSettings
from streaming.process import run_plan
from tests.kafka.worlds import kafka_plan
from tests.streaming.conftest import FAST

if __name__ == "__main__":
    folder, kafka, end, changes = json.loads(Path(sys.argv[1]).read_text())
    settings = msgspec.convert(kafka, KafkaSettings)
    job = kafka_plan(Path(folder), settings, end, **changes)
    sys.exit(run_plan(replace(job, spark_conf=FAST)))
