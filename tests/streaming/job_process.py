"""A job in a process of its own, for tests that kill it: its folder, and changes of its plan."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

from streaming.process import run_plan
from tests.streaming.conftest import FAST
from tests.streaming.test_kill import world_plan
from tests.streaming.worlds import plan

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    if len(sys.argv) > 2:
        job = plan(folder, **json.loads(sys.argv[2]))
    else:
        job = replace(world_plan(folder), lease_wait_ms=5_000)
    sys.exit(run_plan(replace(job, spark_conf=FAST)))
