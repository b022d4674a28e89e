from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from controller.cli.main import app
from controller.config import as_tables, load_config
from controller.transport.embedded import EmbeddedLog
from controller.transport.port import Marker, OutRecord


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture
def log_path(tmp_path: Path) -> str:
    path = tmp_path / "log.db"
    log = EmbeddedLog(path, clock=lambda: 1_700_000_000_000)
    log.create_topic("news", 2)
    lease = log.acquire_lease("my-job", "me", 1_000)
    records = [OutRecord("news", f"key-{n}", b'{"n": %d}' % n) for n in range(5)]
    log.publish([*records, OutRecord("news", "gone", None)], Marker("my-job", "q", 7, 1), lease)
    log.close()
    return str(path)


def test_config_show_prints_what_is_in_force() -> None:
    shown = _run("config", "show", "--set", "job.trigger_ms=300")
    expected = as_tables(load_config(None, {"job.trigger_ms": 300}))
    assert (shown.exit_code, tomllib.loads(shown.stdout)) == (0, expected)
    assert json.loads(_run("config", "show", "--json").stdout) == as_tables(load_config(None))


def test_config_check_says_good_or_all_that_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    path.write_text("[agent]\ntakeover_grace_ms = 1\n")
    assert _run("config", "check").exit_code == 0
    bad = _run("config", "check", "--config", str(path))
    assert bad.exit_code == 1
    assert f"bundlectl: {path}: [agent] takeover_grace_ms = 1" in bad.stderr


def test_errors_are_sentences_and_tracebacks_only_with_debug() -> None:
    missing = _run("config", "check", "--config", "/none.toml")
    assert missing.exit_code == 1 and len(missing.stderr.splitlines()) == 1
    assert type(_run("--debug", "config", "check", "-c", "/none.toml").exception).__name__ == (
        "ConfigError"
    )


@pytest.mark.parametrize(
    "arguments", [["run"], ["nonsense"], ["agent", "--cluster", "local", "--broker", "b"]]
)
def test_wrong_usage_is_status_2(arguments: list[str]) -> None:
    assert _run(*arguments).exit_code == 2


def test_run_looks_for_java_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "job.toml"
    path.write_text("")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    found = _run("run", "--config", str(path))
    assert found.exit_code == 1 and "unset JAVA_HOME" in found.stderr


def test_agent_of_an_unknown_cluster_is_an_error() -> None:
    found = _run("agent", "--simulated", "--cluster", "locl", "--broker", "b")
    assert found.exit_code == 1 and "did you mean 'local'?" in found.stderr


def test_log_topics(log_path: str) -> None:
    (row,) = json.loads(_run("log", "topics", "--path", log_path, "--json").stdout)
    assert row["topic"] == "news" and sum(row["end_offsets"].values()) == 6
    assert "news" in _run("log", "topics", "--path", log_path).stdout


def test_log_tail_prints_in_order_of_append(log_path: str) -> None:
    lines = _run("log", "tail", "news", "--path", log_path, "--json").stdout.splitlines()
    values = [json.loads(line)["value"] for line in lines]
    assert values == [{"n": n} for n in range(5)] + [None]
    text = _run("log", "tail", "news", "--path", log_path, "--lines", "1").stdout
    assert text.splitlines()[0].startswith("2023-11-14T22:13:20.000+00:00")


def test_log_tail_of_an_unknown_topic_names_the_nearest(log_path: str) -> None:
    found = _run("log", "tail", "new", "--path", log_path)
    assert found.exit_code == 1 and "did you mean 'news'?" in found.stderr


def test_log_marker(log_path: str) -> None:
    found = _run("log", "marker", "my-job", "--path", log_path)
    assert found.stdout.strip() == "name=my-job query_id=q batch_id=7 epoch=1"
    assert _run("log", "marker", "other", "--path", log_path).exit_code == 1


def test_looking_never_creates_a_log(tmp_path: Path) -> None:
    path = tmp_path / "none.db"
    assert _run("log", "topics", "--path", str(path)).exit_code == 1
    assert not path.exists()


def test_quick_commands_do_not_import_spark() -> None:
    code = "import sys, controller.cli.main; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_empty_file_is_not_made_a_log(tmp_path: Path) -> None:
    path = tmp_path / "empty.db"
    path.touch()
    assert _run("log", "topics", "--path", str(path)).exit_code == 1
    assert path.stat().st_size == 0


def test_a_reader_that_has_seen_enough_gets_no_error(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    log = EmbeddedLog(path)
    log.create_topic("news", 1)
    log.append([OutRecord("news", "key", b"x" * 100)] * 5_000)
    log.close()
    command = [sys.executable, "-m", "controller.cli.main", "log", "tail", "news", "-n", "5000"]
    with subprocess.Popen(
        [*command, "-p", str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as tail:
        assert tail.stdout is not None and tail.stderr is not None
        tail.stdout.readline()
        tail.stdout.close()
        assert tail.stderr.read() == b""
