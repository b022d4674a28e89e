"""Parts of the job that need no Spark session."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from controller.core.settings import RoundSettings
from streaming.checkpoint import CheckpointError, check_against_log, read_facts
from streaming.faults import VARIABLE, Fault, armed
from streaming.job import JobError, cause_of, check_start
from streaming.stateful import pack, unpack
from streaming.ticker import next_due_ms
from streaming.web import Web
from tests.streaming.worlds import new_log, plan


@pytest.mark.parametrize(
    ("now_ms", "due_ms"), [(0, 100), (99, 100), (100, 600), (599, 600), (600, 1_100)]
)
def test_a_tick_is_due_when_the_clock_passes_tick_plus_settle(now_ms: int, due_ms: int) -> None:
    assert next_due_ms(RoundSettings(upkeep_interval_ms=500, settle_ms=100), now_ms) == due_ms


def test_web_answers_probes_and_metrics() -> None:
    is_ready = [False]
    web = Web(
        "127.0.0.1",
        0,
        CollectorRegistry(),
        lambda: (True, {}),
        lambda: (is_ready[0], {"batches": 0}),
    )
    web.start()
    base = f"http://127.0.0.1:{web.port}"
    try:
        assert urllib.request.urlopen(base + "/health").status == 200
        assert urllib.request.urlopen(base + "/metrics").status == 200
        with pytest.raises(urllib.error.HTTPError, match="503"):
            urllib.request.urlopen(base + "/ready")
        is_ready[0] = True
        assert json.load(urllib.request.urlopen(base + "/ready")) == {"batches": 0}
    finally:
        web.stop()


def write_checkpoint(folder: Path, *offsets: str) -> None:
    (folder / "offsets").mkdir(parents=True)
    (folder / "metadata").write_text('{"id":"q1"}')
    conf = '{"batchWatermarkMs":0,"conf":{"spark.sql.shuffle.partitions":"2"}}'
    (folder / "offsets" / "7").write_text("\n".join(["v1", conf, *offsets]))


def test_a_checkpoint_of_another_log_or_query_is_refused(tmp_path: Path) -> None:
    assert read_facts(str(tmp_path / "none")) is None
    write_checkpoint(tmp_path / "ours", '{"sequence":50}')
    facts = read_facts(f"file://{tmp_path}/ours")
    assert facts is not None and (facts.query_id, facts.shuffle_partitions) == ("q1", 2)
    check_against_log(facts, 50, "log.db")
    with pytest.raises(CheckpointError, match="belongs to another log"):
        check_against_log(facts, 49, "log.db")
    write_checkpoint(tmp_path / "other", '{"a":1}', '{"b":2}')
    with pytest.raises(CheckpointError, match="another kind of query"):
        read_facts(str(tmp_path / "other"))


def test_adopting_can_be_refused(tmp_path: Path) -> None:
    job = plan(tmp_path, may_adopt=False)
    log = new_log(job)
    check_start(job, log)
    with log.store.writing() as connection:
        connection.execute("INSERT INTO markers VALUES (?, 'elsewhere', 3, 1)", (job.name,))
    with pytest.raises(JobError, match="another checkpoint"):
        check_start(job, log)


def test_the_blob_envelope_keeps_its_content() -> None:
    content = bytes(range(256)) * 100
    assert unpack(pack(content)) == content
    assert pack(content) == pack(content)


def test_the_cause_of_a_failed_query_is_the_innermost_python_error() -> None:
    cause = "controller.transport.errors.OffsetOutOfRangeError: records are lost"
    text = f"org.apache.X: no\n  File x\n{cause}\n at org.Y"
    assert cause_of(Exception(text)) == cause


def test_faults_are_off_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert armed() == Fault()
    monkeypatch.setenv(VARIABLE, "nowhere:1")
    with pytest.raises(ValueError, match="point:batch"):
        armed()
