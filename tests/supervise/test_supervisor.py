"""The supervisor with real children: when it starts them again, and what it leaves behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from controller.processes import is_alive
from controller.supervise import wait_s

RUN = """
import sys
from controller.supervise import Supervisor
sys.exit(Supervisor(sys.argv[1:]).run())
"""


def supervised(program: str, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", RUN, sys.executable, "-c", program, *arguments]
    return subprocess.Popen(command, text=True, stderr=subprocess.STDOUT, stdout=subprocess.PIPE)


def awaited(path: Path, lines: int = 1) -> list[str]:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        text = path.read_text().splitlines() if path.exists() else []
        if len(text) >= lines:
            return text
        time.sleep(0.02)
    raise AssertionError(f"{path} never had {lines} lines")


def is_gone(pid: int) -> bool:
    deadline = time.monotonic() + 10
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not is_alive(pid)


STARTS = """
import pathlib, sys
path = pathlib.Path(sys.argv[1])
with path.open("a") as file:
    file.write("start\\n")
sys.exit(int(sys.argv[2:][len(path.read_text().splitlines()) - 1]))
"""


@pytest.mark.parametrize(
    ("statuses", "starts"),
    [(("0",), 1), (("78",), 1), (("2",), 1), (("1", "0"), 2), (("75", "1", "78"), 3)],
)
def test_starts_again_what_a_start_can_help(
    tmp_path: Path, statuses: tuple[str, ...], starts: int
) -> None:
    process = supervised(STARTS, str(tmp_path / "starts"), *statuses)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == int(statuses[-1]), output
    assert len(awaited(tmp_path / "starts")) == starts
    assert output.count("again_in_s") == starts - 1


WITH_CHILD = """
import os, pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
with pathlib.Path(sys.argv[1]).open("a") as file:
    file.write(f"{os.getpid()} {child.pid}\\n")
time.sleep(600)
"""


def test_what_a_killed_child_had_started_is_ended_before_the_next_start(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    process = supervised(WITH_CHILD, str(pids))
    first, left_over = map(int, awaited(pids)[0].split())
    os.kill(first, signal.SIGKILL)
    second, _ = map(int, awaited(pids, 2)[1].split())
    assert is_gone(left_over) and is_alive(second)
    process.terminate()
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGTERM and is_gone(second), output
    assert "status=SIGKILL" in output


def test_a_child_does_not_outlive_a_killed_supervisor(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    process = supervised(WITH_CHILD, str(pids))
    child, grandchild = map(int, awaited(pids)[0].split())
    process.kill()
    process.wait(30)
    assert is_gone(child)
    os.kill(grandchild, signal.SIGKILL)
    process.communicate(timeout=30)


CLEAN = """
import pathlib, signal, sys, time
def end(number, frame):
    pathlib.Path(sys.argv[2]).write_text("clean\\n")
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
pathlib.Path(sys.argv[1]).write_text("up\\n")
time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_child_cleanly_and_then_itself(
    tmp_path: Path, number: signal.Signals
) -> None:
    process = supervised(CLEAN, str(tmp_path / "up"), str(tmp_path / "end"))
    awaited(tmp_path / "up")
    process.send_signal(number)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 0 and awaited(tmp_path / "end") == ["clean"], output


def test_the_pause_doubles_up_to_a_limit() -> None:
    assert [wait_s(fails) for fails in (1, 2, 3, 5, 6, 7, 10_000)] == [1, 2, 4, 16, 30, 30, 30]
