"""10,000 mutated load reports through the real job: it goes on, nothing bad disappears."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from controller.core.inputs import RawRecord
from controller.core.state import new_state
from controller.core.step import step
from controller.transport.port import OutRecord
from tests.samples_of_reports import mutated
from tests.streaming.job_bench import Bench
from tests.streaming.worlds import assign, load_report, plan, settings

pytestmark = pytest.mark.spark

RECORDS = 10_000
BATCH = 500
SEED = 20_261_121


def test_ten_thousand_mutated_reports_do_not_stop_the_job(
    spark: SparkSession, tmp_path: Path
) -> None:
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    spoiled = [mutated(rng, number) for number in range(RECORDS)]
    records = [
        OutRecord("load-reports", key.replace("main", "east") if key else key, value)
        for key, value in spoiled
    ]
    bench = Bench(spark, plan(tmp_path, report_partitions=1))
    bench.warm_up("east")
    for start in range(0, RECORDS, BATCH):
        good = load_report("east", "good", start + 1, range(3))
        bench.append(*records[start : start + BATCH], good)
        bench.now_ms += 50
    bench.append(assign("east", 7))
    bench.run()

    letters = bench.dead_letters()
    assert Counter(x["reason"] for x in letters) == expected_reasons(records)
    assert len(letters) > RECORDS // 2
    assert all(letter["detail"] for letter in letters)
    assert len(bench.channel("east")) == 1, "the request behind them was answered"


def expected_reasons(records: list[OutRecord]) -> Counter[str]:
    """What the core alone says of the same records; those of no cluster are not routed."""
    routed, unrouted = [], 0
    for offset, record in enumerate(records):
        if record.key is not None and record.key.startswith("east/"):
            routed.append(RawRecord(1_000_000, record.topic, 0, offset, record.key, record.value))
        else:
            unrouted += 1
    result = step(new_state("east", settings("east")), routed, 1_000_000, settings("east"))
    return Counter(r.reason for r in result.rejects) + Counter(unrouted=unrouted)
