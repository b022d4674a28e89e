from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

from controller.transport.embedded.maintenance import apply_retention
from controller.transport.errors import OffsetOutOfRangeError
from streaming.query import read_records
from streaming.source import LogReader
from tests.streaming.worlds import assign, heartbeat, new_log, plan

ALL = ReadAllAvailable()
TOPICS = ("load-reports", "controller-commands")


def at(sequence: int, given_up: int | dict[str, int] | None = None) -> dict[str, object]:
    return {"given_up": {} if given_up is None else given_up, "sequence": sequence}


def read(reader: LogReader, start: int, end: int) -> list[dict]:
    ranges = reader.partitions(at(start), at(end))
    return pa.Table.from_batches([b for r in ranges for b in reader.read(r)]).to_pylist()


def test_a_range_reads_the_same_again_although_the_log_grew(tmp_path: Path) -> None:
    job = plan(tmp_path)
    log = new_log(job)
    log.append([heartbeat("east", f"b{n}", n) for n in range(10)] + [assign("east", 1)])
    reader = LogReader(job.transport.path, TOPICS)
    end = reader.latestOffset(at(0), ALL)
    first = read(reader, 0, end["sequence"])
    log.append([heartbeat("east", "b1", 99)])

    assert read(LogReader(job.transport.path, TOPICS), 0, end["sequence"]) == first
    assert [row["sequence"] for row in first] == list(range(1, 12))


def test_batches_stay_within_rows_and_bytes(tmp_path: Path) -> None:
    job = plan(tmp_path)
    new_log(job).append([heartbeat("east", "b", n) for n in range(10)])
    by_rows = LogReader(job.transport.path, TOPICS, rows_max=4)
    size = len(heartbeat("east", "b", 1).value or b"")
    by_bytes = LogReader(job.transport.path, TOPICS, bytes_max=3 * size)

    assert by_rows.latestOffset(at(0), ALL) == at(4)
    assert by_rows.latestOffset(at(8), ALL) == at(10)
    assert by_bytes.latestOffset(at(0), ALL) == at(3)


def test_partitions_cover_the_range_without_overlap(tmp_path: Path) -> None:
    job = plan(tmp_path)
    new_log(job).append([heartbeat("east", "b", n) for n in range(10)])
    reader = LogReader(job.transport.path, TOPICS, partitions_max=3)
    ranges = reader.partitions(at(0), at(10))

    assert [ranges[0].start, ranges[-1].end] == [0, 10]
    assert all(a.end == b.start for a, b in pairwise(ranges))


def test_records_that_retention_took_from_a_checkpoint_are_missed_loudly(tmp_path: Path) -> None:
    job = plan(tmp_path)
    now = [1_000]
    log = new_log(job, clock=lambda: now[0])
    log.append([heartbeat("east", "b", n) for n in range(3)])
    now[0] = 100_000
    log.append([heartbeat("east", "b", 4)])
    apply_retention(log, "load-reports", retention_ms=1_000, now_ms=now[0])
    reader = LogReader(job.transport.path, TOPICS)

    with pytest.raises(OffsetOutOfRangeError, match=r"up to sequence 3, reader wants .* 1"):
        reader.latestOffset(at(1), ALL)
    with pytest.raises(OffsetOutOfRangeError):
        read(reader, 1, 4)


def test_a_new_checkpoint_reads_what_is_left_of_all_topics(tmp_path: Path) -> None:
    """Retention of the reports must not hide older records of the channel."""
    job = plan(tmp_path)
    now = [1_000]
    log = new_log(job, clock=lambda: now[0])
    log.append([heartbeat("east", "b", 1), assign("east", 1), heartbeat("east", "b", 2)])
    now[0] = 100_000
    log.append([heartbeat("east", "b", 3)])
    apply_retention(log, "load-reports", retention_ms=1_000, now_ms=now[0])
    reader = LogReader(job.transport.path, TOPICS)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    ranges = reader.partitions(start, end)
    rows = pa.Table.from_batches([b for r in ranges for b in reader.read(r)]).to_pylist()

    assert [row["sequence"] for row in rows] == [2, 4]


def test_what_was_trimmed_of_one_topic_hides_no_loss_of_another(tmp_path: Path) -> None:
    job = plan(tmp_path)
    now = [1_000]
    log = new_log(job, clock=lambda: now[0])
    log.append([assign("east", 1), *[heartbeat("east", "b", n) for n in range(3)]])
    now[0] = 100_000
    log.append([heartbeat("east", "b", 4), assign("east", 2)])
    apply_retention(log, "load-reports", retention_ms=1_000, now_ms=now[0])
    reader = LogReader(job.transport.path, TOPICS)
    start = reader.initialOffset()
    assert start == at(0, {"load-reports": 4})
    reader.latestOffset(start, ALL)
    apply_retention(log, "controller-commands", retention_ms=1_000, now_ms=now[0])

    with pytest.raises(OffsetOutOfRangeError, match="topic controller-commands"):
        reader.latestOffset(start, ALL)
    old = at(0, given_up=4)  # of a checkpoint that knew one number for all topics
    assert reader.latestOffset(old, ALL) == at(6, given_up=4)


@pytest.mark.spark
def test_spark_reads_every_record_once_in_bounded_batches(
    spark: SparkSession, tmp_path: Path
) -> None:
    job = plan(tmp_path, rows_max=4)
    new_log(job).append([heartbeat("east", f"b{n}", n) for n in range(10)])
    seen: list[list[int]] = []
    query = (
        read_records(spark, job)
        .writeStream.option("checkpointLocation", job.checkpoint)
        .foreachBatch(lambda frame, _: seen.append([r.ingest_ms for r in frame.collect()]))
        .start()
    )
    query.processAllAvailable()
    query.stop()

    assert [len(batch) for batch in seen] == [4, 4, 2]
