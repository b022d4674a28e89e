"""Trigger time of the job's query against two that do not decide. Needs Java.

    python -m bench.trigger --brokers 1000 --bundles 100 --batches 15

Three queries run in one session, each on a log of its own; batch by batch they take turns, so that
all meet the same machine. `decide` is the job's query; `idle` the same with an operator that does
nothing with the raw rows; `parsed` the same again, with from_json and explode before it. Every
batch is one full report of every broker, with random figures that do not compress, and one round.
"""

from __future__ import annotations

import argparse
import json
import logging
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import structlog
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from bench.load import CLUSTER, SETTINGS, broker_name, bundle_names, ownership, report
from bench.report import Table, spread
from controller.transport.embedded import EmbeddedLog
from controller.transport.place import TransportPlace
from controller.transport.port import OutRecord
from streaming.faults import Fault
from streaming.halt import Halt
from streaming.job import create_topics, make_sink
from streaming.lease import LeaseKeeper
from streaming.metrics import Metrics
from streaming.plan import JobPlan
from streaming.query import RECORD_COLUMNS, decide, read_records
from streaming.session import build_session, job_conf
from streaming.stateful import make_idle_operator, make_operator

WARM_UP_BATCHES = 4  # the JVM compiles, the workers import
LEASE_MS = 600_000
AHEAD_S = 86_400
STATS = (
    "struct<msgRateIn:double,msgRateOut:double,msgThroughputIn:double,msgThroughputOut:double,"
    "consumerCount:long,producerCount:long,topics:long,cacheSize:long>"
)
USAGE = "struct<usage:double,`limit`:double>"
REPORT = (
    f"struct<reportType:string,cluster:string,broker:string,sequence:long,timestamp:long,"
    f"full:boolean,cpu:{USAGE},memory:{USAGE},directMemory:{USAGE},bandwidthIn:{USAGE},"
    f"bandwidthOut:{USAGE},bundles:map<string,{STATS}>>"
)


@dataclass
class Contestant:
    """One query with its log."""

    name: str
    plan: JobPlan
    log: EmbeddedLog
    query: StreamingQuery

    def batch(self, records: list[OutRecord]) -> None:
        """Appends records and waits until they are processed and committed."""
        self.log.append(records)
        self.query.processAllAvailable()

    def times_ms(self, rows_min: int) -> list[float]:
        """Trigger times of the batches that carried a report of every broker."""
        return [
            float(progress.durationMs["triggerExecution"])
            for progress in self.query.recentProgress
            if progress.numInputRows >= rows_min
        ]


def decided(records: DataFrame, plan: JobPlan) -> DataFrame:
    return decide(records, make_operator(dict(plan.clusters), Fault()))


def idle(records: DataFrame, plan: JobPlan) -> DataFrame:
    return decide(records, make_idle_operator())


def parsed(records: DataFrame, plan: JobPlan) -> DataFrame:
    content = F.from_json(F.col("value").cast("string"), REPORT)
    rows = records.withColumn("report", content).select(
        *[name for name in RECORD_COLUMNS if name != "value"],
        "report.cpu",
        "report.memory",
        F.explode_outer("report.bundles").alias("bundle", "stats"),
    )
    return decide(rows, make_idle_operator())


VARIANTS: dict[str, Callable[[DataFrame, JobPlan], DataFrame]] = {
    "decide": decided,
    "idle": idle,
    "parsed": parsed,
}


class BatchClock:
    """A clock that goes on by one round for each batch, so that every batch brings one round.

    It is ahead of the wall clock, whose readings the log therefore never takes.
    """

    def __init__(self) -> None:
        self.now_ms = (int(time.time()) + AHEAD_S) * 1_000

    def __call__(self) -> int:
        """Milliseconds since 1970, a day ahead."""
        return self.now_ms


def contestant(
    spark: SparkSession, folder: Path, name: str, owned: list[OutRecord], clock: BatchClock
) -> Contestant:
    plan = JobPlan(
        transport=TransportPlace(path=str(folder / f"{name}.db")),
        checkpoint=str(folder / name),
        clusters={CLUSTER: SETTINGS},
        name=name,
        rows_max=1_000_000,
        bytes_max=1 << 30,
    )
    log = EmbeddedLog(plan.transport.path, clock=clock)
    create_topics(plan, log)
    log.append(owned)
    keeper = LeaseKeeper(lambda: log, plan.name, "bench", LEASE_MS)
    keeper.acquire(log, Halt(), 0)
    sink = make_sink(plan, keeper, Metrics(), Fault())
    frame = VARIANTS[name](read_records(spark, plan), plan)
    query = (
        frame.writeStream.queryName(name)
        .outputMode("append")
        .option("checkpointLocation", plan.checkpoint)
        .trigger(processingTime="250 milliseconds")
        .foreachBatch(sink)
        .start()
    )
    sink.query_id.set_result(str(query.id))
    return Contestant(name, plan, log, query)


def measure(brokers: int, bundles: int, batches: int) -> dict[str, list[float]]:
    """Trigger times in ms by variant."""
    names = bundle_names(brokers * bundles)
    rng = np.random.default_rng(1)
    owned = [
        OutRecord(SETTINGS.channel_topic, name, value) for name, value in ownership(brokers, names)
    ]
    clock = BatchClock()
    with tempfile.TemporaryDirectory() as folder:
        keep = {"spark.sql.streaming.numRecentProgressUpdates": "10000"}
        memory = {"spark.driver.memory": "2g", **keep}
        spark = build_session(job_conf("bench", folder, "local[2,4]", 1, None, memory))
        all_of_them = [contestant(spark, Path(folder), name, owned, clock) for name in VARIANTS]
        for at in range(1, WARM_UP_BATCHES + batches + 1):
            clock.now_ms += SETTINGS.rounds.interval_ms
            records = [
                OutRecord(
                    SETTINGS.reports_topic,
                    f"{CLUSTER}/{broker_name(b)}",
                    report(b, names[b::brokers], at, rng),
                )
                for b in range(brokers)
            ]
            turn = at % len(all_of_them)
            for one in all_of_them[turn:] + all_of_them[:turn]:
                one.batch(records)
        times = {one.name: one.times_ms(brokers)[-batches:] for one in all_of_them}
        for one in all_of_them:
            one.query.stop()
        spark.stop()
    return times


def main() -> None:
    """Prints a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--brokers", type=int, default=100)
    parser.add_argument("--bundles", type=int, default=100, help="bundles of each broker")
    parser.add_argument("--batches", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    times = measure(options.brokers, options.bundles, options.batches)
    medians = {name: spread(values)["median"] for name, values in times.items()}
    ratios = {name: medians["decide"] / medians[name] for name in ("idle", "parsed")}
    if options.json:
        figures = {name: spread(values) for name, values in times.items()}
        print(json.dumps({"trigger_ms": figures, "ratio_of_medians": ratios}))
        return
    table = Table(f"trigger, {options.brokers} brokers x {options.bundles} bundles", "ms")
    for name, values in times.items():
        table.row(name, values)
    table.show()
    print(f"  decide/idle {ratios['idle']:.2f}   decide/parsed {ratios['parsed']:.2f}")


if __name__ == "__main__":
    main()
