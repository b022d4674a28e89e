"""A job in a process of its own, for tests that kill it: its folder is the only argument."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from streaming.process import run_plan
from tests.streaming.conftest import FAST
from tests.streaming.test_kill import world_plan

if __name__ == "__main__":
    job = replace(world_plan(Path(sys.argv[1])), spark_conf=FAST, lease_wait_ms=5_000)
    sys.exit(run_plan(job))
