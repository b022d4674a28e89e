"""Reads the log on Kafka by Spark's own connector; offsets stand in the checkpoint.

Only committed records; ingest time is the brokers' (LogAppendTime). A new checkpoint begins at the
first record that is left, new partitions are picked up by themselves, and records that retention
removed before they were read end the query (`failOnDataLoss`) instead of being passed over.
Called by `streaming.query`.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from controller.transport.kafka.security import reader_options
from streaming.plan import JobPlan

FETCH_WAIT_MS = 20
"""A fetch at the end of a partition waits for so long; ranges of a batch end before it."""


def read_kafka(spark: SparkSession, plan: JobPlan) -> DataFrame:
    """Records with the columns that `streaming.routing` and the operator want."""
    records = (
        spark.readStream.format("kafka")
        .options(**reader_options(plan.transport.kafka))
        .option("subscribe", ",".join(plan.source_topics))
        .option("startingOffsets", "earliest")
        .option("failOnDataLoss", "true")
        .option("maxOffsetsPerTrigger", plan.rows_max)
        .option("groupIdPrefix", plan.name)
        .option("kafka.isolation.level", "read_committed")
        .option("kafka.fetch.max.wait.ms", FETCH_WAIT_MS)
        .load()
    )
    return records.select(
        "topic",
        "partition",
        "offset",
        # Spark hands strings to Python as they are, and Python refuses what is not UTF-8.
        F.make_valid_utf8(F.col("key").cast("string")).alias("key"),
        "value",
        F.unix_millis("timestamp").alias("ingest_ms"),
    )
