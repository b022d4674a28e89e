from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from controller.cli.main import app
from controller.config import as_tables, load_config
from controller.config.origins import Origin, load_with_origins


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "job.toml"
    path.write_text(
        "[job]\ntrigger_ms = 100\nname = 'a'\nread_partitions = 2\n"
        "[job.spark_conf]\nspark.ui.enabled = true\n"
        "[clusters.east]\nchannel = 'e'\n"
    )
    return path


@pytest.fixture
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUNDLECTL_JOB__TRIGGER_MS", "200")
    monkeypatch.setenv("bundlectl_job__name", "b")
    monkeypatch.setenv("BUNDLECTL_BALANCE__ROUNDS", '{"settle_ms": 300}')


@pytest.mark.usefixtures("_environment")
def test_each_value_names_the_layer_that_won(path: Path) -> None:
    config, sourced = load_with_origins(path, {"job.trigger_ms": 300})
    assert config == load_config(path, {"job.trigger_ms": 300})
    wanted = {
        "job.trigger_ms": (300, Origin("--set")),
        "job.name": ("b", Origin("environment", "bundlectl_job__name")),
        "balance.rounds.settle_ms": (300, Origin("environment", "BUNDLECTL_BALANCE__ROUNDS")),
        "job.read_partitions": (2, Origin("file", str(path))),
        'job.spark_conf."spark.ui.enabled"': ("true", Origin("file", str(path))),
        "clusters.east.channel": ("e", Origin("file", str(path))),
        "clusters.east.reports_topics": ([], Origin("default")),
        "balance.rounds.upkeep_interval_ms": (5_000, Origin("default")),
    }
    assert {name: (sourced[name].value, sourced[name].origin) for name in wanted} == wanted


def test_every_key_has_an_origin_and_without_layers_it_is_the_default() -> None:
    _, sourced = load_with_origins(None)
    shown = tomllib.loads(CliRunner().invoke(app, ["config", "show"]).stdout)
    for name, one in sourced.items():
        at = shown
        for key in name.split("."):
            at = at[key]
        assert (at, one.origin) == (one.value, Origin("default"))


@pytest.mark.usefixtures("_environment")
def test_the_command_shows_origins_beside_the_same_values(path: Path) -> None:
    arguments = ["config", "show", "--origin", "-c", str(path), "--set", "lease.wait_ms=0"]
    text = CliRunner().invoke(app, arguments).stdout
    assert tomllib.loads(text) == as_tables(load_config(path, {"lease.wait_ms": 0}))
    assert "wait_ms = 0  # --set\n" in text
    assert "trigger_ms = 200  # environment BUNDLECTL_JOB__TRIGGER_MS\n" in text
    assert f"read_partitions = 2  # file {path}\n" in text
    assert "ui_port = 4040  # default\n" in text


@pytest.mark.usefixtures("_environment")
def test_the_command_shows_origins_as_json(path: Path) -> None:
    arguments = ["config", "show", "--origin", "--json", "-c", str(path), "-s", "metrics.port=0"]
    shown = json.loads(CliRunner().invoke(app, arguments).stdout)
    assert shown["metrics.port"] == {"value": 0, "origin": "--set"}
    assert shown["job.trigger_ms"] == {
        "value": 200,
        "origin": "environment",
        "name": "BUNDLECTL_JOB__TRIGGER_MS",
    }
    assert shown["job.read_partitions"] == {"value": 2, "origin": "file", "name": str(path)}
    assert shown["job.ui_port"] == {"value": 4040, "origin": "default"}


def test_a_bad_layer_is_the_same_error_as_without_origins(path: Path) -> None:
    found = CliRunner().invoke(
        app, ["config", "show", "--origin", "-c", str(path), "-s", "job.nam=1"]
    )
    assert found.exit_code == 1 and "did you mean 'name'?" in found.stderr
