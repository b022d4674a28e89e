"""Many processes on one file, some of them killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from controller.transport.embedded import EmbeddedLog
from controller.transport.embedded.maintenance import verify
from controller.transport.port import OutRecord

SPAWN = multiprocessing.get_context("spawn")
BATCH = 5


def append_batches(path: str, writer: int, batches: int) -> None:
    log = EmbeddedLog(path)
    for i in range(batches):
        log.append([OutRecord("t", f"{writer}-{j}", b"%d" % i) for j in range(BATCH)])


def append_until_killed(path: str, writer: int, acknowledged: Connection) -> None:
    log = EmbeddedLog(path)
    i = 0
    while True:
        log.append([OutRecord("t", f"{writer}-{i}-{j}", b"x" * 500) for j in range(BATCH)])
        acknowledged.send(i)
        i += 1


def read_until_killed(path: str, started: Connection) -> None:
    with EmbeddedLog(path).store.reading() as connection:
        connection.execute("SELECT count(*) FROM records").fetchone()
        started.send(True)
        signal.pause()


@pytest.fixture
def log(tmp_path: Path) -> EmbeddedLog:
    log = EmbeddedLog(tmp_path / "log.db")
    log.create_topic("t", 4)
    return log


def test_writers_at_once_leave_no_gap_and_no_duplicate(log: EmbeddedLog) -> None:
    writers = [SPAWN.Process(target=append_batches, args=(str(log.path), w, 60)) for w in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0] * 4
    sequence, _, _, _, keys, values, ingest_ms = log.read_columns(0, 10_000, ["t"], 10_000)
    assert sequence == list(range(1, 4 * 60 * BATCH + 1))
    assert ingest_ms == sorted(ingest_ms)
    assert set(Counter(zip(keys, values, strict=True)).values()) == {1}
    for partition, end in log.end_offsets("t").items():
        assert [r.offset for r in log.read("t", partition, 0, 9_999)] == list(range(end))


def test_a_killed_writer_loses_nothing_that_was_acknowledged(log: EmbeddedLog) -> None:
    acknowledged: dict[int, int] = {}
    for round_number in range(10):
        ours, theirs = SPAWN.Pipe(duplex=False)
        writer = SPAWN.Process(
            target=append_until_killed, args=(str(log.path), round_number, theirs)
        )
        writer.start()
        theirs.close()
        for _ in range(20 + 7 * round_number):
            acknowledged[round_number] = ours.recv()
        writer.kill()
        writer.join(30)
        while ours.poll():
            try:
                acknowledged[round_number] = ours.recv()
            except (EOFError, OSError):
                break
    columns = log.read_columns(0, 1_000_000, ["t"], 1_000_000)
    batches = Counter(tuple(map(int, (key or "").split("-")[:2])) for key in columns[4])
    assert set(batches.values()) == {BATCH}
    for round_number, last in acknowledged.items():
        assert all((round_number, i) in batches for i in range(last + 1))
    assert columns[0] == list(range(1, len(columns[0]) + 1))
    verify(log)


def test_a_killed_reader_holds_nothing_back(log: EmbeddedLog) -> None:
    ours, theirs = SPAWN.Pipe(duplex=False)
    reader = SPAWN.Process(target=read_until_killed, args=(str(log.path), theirs))
    reader.start()
    assert ours.recv()
    log.append([OutRecord("t", "k", b"x" * 100_000)])
    reader.kill()
    reader.join(30)
    with log.store.using() as connection:
        busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    assert (busy, Path(f"{log.path}-wal").stat().st_size) == (0, 0)


def test_parent_and_child_both_append_after_a_fork(log: EmbeddedLog) -> None:
    log.append([OutRecord("t", "before", b"")])
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            links = [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
            if not any(link.startswith(str(log.path)) for link in links):  # nothing inherited
                os.read(ours, 1)
                for _ in range(20):
                    log.append([OutRecord("t", "child", b"")])
                status = 0
        finally:
            os._exit(status)
    os.write(theirs, b"x")
    for _ in range(20):
        log.append([OutRecord("t", "parent", b"")])
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    columns = log.read_columns(0, 999, ["t"], 999)
    assert columns[0] == list(range(1, 42))
    assert Counter(columns[4]) == {"before": 1, "child": 20, "parent": 20}
