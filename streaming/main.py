"""Entry of the job: `python -m streaming.main --config F`, or the same file through spark-submit.

`run_job` is also what `bundlectl run` calls. Exit status: 0 after a clean stop (SIGTERM, Ctrl-C),
1 when the job cannot start or fails, with one sentence on stderr.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

# spark-submit puts this file's own folder first on the path, where it finds no packages.
_HERE = Path(__file__).resolve().parent
if sys.path and Path(sys.path[0]).resolve() == _HERE:
    sys.path[0] = str(_HERE.parent)

import structlog  # noqa: E402

from controller.config import JobConfig, load_config  # noqa: E402
from streaming.halt import Halt  # noqa: E402
from streaming.job import JobError, run  # noqa: E402
from streaming.settings import plan_of  # noqa: E402


def run_job(config: JobConfig) -> int:
    """Runs the job until SIGTERM or Ctrl-C; the exit status."""
    configure_logs()
    halt = Halt()
    previous = {
        number: signal.signal(number, lambda _number, _frame: halt.stop())
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        run(plan_of(config), halt)
    except JobError as error:
        print(f"bundle-controller: {error}", file=sys.stderr)
        return 1
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    return 0


def configure_logs() -> None:
    """One line of key=value per event on stderr, in UTC."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Reads the command line and runs the job."""
    parser = argparse.ArgumentParser(prog="streaming.main", description="Runs the controller job.")
    parser.add_argument("--config", required=True, type=Path, help="TOML file, as in conf/")
    options = parser.parse_args(arguments)
    return run_job(load_config(options.config))


if __name__ == "__main__":
    sys.exit(main())
