"""Starts the controller's process again when it ends, for machines without systemd or Kubernetes.

The controller ends itself whenever only a new start can find out how things stand: a commit without
an answer, a lost lease, a broker that is gone. So a restart is part of normal life, and the rules
are those of the unit files in docker/: not after 0, 2 and 78 (a stop, wrong usage, a
configuration that no restart repairs), else after a pause that doubles while starts fail.
Called by `controller.cli.run_command`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import FrameType

import structlog

log = structlog.get_logger("controller.supervise")

FINAL = (0, 2, os.EX_CONFIG)
FIRST_WAIT_S = 1.0
WAIT_MAX_S = 30.0
GOOD_RUN_S = 60.0  # a process that ran so long had started well
POLL_S = 0.1


def wait_s(fails_in_a_row: int) -> float:
    """The pause before the next start: 1, 2, 4 ... 30 s."""
    return min(WAIT_MAX_S, FIRST_WAIT_S * 2.0 ** min(10, fails_in_a_row - 1))


class Supervisor:
    """One child at a time. Signals of its own end the child, then itself."""

    def __init__(self, command: Sequence[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._command = list(command)
        self._clock = clock
        self._is_ending = threading.Event()
        self._child: subprocess.Popen[bytes] | None = None

    def run(self) -> int:
        """Until SIGTERM, Ctrl-C or a final end of the child; the child's last status."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        fails = 0
        while True:
            started = self._clock()
            status = self._once()
            if self._is_ending.is_set() or status in FINAL:
                return status if status >= 0 else 128 - status
            fails = 1 if self._clock() - started >= GOOD_RUN_S else fails + 1
            log.warning("the controller ended", status=_named(status), again_in_s=wait_s(fails))
            if self._is_ending.wait(wait_s(fails)):
                return 0

    def _once(self) -> int:
        """One run of the child, in a group of its own; nothing of the group is left behind."""
        child = subprocess.Popen(
            [sys.executable, "-m", "controller.supervise.leash", *self._command],
            start_new_session=True,
        )
        self._child = child
        log.info("the controller was started", pid=child.pid)
        if self._is_ending.is_set():  # the signal came before there was a child to pass it to
            child.terminate()
        status = child.wait()
        self._child = None
        # A JVM that outlives its driver would keep the checkpoint's lock.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        return status

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._is_ending.set()
        if self._child is not None:
            self._child.terminate()


def _named(status: int) -> str:
    return str(status) if status >= 0 else signal.Signals(-status).name
