"""The job as a process: signals, logs, exit status.

SIGTERM and Ctrl-C set a flag; the job then stops between two batches. Called by `streaming.main`.
"""

from __future__ import annotations

import logging
import signal
import sys

import structlog

from streaming.halt import Halt
from streaming.job import JobError, run
from streaming.plan import JobPlan


def run_plan(plan: JobPlan) -> int:
    """Runs the job until SIGTERM or Ctrl-C; 0 after a clean stop, 1 and a sentence otherwise."""
    configure_logs()
    halt = Halt()
    previous = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    halt.catch_signals()
    try:
        run(plan, halt)
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
