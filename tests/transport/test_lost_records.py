"""Records that are not there any more are missed loudly, never skipped."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from controller.transport.embedded import EmbeddedLog
from controller.transport.embedded.maintenance import apply_retention, compact
from controller.transport.errors import (
    CorruptError,
    OffsetOutOfRangeError,
    UnknownTopicError,
)
from tests.transport.contract import Clock, out


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def log(tmp_path: Path, clock: Clock) -> EmbeddedLog:
    log = EmbeddedLog(tmp_path / "log.db", clock=clock)
    log.create_topic("t", 1)
    log.append([out("k") for _ in range(5)])
    clock.now_ms += 1_000
    log.append([out("k")])
    assert apply_retention(log, "t", retention_ms=500) == 5
    return log


def test_reading_where_retention_has_been_fails(log: EmbeddedLog) -> None:
    with pytest.raises(OffsetOutOfRangeError, match="offset 5, reader wants 4"):
        log.read("t", 0, 4, 10)
    with pytest.raises(OffsetOutOfRangeError, match="sequence 5"):
        log.read_columns(4, 6, ["t"], 10)
    with pytest.raises(OffsetOutOfRangeError, match="sequence 5"):
        log.read_columns(0, 6, ["t"], 10, given_up=4)
    assert log.read_columns(0, 6, ["t"], 10, given_up=5)[0] == [6]
    assert log.start_offsets("t") == {0: 5}
    assert [r.offset for r in log.read("t", 0, 5, 10)] == [5]
    assert log.read_columns(5, 6, ["t"], 10)[0] == [6]


def test_reading_past_the_end_fails(log: EmbeddedLog) -> None:
    assert log.read("t", 0, 6, 10) == []
    with pytest.raises(OffsetOutOfRangeError, match="ends at offset 6"):
        log.read("t", 0, 7, 10)
    with pytest.raises(UnknownTopicError, match="partition 1"):
        log.read("t", 1, 0, 10)


def test_the_end_stays_when_everything_was_removed(log: EmbeddedLog, clock: Clock) -> None:
    clock.now_ms += 1_000
    apply_retention(log, "t", retention_ms=500)
    assert log.end_sequence(["t"]) == log.end_sequence() == 6


def test_a_topic_not_made_for_it_is_not_compacted(log: EmbeddedLog) -> None:
    with pytest.raises(ValueError, match="not made for compaction"):
        compact(log, "t", min_lag_ms=0, tombstone_after_ms=0)


def test_an_emptied_file_beside_its_write_ahead_file(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    program = (
        "import os, sys; from controller.transport.embedded import EmbeddedLog; "
        "EmbeddedLog(sys.argv[1]).create_topic('t', 1); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", program, str(path)], check=True)
    os.truncate(path, 0)
    with pytest.raises(CorruptError, match="was emptied"):
        EmbeddedLog(path)
    assert (tmp_path / "log.db-wal").stat().st_size > 0
