from __future__ import annotations

import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.transport.embedded import EmbeddedLog
from controller.transport.embedded.connection import Store
from controller.transport.embedded.maintenance import (
    MaintenanceSettings,
    apply_retention,
    compact,
    maintain,
    verify,
)
from controller.transport.embedded.schema import TABLES, Schema
from controller.transport.port import Marker, OutRecord
from tests.transport.contract import Clock, OpenLog, TransportContract, out


class TestEmbedded(TransportContract):
    @pytest.fixture
    def open_log(self, tmp_path: Path) -> OpenLog:
        return lambda clock: EmbeddedLog(tmp_path / "sub" / "log.db", clock=clock)

    def test_records_without_a_key_share_a_partition(self, log: EmbeddedLog) -> None:
        log.append([self.out(None, b"%d" % i) for i in range(9)])
        assert log.end_offsets(self.t) == {0: 9, 1: 0, 2: 0, 3: 0}

    def test_topics_are_those_that_were_created(self, log: EmbeddedLog) -> None:
        assert log.topics() == {"one": 1, "t": 4}

    def test_ingest_time_never_goes_back(self, log: EmbeddedLog, clock: Clock) -> None:
        for now_ms in (5_000, 4_000, 6_000):
            clock.now_ms = now_ms
            log.append([OutRecord(self.one, None, b"v")])
        assert [r.ingest_ms for r in log.read(self.one, 0, 0, 9)] == [5_000, 5_000, 6_000]

    def test_a_clock_that_goes_back_fences_nobody(self, log: EmbeddedLog, clock: Clock) -> None:
        log.append([self.out("a")])
        clock.now_ms -= 500
        lease = log.acquire_lease(self.q, "a", 100)
        log.publish([self.out("a")], Marker(self.q, "id", 1, lease.epoch), lease)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def log(tmp_path: Path, clock: Clock) -> EmbeddedLog:
    log = EmbeddedLog(tmp_path / "log.db", clock=clock)
    log.create_topic("t", 4)
    log.create_topic("one", 1, "compact")
    return log


def test_sequences_run_over_all_topics_and_columns_equal_records(log: EmbeddedLog) -> None:
    log.append([out(f"k{i}", b"%d" % i, ("t", "one")[i % 2]) for i in range(50)])
    columns = log.read_columns(0, 50, ["t", "one"], 1_000)
    records = [r for t, n in log.topics().items() for p in range(n) for r in log.read(t, p, 0, 99)]
    records.sort(key=lambda r: r.sequence)
    assert list(columns[0]) == list(range(1, 51))
    assert list(zip(*columns, strict=True)) == [
        (r.sequence, r.topic, r.partition, r.offset, r.key, r.value, r.ingest_ms) for r in records
    ]
    assert log.read_columns(10, 20, ["one"], 2)[0] == [12, 14]
    assert (log.end_sequence(), log.end_sequence(["t"])) == (50, 49)


@pytest.mark.parametrize(
    ("rows_max", "bytes_max", "end"),
    [(100, 1_000, 10), (3, 1_000, 3), (100, 25, 2), (100, 20, 2), (100, 1, 1), (0, 1_000, 1)],
)
def test_limits_of_a_batch(log: EmbeddedLog, rows_max: int, bytes_max: int, end: int) -> None:
    log.append([out("k", b"x" * 10) for _ in range(10)])
    assert log.limit_sequence(["t"], 0, 10, rows_max, bytes_max) == end


def test_retention_tells_readers_that_came_too_late(log: EmbeddedLog, clock: Clock) -> None:
    log.append([out(f"k{i}") for i in range(20)])
    log.append([out("c", topic="one")])
    clock.now_ms += 1_000
    log.append([out("k")])
    assert apply_retention(log, "t") == 0  # the topic keeps everything by itself
    assert apply_retention(log, "t", retention_ms=500) == 20
    assert (log.trimmed_sequence("t"), log.trimmed_sequence("one")) == (20, 0)
    assert log.read_columns(20, 99, ["t", "one"], 99)[0] == [21, 22]
    [(partition, offset)] = log.append([out("k")])
    assert log.end_offsets("t")[partition] == offset + 1 > 1  # offsets go on where they were


def test_maintain_compacts_one_kind_and_trims_the_other(log: EmbeddedLog, clock: Clock) -> None:
    log.append([out("a"), out("b"), out("a", topic="one"), out("a", topic="one")])
    clock.now_ms += 1_000
    assert maintain(log, MaintenanceSettings(0, 0, 2_000)) == {"one": 1, "t": 0}
    assert maintain(log, MaintenanceSettings(0, 0, 2_000, {"t": 500})) == {"one": 0, "t": 2}
    verify(log)


writes = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c", None]), st.booleans(), st.integers(0, 40)),
    max_size=30,
)


@settings(deadline=None, max_examples=40)
@given(writes=writes, lag=st.integers(0, 60), delay=st.integers(0, 60))
def test_compaction_equals_its_plain_twin(
    tmp_path_factory: pytest.TempPathFactory,
    writes: list[tuple[str | None, bool, int]],
    lag: int,
    delay: int,
) -> None:
    clock = Clock()
    log = EmbeddedLog(tmp_path_factory.mktemp("twin") / "log.db", clock=clock, durability="process")
    log.create_topic("one", 1, "compact")
    for key, is_tombstone, pause_ms in writes:
        clock.now_ms += pause_ms
        log.append([OutRecord("one", key, None if is_tombstone else b"v")])
    records = log.read("one", 0, 0, 99)
    old = [r for r in records if r.ingest_ms <= clock.now_ms - lag]
    last = {r.key: r.offset for r in old}
    gone = {
        r.offset
        for r in old
        if r.key is not None
        and (r.offset != last[r.key] or (r.value is None and r.ingest_ms <= clock.now_ms - delay))
    }
    assert compact(log, "one", min_lag_ms=lag, tombstone_after_ms=delay) == len(gone)
    assert log.read("one", 0, 0, 99) == [r for r in records if r.offset not in gone]
    assert log.trimmed_sequence("one") == 0
    log.close()


def test_an_older_file_is_migrated_and_keeps_its_rows(tmp_path: Path) -> None:
    first = EmbeddedLog(tmp_path / "log.db")
    first.create_topic("t", 1)
    first.close()
    step = "ALTER TABLE topics ADD COLUMN note TEXT; UPDATE topics SET note = 'moved'"
    newer = Schema(2, TABLES, {1: step})
    for _ in range(2):  # the second time there is nothing to do
        store = Store(tmp_path / "log.db", "process", 1_000, newer)
        with store.reading() as connection:
            assert connection.execute("SELECT name, note FROM topics").fetchall() == [
                ("t", "moved")
            ]
        store.close()


def test_threads_use_one_log_at_once(log: EmbeddedLog) -> None:
    def write() -> None:
        for _ in range(20):
            log.append([out("k"), out("l")])

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert log.read_columns(0, 999, ["t"], 999)[0] == list(range(1, 161))


def test_the_range_of_sequences_is_searched_not_the_whole_topic(log: EmbeddedLog) -> None:
    asked: list[str] = []
    with log.store.using() as connection:
        connection.set_trace_callback(asked.append)
        log.limit_sequence(["t"], 5, 9, 10, 10)
        log.read_columns(5, 9, ["t"], 10)
        connection.set_trace_callback(None)
        queries = [query for query in asked if "FROM records" in query]
        plans = [
            connection.execute(f"EXPLAIN QUERY PLAN {query}").fetchall()[0][3] for query in queries
        ]
    assert plans == [
        "SEARCH records USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
        "SEARCH records USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
    ]
