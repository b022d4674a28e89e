"""The job as a process: signals, logs, exit status.

SIGTERM and Ctrl-C set a flag; the job then stops between two batches. What hangs after that (a
client whose broker is gone, a JVM that does not answer) is ended hard: a new start finds out how
far it came. Called by `streaming.main`.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

from controller.logs import configure_logs
from streaming.halt import Halt
from streaming.job import JobError, run
from streaming.plan import JobPlan
from streaming.session import end_started_jvm

FAILED = 1  # a new start may help
HARD_END = os.EX_TEMPFAIL  # 75: it hung, and was ended; a new start helps
NEEDS_OPERATOR = os.EX_CONFIG  # 78: a new start cannot help

HARD_END_S = 30.0
"""From the wish to end to the hard end. A clean stop takes 10 s at most; longer hangs something."""


def run_plan(plan: JobPlan) -> int:
    """Runs the job until SIGTERM or Ctrl-C; 0 after a clean stop, else a sentence and a status."""
    configure_logs()
    halt = Halt()
    ended = threading.Event()
    threading.Thread(target=_end_hard, args=(halt, ended), name="hard-end", daemon=True).start()
    previous = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    halt.catch_signals()
    try:
        run(plan, halt)
    except JobError as error:
        print(f"bundle-controller: {error}", file=sys.stderr)
        return FAILED if error.is_restart_useful else NEEDS_OPERATOR
    finally:
        ended.set()
        for number, handler in previous.items():
            signal.signal(number, handler)
    return 0


def _end_hard(halt: Halt, ended: threading.Event) -> None:
    """The thread: once the job is to end, it has so long for it."""
    while not halt.wait(1.0):
        if ended.is_set():
            return
    if ended.wait(HARD_END_S):
        return
    why = f" ({halt.failure})" if halt.failure else ""
    print(
        f"bundle-controller: the job did not end within {HARD_END_S:.0f} s{why}; ended hard, "
        "nothing is lost: start it again",
        file=sys.stderr,
        flush=True,
    )
    end_started_jvm()
    os._exit(HARD_END)
