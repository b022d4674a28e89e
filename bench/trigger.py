"""Trigger time of the job against the same query with an idle operator, and with JSON in the JVM.

    python -m bench.trigger [--brokers 1000] [--bundles 100] [--batches 20] [--json]

Three queries run in one session, each on a log of its own; every round appends the same batch (one
report of every broker, all its bundles, random floats) to one log after the other and waits until
that query has done it, so that the variants share the machine's good and bad moments:

* idle       raw rows into an operator that does nothing (the floor)
* job        the job: decode, fold, round, state, decision log published
* json       from_json + explode in the JVM, into an operator that does nothing

Prints `triggerExecution` in ms (min / median / max) and the ratios to `idle`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.state import GroupStateTimeout

from bench.load import CLUSTER, SETTINGS, broker_name, bundle_names, ownership, report
from bench.report import Table, spread
from controller.core.settings import RoundSettings
from controller.transport.embedded import EmbeddedLog
from controller.transport.port import OutRecord
from streaming.faults import Fault
from streaming.plan import JobPlan
from streaming.query import decide, read_records
from streaming.session import build_session, job_conf
from streaming.sink import Topics, plan_records
from streaming.stateful import OUTPUT_SCHEMA, STATE_SCHEMA, make_idle_operator, make_operator

WARM_UP = 6
USAGE = "struct<usage double, limit double>"
STATS = (
    "struct<msgRateIn double, msgRateOut double, msgThroughputIn double, "
    "msgThroughputOut double, topics bigint, producerCount bigint, consumerCount bigint>"
)
REPORT_SCHEMA = (
    "reportType string, cluster string, broker string, sequence bigint, timestamp bigint, "
    f"full boolean, cpu {USAGE}, memory {USAGE}, directMemory {USAGE}, bandwidthIn {USAGE}, "
    f"bandwidthOut {USAGE}, bundles map<string, {STATS}>"
)


@dataclass
class Variant:
    """One query and its log."""

    name: str
    log: EmbeddedLog
    query: StreamingQuery

    def wait(self, sequence: int) -> float:
        """Waits until the log is read up to `sequence`; trigger time of that batch in ms."""
        while True:
            failure = self.query.exception()
            if failure is not None:
                raise failure
            progress = self.query.lastProgress
            if progress and progress.numInputRows:
                end = json.loads(progress.sources[0].endOffset)["sequence"]
                if end >= sequence:
                    return float(progress.durationMs["triggerExecution"])
            time.sleep(0.02)


def plan_for(folder: Path, name: str) -> JobPlan:
    """A job on a log of its own, whose batches are whatever was appended at once."""
    limits = replace(SETTINGS.limits, record_bytes_max=1 << 28)
    rounds = RoundSettings(interval_ms=1_000, upkeep_interval_ms=1_000, settle_ms=0, warmup_ms=0)
    return JobPlan(
        log_path=str(folder / f"{name}.db"),
        checkpoint=str(folder / f"{name}-checkpoint"),
        clusters={CLUSTER: replace(SETTINGS, limits=limits, rounds=rounds)},
        name=name,
        rows_max=10_000_000,
        bytes_max=1 << 34,
        trigger_ms=200,
    )


def idle(records: DataFrame, plan: JobPlan) -> DataFrame:
    """Raw rows into an operator that does nothing."""
    return records.groupBy("cluster").applyInPandasWithState(
        make_idle_operator(), OUTPUT_SCHEMA, STATE_SCHEMA, "append", GroupStateTimeout.NoTimeout
    )


def job(records: DataFrame, plan: JobPlan) -> DataFrame:
    """The job's operator."""
    return decide(records, make_operator(dict(plan.clusters), Fault()))


def from_json(records: DataFrame, plan: JobPlan) -> DataFrame:
    """Parsed and exploded in the JVM, one row per bundle, into an operator that does nothing."""
    parsed = records.withColumn("r", F.from_json(F.col("value").cast("string"), REPORT_SCHEMA))
    rows = parsed.select("cluster", "ingest_ms", "r.broker", F.explode("r.bundles"))
    return idle(rows.select("cluster", "ingest_ms", "broker", "key", "value.*"), plan)


def start(
    spark: SparkSession, plan: JobPlan, operator: Callable[[DataFrame, JobPlan], DataFrame]
) -> Variant:
    """Starts one query; its sink publishes what it decides, as the job's does."""
    log = EmbeddedLog(plan.log_path)
    for topic in (*plan.source_topics, plan.decisions_topic, plan.dead_letters_topic):
        log.create_topic(topic, 1)
    topics = Topics(
        plan.channels, plan.commands_topic, plan.decisions_topic, plan.dead_letters_topic
    )

    def sink(frame: DataFrame, batch_id: int) -> None:
        rows = sorted(frame.collect(), key=lambda row: (row.cluster, row.seq))
        outcome = plan_records(rows, topics, time.time_ns() // 1_000_000, True)
        if outcome.records:
            log.append(outcome.records)

    query = (
        operator(read_records(spark, plan), plan)
        .writeStream.queryName(plan.name)
        .option("checkpointLocation", plan.checkpoint)
        .trigger(processingTime=f"{plan.trigger_ms} milliseconds")
        .foreachBatch(sink)
        .start()
    )
    return Variant(plan.name, log, query)


def measure(
    spark: SparkSession, brokers: int, bundles: int, batches: int
) -> dict[str, list[float]]:
    """Trigger times in ms by variant."""
    names = bundle_names(brokers * bundles)
    rng = np.random.default_rng(7)
    times: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        kinds = {"idle": idle, "job": job, "json": from_json}
        variants = [start(spark, plan_for(Path(folder), n), k) for n, k in kinds.items()]
        owned = [OutRecord(SETTINGS.channel_topic, k, v) for k, v in ownership(brokers, names)]
        for variant in variants:
            variant.log.append(owned)
            variant.wait(variant.log.end_sequence([SETTINGS.channel_topic]))
        for at in range(1, WARM_UP + batches + 1):
            batch = [
                OutRecord(
                    SETTINGS.reports_topic,
                    f"{CLUSTER}/{broker_name(b)}",
                    report(b, names[b::brokers], at, rng),
                )
                for b in range(brokers)
            ]
            for variant in variants:
                variant.log.append(batch)
                took = variant.wait(variant.log.end_sequence([SETTINGS.reports_topic]))
                if at > WARM_UP:
                    times.setdefault(variant.name, []).append(took)
        for variant in variants:
            variant.query.stop()
    return times


def main() -> None:
    """Runs the bench and prints its tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--brokers", type=int, action="append")
    parser.add_argument("--bundles", type=int, default=100)
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        conf = job_conf("bench", place, "local[2,4]", 1, None, {"spark.driver.memory": "4g"})
        spark = build_session(conf)
        results = {
            brokers: measure(spark, brokers, args.bundles, args.batches)
            for brokers in args.brokers or [100, 1_000]
        }
        spark.stop()
    if args.json:
        print(json.dumps({b: {n: spread(t) for n, t in r.items()} for b, r in results.items()}))
        return
    for brokers, times in results.items():
        table = Table(f"{brokers} brokers x {args.bundles} bundles, one trigger", "ms")
        for name, values in times.items():
            table.row(name, values)
        table.show()
        floor = statistics.median(times["idle"])
        for name in ("job", "json"):
            print(f"  {name} / idle, medians: {statistics.median(times[name]) / floor:.2f}")


if __name__ == "__main__":
    main()
