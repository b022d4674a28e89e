from __future__ import annotations

import json
import stat
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from controller.cli.main import app
from controller.config import load_config
from tests.tidy import FILE_LINES_MAX

CONF = Path(__file__).with_name("broker.conf")


def _import(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["config", "import", *map(str, arguments)])


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "broker.conf"
    path.write_text("minUnloadMessage=7\nclusterName=c\nloadBalancerEnabled=true\n")
    return path


def test_the_text_is_on_stdout_and_the_report_on_stderr(small: Path) -> None:
    found = _import(small)
    assert found.exit_code == 0
    assert tomllib.loads(found.stdout)["balance"]["avg"] == {"min_unload_rate": 7.0}
    report = found.stderr
    assert "minUnloadMessage = 7" in report and "balance.avg.min_unload_rate = 7.0" in report
    assert "loadBalancerLoadSheddingStrategy = ThresholdShedder" in report
    assert "Has no meaning here" in report and "here job.act says what is done" in report
    assert "1 keys taken" in report and "1 keys not about load balance" in report


def test_a_real_file_gives_a_file_that_load_config_takes(tmp_path: Path) -> None:
    output = tmp_path / "ours.toml"
    found = _import(CONF, "--output", output)
    assert (found.exit_code, found.stdout) == (0, "")
    assert f"wrote {output}" in found.stderr.replace("\n", "")
    assert load_config(output).balance.shed == "threshold"
    assert len(output.read_text().splitlines()) < FILE_LINES_MAX
    assert list(tmp_path.iterdir()) == [output]


def test_a_file_that_is_there_stays_unless_forced(small: Path, tmp_path: Path) -> None:
    output = tmp_path / "ours.toml"
    output.write_text("mine")
    refused = _import(small, "--output", output)
    assert refused.exit_code == 1 and "--force" in refused.stderr
    assert output.read_text() == "mine"
    assert _import(small, "--output", output, "--force").exit_code == 0
    assert "min_unload_rate = 7.0" in output.read_text()
    assert stat.S_IMODE(output.stat().st_mode) & 0o400
    for bad in (tmp_path, tmp_path / "none" / "ours.toml"):
        assert _import(small, "--output", bad, "--force").exit_code == 1


def test_a_link_is_followed_and_stays_a_link(small: Path, tmp_path: Path) -> None:
    output, link = tmp_path / "ours.toml", tmp_path / "link.toml"
    output.write_text("")
    link.symlink_to(output)
    assert _import(small, "--output", link, "--force").exit_code == 0
    assert link.is_symlink() and "min_unload_rate" in output.read_text()


def test_json_is_one_document(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_text("minUnloadMessage=7\nmaxUnloadPercentage=x\nloadBalancerEnabled=true\n")
    found = _import(path, "--json")
    document = json.loads(found.stdout)
    assert (found.exit_code, found.stderr) == (1, "")
    assert tomllib.loads(document["toml"])["balance"]["uniform"] == {"min_unload_rate": 7.0}
    assert document["taken"] == [
        {
            "line": 1,
            "key": "minUnloadMessage",
            "value": "7",
            "ours": {"balance.uniform.min_unload_rate": 7.0, "balance.avg.min_unload_rate": 7.0},
        }
    ]
    assert document["errors"] == [
        {
            "file": str(path),
            "line": 2,
            "key": "maxUnloadPercentage",
            "value": "x",
            "problem": "is no number",
            "remedy": "write digits with a decimal point, without a unit",
        }
    ]
    assert [one["key"] for one in document["withoutMeaning"]] == ["loadBalancerEnabled"]
    assert {"key", "pulsar", "pulsarHere", "ours", "why"} == set(document["otherDefaults"][0])


def test_errors_are_lines_with_file_line_key_value_and_remedy(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_text("\nmaxUnloadPercentage = x\nminUnloadMessage=7\n")
    found = _import(path)
    assert found.exit_code == 1 and "min_unload_rate = 7.0" in found.stdout
    line = f"error: {path}:2: maxUnloadPercentage = x: is no number; write digits"
    assert line in found.stderr


def test_values_that_do_not_fit_together_write_nothing(tmp_path: Path) -> None:
    path, output = tmp_path / "broker.conf", tmp_path / "ours.toml"
    path.write_text("loadBalancerServiceUnitStateMonitorIntervalInSeconds=45\n")
    found = _import(path, "--output", output)
    assert (found.exit_code, found.stdout, output.exists()) == (1, "", False)
    said = f"{path}:1: loadBalancerServiceUnitStateMonitorIntervalInSeconds = 45: [balance.rounds]"
    assert said in found.stderr and "no TOML is written" in found.stderr
    document = json.loads(_import(path, "--json").stdout)
    assert document["toml"] is None and document["errors"][0]["line"] == 1
    path.write_text(path.read_text() + "loadBalancerSheddingIntervalMinutes=2\n")
    (error,) = json.loads(_import(path, "--json").stdout)["errors"]
    assert (error["key"], error["line"]) == ("loadBalancerSheddingIntervalMinutes", 2)
    assert [one["line"] for one in error["with"]] == [1]


def test_the_base_is_added_to_and_must_be_good(small: Path, tmp_path: Path) -> None:
    base = tmp_path / "base.toml"
    base.write_text("[transport]\npath = 'east.db'\n")
    found = _import(small, "--base", base)
    assert tomllib.loads(found.stdout)["transport"] == {"path": "east.db"}
    base.write_text("[agent]\ntakeover_grace_ms = 1\n")
    bad = _import(small, "--base", base)
    assert bad.exit_code == 1 and f"bundlectl: {base}: [agent] takeover_grace_ms" in bad.stderr


def test_a_missing_file_is_a_sentence(tmp_path: Path) -> None:
    found = _import(tmp_path / "none.conf")
    assert found.exit_code == 1 and "there is no such file" in found.stderr
