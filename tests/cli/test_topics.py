from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from controller.cli.doctor_command import CLOCK_DIFFERENCE_MAX_MS, clock_check
from controller.cli.main import app
from controller.transport.embedded import EmbeddedLog
from controller.transport.port import Marker

TOPICS = [
    "bundle-state-local",
    "controller-commands",
    "dead-letters",
    "decision-log",
    "load-reports",
]
NOWHERE = (
    "-s",
    "transport.kind=kafka",
    "-s",
    "transport.kafka.bootstrap_servers=127.0.0.1:1",
    "-s",
    "transport.kafka.connect_timeout_ms=300",
)


@pytest.fixture
def log_path(tmp_path: Path) -> Path:
    return tmp_path / "log.db"


def _run(path: Path, *arguments: str) -> Result:
    checkpoint = path.parent / "checkpoint"
    sets = ("-s", f"transport.path={path}", "-s", f"job.checkpoint={checkpoint}")
    return CliRunner().invoke(app, [*arguments, *sets])


def test_topics_of_the_embedded_log_are_created_once(log_path: Path) -> None:
    planned = _run(log_path, "topics", "create", "--dry-run")
    assert planned.stdout.count("would create") == 5 and not log_path.exists()
    first = json.loads(_run(log_path, "topics", "create", "--json").stdout)
    assert [(one["topic"], one["action"]) for one in first["topics"]] == [
        (name, "created") for name in TOPICS
    ]
    again = _run(log_path, "topics", "create", "--mend")
    assert again.exit_code == 0 and again.stdout.count("exists") == 5
    log = EmbeddedLog(log_path)
    assert log.topics() == dict.fromkeys(TOPICS, 1) | {"load-reports": 4}
    log.close()


def test_the_embedded_log_needs_no_settings(log_path: Path) -> None:
    checked = _run(log_path, "topics", "check")
    assert checked.exit_code == 0 and "nothing to check" in checked.stdout
    refused = _run(log_path, "topics", "create", "--replication", "3")
    assert refused.exit_code == 1 and "has no replicas" in refused.stderr


def test_describe_works_where_nothing_is_there_yet(log_path: Path) -> None:
    shown = _run(log_path, "topics", "describe")
    assert shown.exit_code == 0 and "what exists is not shown: there is no log" in shown.stderr
    assert "load-reports: load reports and signs of life of the brokers" in shown.stdout
    _run(log_path, "topics", "create")
    rows = json.loads(_run(log_path, "topics", "describe", "--json").stdout)["topics"]
    assert {one["topic"]: one["there"]["partitions"] for one in rows}["load-reports"] == 4


def test_describe_shows_what_is_wanted_of_a_kafka_that_is_away() -> None:
    shown = CliRunner().invoke(app, ["topics", "describe", *NOWHERE])
    assert shown.exit_code == 0 and "did not answer in time" in shown.stderr
    assert "kept: the last record of each key for ever, every record for 7 days" in shown.stdout


def test_check_of_a_kafka_that_is_away_is_one_sentence() -> None:
    checked = CliRunner().invoke(app, ["topics", "check", *NOWHERE])
    assert checked.exit_code == 1 and len(checked.stderr.splitlines()) == 1


def _checks(result: Result) -> dict[str, tuple[str, str]]:
    rows = json.loads(result.stdout)["checks"]
    return {one["name"]: (one["status"], one["text"]) for one in rows}


def test_doctor_before_the_first_start(log_path: Path) -> None:
    found = _run(log_path, "doctor", "--json")
    checks = _checks(found)
    assert (checks["log"][0], checks["checkpoint"][0]) == ("note", "good")
    assert list(checks) == ["Java", "PySpark", "log", "checkpoint"]


def test_doctor_looks_at_lease_and_marker(log_path: Path) -> None:
    log = EmbeddedLog(log_path, clock=lambda: 1_700_000_000_000)
    lease = log.acquire_lease("bundle-controller", "me", 1_000)
    log.publish([], Marker("bundle-controller", "some-query", 7, 1), lease)
    log.close()
    checks = _checks(_run(log_path, "doctor", "--json"))
    assert checks["lease"] == ("good", "free; me had it last (epoch 1)")
    assert checks["marker"][0] == "note" and "batch 7 of query some-query" in checks["marker"][1]
    refused = _run(log_path, "doctor", "--json", "-s", "job.may_adopt=false")
    assert refused.exit_code == 1 and _checks(refused)["marker"][0] == "bad"


def test_doctor_names_a_checkpoint_that_cannot_be_used(log_path: Path) -> None:
    (log_path.parent / "checkpoint").write_text("a file where a folder should be")
    found = _run(log_path, "doctor", "--json")
    status, text = _checks(found)["checkpoint"]
    assert (found.exit_code, status) == (1, "bad") and "checkpoint" in text


def test_doctor_stops_at_a_log_that_cannot_be_reached() -> None:
    found = CliRunner().invoke(app, ["doctor", *NOWHERE])
    assert found.exit_code == 1 and "bad   log         Kafka at 127.0.0.1:1" in found.stdout
    assert "lease" not in found.stdout


@pytest.mark.parametrize(
    ("ahead_ms", "status", "word"),
    [
        (0, "good", "less than a second"),
        (CLOCK_DIFFERENCE_MAX_MS, "good", "less than a second"),
        (CLOCK_DIFFERENCE_MAX_MS + 1, "bad", "1.0 s ahead of"),
        (-90_000, "bad", "90.0 s behind"),
    ],
)
def test_clocks_may_differ_by_a_second(ahead_ms: int, status: str, word: str) -> None:
    found = clock_check(ahead_ms)
    assert found.status == status and word in found.text
