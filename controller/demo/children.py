"""Child processes of the demo: started in groups of their own, and all ended in every case.

Rules: a child gets its own session, so that Ctrl-C reaches only the demo, which then ends its
children in order; where the system can (Linux), a child is told to end when the demo itself is
killed. What a child prints goes to a file of the run directory.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from controller.config.models import ENV_PREFIX

POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Child:
    """A started process and the file that holds its output."""

    name: str
    process: subprocess.Popen[bytes]
    output: Path

    @property
    def is_alive(self) -> bool:
        """True while the process runs."""
        return self.process.poll() is None

    def tail(self, lines: int) -> list[str]:
        """The last lines of its output."""
        text = self.output.read_text(errors="replace") if self.output.exists() else ""
        return text.splitlines()[-lines:]


@dataclass(slots=True)
class Children:
    """All children of one demo; a context manager that leaves none behind."""

    directory: Path
    stop_timeout_s: float = 12.0  # a clean stop of the job takes up to 10 s
    running: dict[str, Child] = field(default_factory=dict)
    started: set[str] = field(default_factory=set)

    def __enter__(self) -> Children:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop_all()

    def start(self, name: str, command: Sequence[str]) -> Child:
        """Starts a process; its output goes to `<name>.log` of the directory."""
        output = self.directory / f"{name}.log"
        with output.open("ab") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "controller.supervise.leash", *command],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=_environment(),
                start_new_session=True,
            )
        child = Child(name, process, output)
        self.running[name] = child
        self.started.add(name)
        return child

    def kill(self, name: str) -> None:
        """SIGKILL, and waits for the end: when this returns, the process serves nothing."""
        child = self.running.pop(name)
        child.process.kill()
        child.process.wait()

    def ended(self) -> list[Child]:
        """Children that ended without being asked; what they started is ended and all forgotten."""
        found = [child for child in self.running.values() if not child.is_alive]
        for child in found:
            _signal_group(child, signal.SIGKILL)
            del self.running[child.name]
        return found

    def stop_all(self) -> None:
        """Ends every child, cleanly if it ends in time; safe to call twice."""
        children = list(self.running.values())
        self.running.clear()
        for child in children:
            _signal(child, signal.SIGTERM)
        self._await(children)

    def _await(self, children: list[Child]) -> None:
        end_s = time.monotonic() + self.stop_timeout_s
        while any(child.is_alive for child in children) and time.monotonic() < end_s:
            time.sleep(POLL_S)
        for child in children:
            # Also after a clean end: the job's JVM belongs to the same group.
            _signal_group(child, signal.SIGKILL)
            child.process.wait()


def _environment() -> dict[str, str]:
    """Without settings: they stand in the demo's file, and the environment would win over it."""
    return {k: v for k, v in os.environ.items() if not k.upper().startswith(ENV_PREFIX)}


def _signal(child: Child, number: signal.Signals) -> None:
    if child.is_alive:
        child.process.send_signal(number)


def _signal_group(child: Child, number: signal.Signals) -> None:
    try:
        os.killpg(child.process.pid, number)
    except (ProcessLookupError, PermissionError):
        return  # the group has no process left
