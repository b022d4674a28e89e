"""Spark source over the embedded log: one stream of all topics in the order of their append.

The offset is `{"given_up": {topic: g}, "sequence": n}`: n is the last record that was read (0 =
none), gap-free and visible in order, so a range of sequences is a batch, and reading it again gives
the same rows; g is how far retention had trimmed a topic when the checkpoint began (what goes
later is missed). Checkpoints of 0.1.0 have one number g for all topics; they keep it.
One partition a batch by default: a Python read task costs more than it saves on small records.
Instances live in two places: Spark's planner process asks for offsets, Python workers read. Each
of them keeps one open log per file for its life. Built by `streaming.query`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.types import StructType

from controller.transport.embedded import EmbeddedLog
from controller.transport.embedded.bounds import GivenUp
from controller.transport.embedded.connection import BUSY_WAIT_MS
from streaming.plan import JobPlan

FORMAT = "bundle-log"
SCHEMA = (
    "sequence long, topic string, partition int, offset long, "
    "key string, value binary, ingest_ms long"
)
ARROW_SCHEMA = pa.schema(
    [
        ("sequence", pa.int64()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("key", pa.string()),
        ("value", pa.binary()),
        ("ingest_ms", pa.int64()),
    ]
)
Offset = dict[str, Any]
CHUNK_ROWS = 2_000  # records per Arrow batch: a few MB of reports, never the whole batch twice

_logs: dict[str, EmbeddedLog] = {}


@dataclass
class SequenceRange(InputPartition):
    """Records after `start` up to `end`, inclusive; trimmed ones up to `given_up` are fine."""

    start: int
    end: int
    given_up: GivenUp


class BundleLogSource(DataSource):
    """`spark.readStream.format("bundle-log")`; options as in `LogReader`."""

    @classmethod
    def name(cls) -> str:
        """The format name."""
        return FORMAT

    def schema(self) -> str:
        """Columns of one record."""
        return SCHEMA

    def streamReader(self, schema: StructType) -> LogReader:
        """The reader of one query."""
        return LogReader(
            path=self.options["path"],
            topics=json.loads(self.options["topics"]),
            rows_max=int(self.options.get("rows_max", "20000")),
            bytes_max=int(self.options.get("bytes_max", str(64 * 1024 * 1024))),
            partitions_max=int(self.options.get("partitions", "1")),
            busy_wait_ms=int(self.options.get("busy_wait_ms", str(BUSY_WAIT_MS))),
        )


class LogReader(DataSourceStreamReader):
    """Reads `topics` of the log file at `path`.

    A new checkpoint begins at the first record that is left: the whole channel is needed to know
    who owns what. `rows_max`, `bytes_max` bound a batch.
    """

    def __init__(
        self,
        path: str,
        topics: Sequence[str],
        rows_max: int = 20_000,
        bytes_max: int = 64 * 1024 * 1024,
        partitions_max: int = 1,
        busy_wait_ms: int = BUSY_WAIT_MS,
    ) -> None:
        self.path = path
        self.topics = tuple(topics)
        self.rows_max = rows_max
        self.bytes_max = bytes_max
        self.partitions_max = partitions_max
        self.busy_wait_ms = busy_wait_ms

    def initialOffset(self) -> Offset:
        """Where a new checkpoint begins."""
        log = _open(self.path, self.busy_wait_ms)
        trimmed = {topic: log.trimmed_sequence(topic) for topic in sorted(self.topics)}
        return _offset(0, {topic: sequence for topic, sequence in trimmed.items() if sequence})

    def getDefaultReadLimit(self) -> ReadLimit:
        """The bounds are our options, two at once; Spark's limits know only one."""
        return ReadAllAvailable()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """The end of the next batch, within the bounds."""
        log = _open(self.path, self.busy_wait_ms)
        after, given_up = start["sequence"], start["given_up"]
        log.check_left(self.topics, after, given_up)
        end = log.end_sequence(self.topics)
        if end > after:
            after = log.limit_sequence(self.topics, after, end, self.rows_max, self.bytes_max)
        return _offset(after, given_up)

    def reportLatestOffset(self) -> Offset:
        """The end of the log, for the lag in Spark's progress."""
        return _offset(_open(self.path, self.busy_wait_ms).end_sequence(self.topics), {})

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Equal ranges of sequences."""
        first, last = start["sequence"], end["sequence"]
        count = max(1, min(self.partitions_max, last - first))
        cuts = [first + (last - first) * i // count for i in range(count + 1)]
        return [SequenceRange(a, b, end["given_up"]) for a, b in pairwise(cuts)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of a range, in order, as Arrow."""
        assert isinstance(partition, SequenceRange)
        return self._read(partition)

    def _read(self, part: SequenceRange) -> Iterator[pa.RecordBatch]:
        log = _open(self.path, self.busy_wait_ms)
        start = part.start
        while start < part.end:
            columns = log.read_columns(start, part.end, self.topics, CHUNK_ROWS, part.given_up)
            batch = pa.record_batch(list(columns), schema=ARROW_SCHEMA)
            if not batch.num_rows:
                return
            yield batch
            start = columns[0][-1]


def read_embedded(spark: SparkSession, plan: JobPlan) -> DataFrame:
    """All records of the plan's topics."""
    spark.dataSource.register(BundleLogSource)
    return (
        spark.readStream.format(FORMAT)
        .option("path", plan.transport.path)
        .option("topics", json.dumps(plan.source_topics))
        .option("rows_max", plan.rows_max)
        .option("bytes_max", plan.bytes_max)
        .option("partitions", plan.read_partitions)
        .option("busy_wait_ms", plan.transport.busy_wait_ms)
        .load()
    )


def _offset(sequence: int, given_up: GivenUp) -> Offset:
    """Keys in one order always: Spark compares offsets as text."""
    return {"given_up": given_up, "sequence": sequence}


def _open(path: str, busy_wait_ms: int) -> EmbeddedLog:
    if path not in _logs:
        _logs[path] = EmbeddedLog(path, busy_wait_ms=busy_wait_ms)
    return _logs[path]
