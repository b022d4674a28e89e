"""Parts of the job that need no Spark session."""

from __future__ import annotations

import json
import os
import signal
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from controller.core.settings import RoundSettings
from controller.transport.embedded import EmbeddedLog
from controller.transport.port import OutRecord
from streaming.checkpoint import CheckpointError, check_against_log, read_facts
from streaming.faults import VARIABLE, Fault, armed
from streaming.halt import Halt, Halted
from streaming.job import JobError, cause_of, check_start, run
from streaming.main import main
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
        {"/health": lambda: (True, {}), "/ready": lambda: (is_ready[0], {"batches": 0})},
    )
    web.start()
    base = f"http://127.0.0.1:{web.port}"
    try:
        assert urllib.request.urlopen(base + "/health").status == 200
        assert urllib.request.urlopen(base + "/metrics").status == 200
        with pytest.raises(urllib.error.HTTPError, match="503"):
            urllib.request.urlopen(base + "/ready")
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(base + "/")
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
    assert (facts.batch_id, facts.offset["sequence"]) == (7, 50)
    log = EmbeddedLog(tmp_path / "log.db")
    log.create_topic("t", 1)
    log.append([OutRecord("t", None, b"")] * 49)
    with pytest.raises(CheckpointError, match="belongs to another log"):
        check_against_log(facts, log, "log.db")
    log.append([OutRecord("t", None, b"")])
    check_against_log(facts, log, "log.db")
    write_checkpoint(tmp_path / "kafka", '{"t":{"0":50}}')
    found = read_facts(str(tmp_path / "kafka"))
    assert found is not None
    with pytest.raises(CheckpointError, match="another kind of log"):
        check_against_log(found, log, "log.db")
    write_checkpoint(tmp_path / "other", '{"a":1}', '{"b":2}')
    with pytest.raises(CheckpointError, match="another kind of query"):
        read_facts(str(tmp_path / "other"))


def mark(log: EmbeddedLog, name: str, query_id: str, batch_id: int) -> None:
    with log.store.writing() as connection:
        values = (name, query_id, batch_id, 1)
        connection.execute("INSERT OR REPLACE INTO markers VALUES (?, ?, ?, ?)", values)


@pytest.mark.parametrize("metadata", ["", "{", "[]", "null", "{}", '{"id"', "7"])
def test_damaged_metadata_is_one_sentence_with_remedy(tmp_path: Path, metadata: str) -> None:
    write_checkpoint(tmp_path, '{"sequence":50}')
    (tmp_path / "metadata").write_text(metadata)
    with pytest.raises(CheckpointError, match=r"damaged.*new checkpoint folder") as caught:
        read_facts(str(tmp_path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("offsets", ["", "v1\n[]\n{}", "v1\n{}", 'v1\n{}\n{"a":1', "v1\n7\n7"])
def test_damaged_offsets_are_one_sentence(tmp_path: Path, offsets: str) -> None:
    write_checkpoint(tmp_path, '{"sequence":50}')
    (tmp_path / "offsets" / "7").write_text(offsets)
    with pytest.raises(CheckpointError):
        read_facts(str(tmp_path))


def test_adopting_can_be_refused(tmp_path: Path) -> None:
    job = plan(tmp_path, may_adopt=False)
    log = new_log(job)
    assert check_start(job, log) is None
    mark(log, job.name, "elsewhere", 3)
    with pytest.raises(CheckpointError, match="another checkpoint"):
        check_start(job, log)
    adopting = replace(job, may_adopt=True)
    assert check_start(adopting, log) == log.marker(job.name)


def test_a_checkpoint_that_was_put_back_behind_its_marker_is_refused(tmp_path: Path) -> None:
    job = plan(tmp_path)
    log = new_log(job)
    write_checkpoint(Path(job.checkpoint), '{"sequence":0}')
    mark(log, job.name, "q1", 7)
    assert check_start(job, log) is None, "planned and published: Spark goes on from there"
    mark(log, job.name, "q1", 8)
    with pytest.raises(CheckpointError, match="put back to batch 7, but batch 8 was published"):
        check_start(job, log)


def test_a_checkpoint_elsewhere_is_judged_by_the_sink(tmp_path: Path) -> None:
    """Nothing can be read there, so its own marker looks like that of another checkpoint."""
    job = plan(tmp_path, may_adopt=False, checkpoint="hdfs://place/checkpoint")
    log = new_log(job)
    mark(log, job.name, "elsewhere", 3)
    assert check_start(job, log) is None


def test_what_is_wrong_with_the_configuration_is_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "job.toml"
    path.write_text("[job]\ntrigger_ms = 1\n")
    assert main(["--config", str(path)]) == 78
    assert capsys.readouterr().err.startswith(f"bundle-controller: {path}: [job] trigger_ms = 1")


def test_a_signal_interrupts_what_cannot_look_at_the_switch() -> None:
    halt = Halt()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    halt.catch_signals()
    try:
        with pytest.raises(Halted), halt.interrupting():
            os.kill(os.getpid(), signal.SIGTERM)
            pytest.fail("the signal came and went")
        os.kill(os.getpid(), signal.SIGTERM)  # outside it only sets the switch
        with pytest.raises(Halted), halt.interrupting():
            pytest.fail("it is set already")
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert halt.is_set() and halt.failure is None


def test_what_cannot_run_is_told_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "nowhere:1")
    with pytest.raises(JobError, match=r"nowhere:1 must be point:batch.*unset it"):
        run(plan(tmp_path), Halt())
    monkeypatch.delenv(VARIABLE)
    other = Web("127.0.0.1", 0, CollectorRegistry(), {})
    with pytest.raises(JobError, match=r"cannot be used.*set metrics\.port to another one"):
        run(plan(tmp_path, http_port=other.port), Halt())
    other.stop()


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
