"""Fault points for the kill tests; off unless BUNDLECTL_FAULT is set, and never set in production.

`BUNDLECTL_FAULT=point:batch` kills the whole process group (driver, JVM) with SIGKILL when that
batch, or one after it, reaches the point; `point:batch:python` kills the driver alone,
`point:batch:jvm` the JVM alone; `point:batch:pause` stops the group short once instead (SIGSTOP),
as when its machine stands still. Points: `start_up` (lease held, query not started; batch is
ignored), `operator` (in the Python worker, records folded), `state_commit` (Spark writes the state
of the batch), `before_publish`, `after_publish` (published, not yet committed by Spark); on servers
with transactions also `mid_send` (some records sent) and `before_commit` (all sent).
The tests start the job in a process group of its own.
"""

from __future__ import annotations

import os
import signal
import threading
from dataclasses import dataclass
from pathlib import Path

from controller.processes import processes

VARIABLE = "BUNDLECTL_FAULT"
POINTS = (
    "start_up",
    "operator",
    "state_commit",
    "before_publish",
    "mid_send",
    "before_commit",
    "after_publish",
)
VICTIMS = ("all", "python", "jvm", "pause")


class FaultError(ValueError):
    """The variable names no fault."""


@dataclass(slots=True)
class Fault:
    """Where to die. Picklable: the worker that has to kill the driver gets its group."""

    point: str = ""
    batch: int = -1
    group: int = 0
    victim: str = "all"

    def reach(self, point: str, batch: int) -> None:
        """Dies here if this is the point, and the batch has come."""
        if self.group and point == self.point and batch >= self.batch:
            self._kill()

    def _kill(self) -> None:
        if self.victim == "all":
            os.killpg(self.group, signal.SIGKILL)
        elif self.victim == "python":
            os.kill(self.group, signal.SIGKILL)  # the driver leads the group
        elif self.victim == "pause":
            group, self.group = self.group, 0
            os.killpg(group, signal.SIGSTOP)
        else:
            for one in processes():
                if one.group == self.group and one.name == "java":
                    os.kill(one.pid, signal.SIGKILL)

    def watch_state(self, checkpoint: str, batch: int) -> None:
        """Dies as soon as the state store begins to write the given batch's state."""
        if not self.group or self.point != "state_commit" or batch < self.batch:
            return
        threading.Thread(
            target=self._await_state, args=(Path(checkpoint), batch + 1), daemon=True
        ).start()

    def _await_state(self, checkpoint: Path, version: int) -> None:
        pattern = f"state/0/*/*{version}.delta*"  # the temporary file has a dot before the number
        while not any(checkpoint.glob(pattern)):
            pass
        self._kill()


def armed() -> Fault:
    """The fault that the environment asks for; without one, a fault that never happens."""
    text = os.environ.get(VARIABLE, "")
    if not text:
        return Fault()
    point, _, rest = text.partition(":")
    batch, _, victim = rest.partition(":")
    if point not in POINTS or not batch.isdecimal() or (victim or "all") not in VICTIMS:
        raise FaultError(
            f"{VARIABLE}={text} must be point:batch or point:batch:victim with a point of "
            f"{', '.join(POINTS)} and a victim of {', '.join(VICTIMS)}; it is for tests: unset it"
        )
    return Fault(point, int(batch), os.getpgrp(), victim or "all")
