"""Wires the query: source, grouping key, operator, sink. No decision is made here.

log -> cluster key -> one Python operator per cluster -> observe -> foreachBatch.
Called by `streaming.job`, the tests and the benches.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import structlog
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.state import GroupStateTimeout

from streaming.faults import Fault
from streaming.plan import JobPlan
from streaming.routing import with_cluster
from streaming.source import read_embedded
from streaming.stateful import OUTPUT_SCHEMA, STATE_SCHEMA, StepFunction, make_operator

log = structlog.get_logger("streaming.query")

QUIET_WAIT_S = 4.0  # a stop waits this long for the moment between two batches
RECORD_COLUMNS = ("cluster", "ingest_ms", "topic", "partition", "offset", "key", "value")


def read_records(spark: SparkSession, plan: JobPlan) -> DataFrame:
    """All records of the plan's topics, with their cluster."""
    if plan.transport.kind == "kafka":
        from streaming.kafka_source import read_kafka

        records = read_kafka(spark, plan)
    else:
        records = read_embedded(spark, plan)
    routed = with_cluster(records, sorted(plan.clusters), plan.topic_clusters)
    return routed.select(*RECORD_COLUMNS)


def decide(records: DataFrame, function: StepFunction) -> DataFrame:
    """The stateful operator, with counts of what it decided for Spark's page.

    No timeout: a timeout by processing time would fire while the job catches up and invent
    silence. Time comes through the log (`streaming.ticker`).
    """
    decided = records.groupBy("cluster").applyInPandasWithState(
        function, OUTPUT_SCHEMA, STATE_SCHEMA, "append", GroupStateTimeout.NoTimeout
    )
    kinds = ("channel", "decision", "reject")
    return decided.observe(
        "effects",
        *[F.count(F.when(F.col("topic_kind") == kind, 1)).alias(kind) for kind in kinds],
    )


def start_query(
    spark: SparkSession,
    plan: JobPlan,
    fault: Fault,
    sink: Callable[[DataFrame, int], None],
) -> StreamingQuery:
    """Starts the job's query from its checkpoint, or from the first record that is left."""
    spark.sparkContext.setJobDescription(f"{plan.name}: start")
    decided = decide(read_records(spark, plan), make_operator(dict(plan.clusters), fault))
    return (
        decided.writeStream.queryName(plan.name)
        .outputMode("append")
        .option("checkpointLocation", plan.checkpoint)
        .trigger(processingTime=f"{plan.trigger_ms} milliseconds")
        .foreachBatch(sink)
        .start()
    )


def stop_query(query: StreamingQuery) -> None:
    """Stops between two batches if such a moment comes soon; Spark redoes a cancelled batch."""
    deadline = time.monotonic() + QUIET_WAIT_S
    try:
        while query.isActive and query.status["isTriggerActive"]:
            if time.monotonic() > deadline:
                break
            time.sleep(0.01)
        query.stop()
    except Exception as error:
        log.warning("the query did not stop cleanly", error=str(error).partition("\n")[0])
