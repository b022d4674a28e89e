"""Spark source over the embedded log: one stream of all topics in the order of their append.

The offset is `{"sequence": n}`, the last record that was read (0 = none): gap-free and visible in
order, so a range of sequences is a batch, and reading it again gives the same rows. One partition
a batch by default: a Python read task costs more than it saves on records this small.
Instances live in two places: Spark's planner process asks for offsets, Python workers read. Each
of them keeps one open log per file for its life. Built by `streaming.query`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.types import StructType

from controller.transport.embedded import EmbeddedLog

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
CHUNK_ROWS = 2_000  # records per Arrow batch: a few MB of reports, never the whole batch twice

_logs: dict[str, EmbeddedLog] = {}


class TrimmedError(RuntimeError):
    """Retention removed records that this checkpoint has not read yet."""


@dataclass
class SequenceRange(InputPartition):
    """Records after `start` up to `end`, inclusive."""

    start: int
    end: int


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
            start=self.options.get("start", "earliest"),
            rows_max=int(self.options.get("rows_max", "20000")),
            bytes_max=int(self.options.get("bytes_max", str(64 * 1024 * 1024))),
            partitions_max=int(self.options.get("partitions", "1")),
            wait_ms=int(self.options.get("wait_ms", "0")),
        )


class LogReader(DataSourceStreamReader):
    """Reads `topics` of the log file at `path`.

    `start` is where a new checkpoint begins: `earliest` or `latest`.
    `rows_max`, `bytes_max` bound a batch. `wait_ms`: how long to wait for a first record when
    there is none, so that it need not wait for the next trigger.
    """

    def __init__(
        self,
        path: str,
        topics: Sequence[str],
        start: str = "earliest",
        rows_max: int = 20_000,
        bytes_max: int = 64 * 1024 * 1024,
        partitions_max: int = 1,
        wait_ms: int = 0,
    ) -> None:
        self.path = path
        self.topics = tuple(topics)
        self.start = start
        self.rows_max = rows_max
        self.bytes_max = bytes_max
        self.partitions_max = partitions_max
        self.wait_ms = wait_ms

    def initialOffset(self) -> dict[str, int]:
        """Where a new checkpoint begins."""
        is_latest = self.start == "latest"
        return {"sequence": _open(self.path).end_sequence() if is_latest else self._trimmed()}

    def getDefaultReadLimit(self) -> ReadLimit:
        """The bounds are our options, two at once; Spark's limits know only one."""
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        """The end of the next batch, within the bounds."""
        log = _open(self.path)
        after = start["sequence"]
        self._check_not_trimmed(after)
        deadline = time.monotonic() + self.wait_ms / 1_000
        end = log.end_sequence(self.topics)
        while end <= after and time.monotonic() < deadline:
            time.sleep(0.01)
            end = log.end_sequence(self.topics)
        if end <= after:
            return {"sequence": after}
        end = log.limit_sequence(self.topics, after, end, self.rows_max, self.bytes_max)
        return {"sequence": end}

    def reportLatestOffset(self) -> dict[str, int]:
        """The end of the log, for the lag in Spark's progress."""
        return {"sequence": _open(self.path).end_sequence(self.topics)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Equal ranges of sequences."""
        first, last = start["sequence"], end["sequence"]
        self._check_not_trimmed(first)
        count = max(1, min(self.partitions_max, last - first))
        cuts = [first + (last - first) * i // count for i in range(count + 1)]
        return [SequenceRange(a, b) for a, b in pairwise(cuts)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of a range, in order, as Arrow."""
        assert isinstance(partition, SequenceRange)
        self._check_not_trimmed(partition.start)
        return self._read(partition.start, partition.end)

    def _read(self, start: int, end: int) -> Iterator[pa.RecordBatch]:
        log = _open(self.path)
        while start < end:
            columns = log.read_columns(start, end, self.topics, CHUNK_ROWS)
            batch = pa.record_batch(list(columns), schema=ARROW_SCHEMA)
            if not batch.num_rows:
                return
            yield batch
            start = columns[0][-1]

    def _trimmed(self) -> int:
        log = _open(self.path)
        return max((log.trimmed_sequence(topic) for topic in self.topics), default=0)

    def _check_not_trimmed(self, after: int) -> None:
        log = _open(self.path)
        for topic in self.topics:
            trimmed = log.trimmed_sequence(topic)
            if trimmed > after:
                raise TrimmedError(
                    f"topic {topic} of {self.path} was trimmed by retention up to sequence "
                    f"{trimmed}, but this checkpoint has read only up to {after}: records are "
                    "lost. Start with a new checkpoint (the controller rebuilds from the log), "
                    "and keep retention longer than the longest downtime."
                )


def _open(path: str) -> EmbeddedLog:
    if path not in _logs:
        _logs[path] = EmbeddedLog(path)
    return _logs[path]
