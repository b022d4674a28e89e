"""The demo for real: the Spark job, seven broker processes, a join, a split, a kill."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

RUN_S = 60
TIME_LIMIT_S = 240


@pytest.mark.spark
@pytest.mark.slow
def test_the_demo_balances_splits_and_takes_over_without_a_violation(tmp_path: Path) -> None:
    summary = tmp_path / "summary.json"
    command = [sys.executable, "-m", "controller.cli.main", "demo"]
    done = subprocess.run(
        [*command, "--seconds", str(RUN_S), "--summary", str(summary)],
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT_S,
        check=False,
    )
    figures = json.loads(summary.read_text()) if summary.exists() else None

    assert done.returncode == 0, f"{done.stdout[-3_000:]}\n{done.stderr[-3_000:]}"
    assert figures["violations"] == 0, figures
    assert figures["splits"] >= 1, figures
    assert figures["assignments"] == 128, figures
    assert figures["imbalance_end"] <= 1.25, figures
    assert figures["imbalance_end"] < figures["imbalance_start"], figures
    assert figures["orphan_takeover_s"] <= 30.0, figures
