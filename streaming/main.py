"""Entry of the job: `python -m streaming.main --config F`, or the same file through spark-submit.

`run_job` is also what `bundlectl run` calls. Exit status: 0 after a clean stop (SIGTERM, Ctrl-C),
1 when the job cannot start or fails, 75 when it hung and was ended, 78 when a restart cannot help
(configuration, checkpoint, credentials); each with one sentence on stderr.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

# spark-submit puts this file's own folder first on the path, where it finds no packages.
_HERE = Path(__file__).resolve().parent
if sys.path and Path(sys.path[0]).resolve() == _HERE:
    sys.path[0] = str(_HERE.parent)

from controller.config import ConfigError, JobConfig, load_config  # noqa: E402
from streaming.from_config import plan_of  # noqa: E402
from streaming.process import NEEDS_OPERATOR, run_plan  # noqa: E402


def run_job(config: JobConfig, is_standby: bool = False) -> int:
    """Runs the job until SIGTERM or Ctrl-C; the exit status."""
    return run_plan(plan_of(config, is_standby))


def main(arguments: Sequence[str] | None = None) -> int:
    """Reads the command line and runs the job."""
    parser = argparse.ArgumentParser(prog="streaming.main", description="Runs the controller job.")
    parser.add_argument("--config", required=True, type=Path, help="TOML file, as in conf/")
    parser.add_argument(
        "--standby", action="store_true", help="wait without limit, take over when the leader ends"
    )
    options = parser.parse_args(arguments)
    try:
        return run_job(load_config(options.config), options.standby)
    except ConfigError as error:
        print(f"bundle-controller: {error}", file=sys.stderr)
        return NEEDS_OPERATOR


if __name__ == "__main__":
    sys.exit(main())
