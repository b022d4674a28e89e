"""Lines that are wrong: each gets its error as an answer, the others are decided all the same."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from controller.cli.main import app
from controller.decide.run import RUNNERS, decide_lines
from tests.golden_scenarios import FOLDER, load

SEED = 20_261_203
GOOD = json.dumps(load("OverloadShedder")[0]["in"]).encode()
ODD: list[Any] = [None, True, -1, 1e400, 10**30, "", "x", [], {}, [None], {"x": None}, "é" * 3]


def mutated(value: Any, rng: random.Random) -> Any:
    """A copy with one place changed."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        name = rng.choice(sorted(value))
        if rng.random() < 0.1:
            return {**value, name + "?": rng.choice(ODD)}
        if rng.random() < 0.05:
            return {key: one for key, one in value.items() if key != name}
        return {**value, name: mutated(value[name], rng)}
    if isinstance(value, list) and value and rng.random() < 0.9:
        at = rng.randrange(len(value))
        return [*value[:at], mutated(value[at], rng), *value[at + 1 :]]
    return rng.choice(ODD)


@pytest.mark.parametrize("name", RUNNERS)
def test_mutated_scenarios_are_answered_or_refused_with_the_member_to_blame(name: str) -> None:
    print("seed", SEED)
    rng = random.Random(f"{SEED}-{name}")
    rows = [row["in"] for row in load(name)]
    lines = [json.dumps(mutated(rng.choice(rows), rng)).encode() for _ in range(300)]
    outcomes = list(decide_lines([*lines, GOOD]))

    assert len(outcomes) == 301
    refused = [one for one in outcomes if one.error is not None]
    assert outcomes[-1].error is None and len(refused) > 30
    for one in refused:
        answer = json.loads(one.answer)
        assert answer["error"] == str(one.error)
        # "ticks: KeyError" and the like would be a defect of ours that was caught.
        assert "Error: " not in one.error.reason, (one.error, lines[one.number - 1][:2_000])


@pytest.mark.parametrize(
    ("line", "field", "reason"),
    [
        (b"nonsense", "", "malformed"),
        (b'{"id": "a"', "", "truncated"),
        (b'{"id": "a", "ticks": [], "stategy": "x"}', "", "unknown field `stategy`"),
        (b'{"id": "a", "ticks": [], "strategy": "Best"}', "strategy", "'Best' is unknown"),
        (b'{"id": "a", "ticks": []}', "strategy", "is missing"),
        (b'{"id": 7, "ticks": []}', "id", "Expected `str`"),
        (
            b'{"id": "a", "strategy": "AvgShedder", "ticks": [], "conf": {"maxUnload": 1}}',
            "conf.maxUnload",
            "no such field",
        ),
        (
            b'{"id": "a", "strategy": "AvgShedder", "ticks": [],'
            b' "conf": {"maxUnloadPercentage": "half"}}',
            "conf.maxUnloadPercentage",
            "'half' is no float",
        ),
        (
            b'{"id": "a", "strategy": "AvgShedder", "ticks": [{"brokers": {"b": {"cpu": 3}}}]}',
            "ticks[0].brokers[...].cpu",
            "Expected `object`",
        ),
        (
            b'{"id": "a", "strategy": "AvgShedder", "ticks": [{"brokers": {}, "repeat": -1}]}',
            "ticks[0].repeat",
            "-1 is no number of times",
        ),
        (
            b'{"id": "a", "strategy": "TopKBundles", "ticks": [{"bundleStatsPatch": 3}]}',
            "ticks[0].bundleStatsPatch",
            "must be an object",
        ),
    ],
)
def test_an_error_names_member_and_reason(line: bytes, field: str, reason: str) -> None:
    [outcome] = decide_lines([line])
    assert outcome.error is not None
    assert outcome.error.field == field
    assert reason in outcome.error.reason


def test_the_command_tells_lines_on_stderr_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "scenarios.jsonl"
    path.write_bytes(b"\n".join([GOOD, b"", b'{"id": "bad", "ticks": 3}', GOOD]))
    done = CliRunner().invoke(app, ["decide", str(path)])

    assert done.exit_code == 1
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [list(one) for one in answers] == [
        ["id", "strategy", "ticks"],
        ["id", "error"],
        ["id", "strategy", "ticks"],
    ]
    assert done.stderr == "bundlectl: line 3: ticks: Expected `array`, got `int`\n"


def test_a_pipe_of_gzipped_scenarios_is_decided_as_a_whole_process() -> None:
    command = [sys.executable, "-m", "controller.cli.main", "decide", "--parity"]
    path = FOLDER / "BundleHash.jsonl.gz"
    rows = [json.dumps(row["in"]) for row in load("BundleHash")]
    done = subprocess.run(command, input="\n".join(rows).encode(), capture_output=True, check=True)
    assert done.stderr == b"" and len(done.stdout.splitlines()) == 150 and path.exists()


def test_a_strategy_that_is_named_overrides_the_lines_and_is_checked() -> None:
    done = CliRunner().invoke(app, ["decide", "--strategy", "Uniform"], input=GOOD)
    assert done.exit_code == 2 and "UniformLoadShedder" in done.stderr
    done = CliRunner().invoke(app, ["decide", "--strategy", "UniformLoadShedder"], input=GOOD)
    assert done.exit_code == 0
    assert json.loads(done.stdout)["strategy"] == "UniformLoadShedder"
