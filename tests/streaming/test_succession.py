"""Real controllers, really killed and paused: another one takes over, and only one ever writes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from controller.cli.main import app
from controller.transport.embedded import EmbeddedLog
from tests.streaming.worlds import assign, load_report, new_log, plan, values

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(400)]

ROOT = Path(__file__).parents[2]
PATIENCE_S = 90.0
TAKE_OVER_S = 30.0
LEASE_S = 2.0  # of the plan of these tests


class Controller:
    """One job process in a group of its own, asked through its web server."""

    def __init__(self, folder: Path, name: str, **changes: object) -> None:
        self.output = folder / f"{name}.out"
        with self.output.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.streaming.job_process", folder, json.dumps(changes)],
                cwd=ROOT,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def page(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port()}/status", timeout=5) as page:
            return json.load(page)

    def await_state(self, *states: str) -> dict[str, Any]:
        until(lambda: self._port() and self.page()["state"] in states, str(states), self)
        return self.page()

    def signal(self, number: signal.Signals) -> None:
        """To the driver, its JVM and its workers, as when a machine stands still."""
        os.killpg(self.process.pid, number)

    def end(self) -> None:
        if self.process.poll() is None:
            self.signal(signal.SIGKILL)

    def _port(self) -> int:
        assert self.process.poll() is None, self.output.read_text()[-3_000:]
        for line in self.output.read_text().splitlines():
            if "event=ready" in line:
                return int(line.partition("http_port=")[2].split()[0])
        return 0


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Controller]]:
    """Starts controllers on one log, and leaves none behind."""
    running: list[Controller] = []

    def started(name: str, **changes: object) -> Controller:
        running.append(Controller(tmp_path, name, **changes))
        return running[-1]

    yield started
    for one in running:
        one.end()


@pytest.fixture
def log(tmp_path: Path) -> EmbeddedLog:
    log = new_log(plan(tmp_path))
    report(log)
    (tmp_path / "job.toml").write_text(
        f'[transport]\npath = "{tmp_path}/log.db"\n[clusters.east]\n'
    )
    return log


def report(log: EmbeddedLog) -> None:
    """The brokers live: a stage of these tests takes longer than they may be silent."""
    number = time.monotonic_ns()
    log.append([load_report("east", broker, number, range(3)) for broker in ("b1", "b2", "b3")])


def until(is_so: Callable[[], object], what: str, *whose: Controller) -> float:
    """Seconds until it was so."""
    started = time.monotonic()
    while not is_so():
        texts = "\n".join(one.output.read_text()[-2_000:] for one in whose)
        assert time.monotonic() - started < PATIENCE_S, f"{what}\n{texts}"
        time.sleep(0.05)
    return time.monotonic() - started


def epochs(log: EmbeddedLog) -> list[int]:
    """Epochs of what was published, in the order of the log."""
    topics = ("bundle-state-east", "decision-log", "dead-letters")
    records = [r for topic in topics for r in log.read(topic, 0, 0, 100_000)]
    return [int(r.headers[0][1]) for r in sorted(records, key=lambda r: r.sequence)]


def test_standbys_take_over_from_a_killed_and_from_a_paused_leader(
    log: EmbeddedLog, start: Callable[..., Controller], tmp_path: Path
) -> None:
    leader = start("a")
    leader.await_state("rebuilding", "warming_up", "acting")
    standbys = [
        start(name, checkpoint=str(tmp_path / name), is_standby=True) for name in ("b", "c")
    ]
    for one in standbys:
        page = one.await_state("standby")
        assert page["lease"]["epoch"] == 1 and not page["lease"]["is_held"]

    report(log)
    leader.process.kill()  # the driver alone: its JVM must not go on without it
    log.append([assign("east", 1)])
    took_s = until(lambda: 2 in epochs(log), "the second controller decides", *standbys)
    assert took_s < TAKE_OVER_S
    until(lambda: values(log, "bundle-state-east"), "the request is answered", *standbys)
    [second] = [one for one in standbys if one.page()["state"] != "standby"]
    [third] = [one for one in standbys if one is not second]
    assert second.await_state("acting")["adopted"]["epoch"] == 1

    report(log)
    second.signal(signal.SIGSTOP)
    until(lambda: 3 in epochs(log), "the third controller decides", third)
    second.signal(signal.SIGCONT)
    assert second.process.wait(60) == 1
    last = second.output.read_text().splitlines()[-1]
    assert last.startswith("bundle-controller: ") and "another controller is the writer" in last
    third.await_state("acting")
    report(log)
    log.append([assign("east", 2)])
    until(lambda: len(values(log, "bundle-state-east")) == 2, "both are answered", third)
    assert epochs(log) == sorted(epochs(log)), "who was fenced has written nothing since"
    print(f"first decision {took_s:.1f} s after the leader's death, {LEASE_S:.0f} s of them lease")


def test_a_shared_checkpoint_is_taken_over_when_its_leader_ends_and_not_before(
    log: EmbeddedLog, start: Callable[..., Controller], tmp_path: Path
) -> None:
    leader = start("a")
    leader.await_state("rebuilding", "warming_up", "acting")
    standby = start("b", is_standby=True)
    standby.await_state("standby")
    report(log)
    query_id = leader.await_state("acting")["query_id"]
    config = ["--config", str(tmp_path / "job.toml")]
    paused = CliRunner().invoke(app, ["send", "pause", "--for", "1h", "--why", "test", *config])
    assert paused.exit_code == 0, paused.output
    leader.await_state("paused")

    leader.signal(signal.SIGSTOP)
    time.sleep(2 * LEASE_S)
    state = log.lease_state("bundle-controller")
    assert state is not None and (state.epoch, state.remaining_ms) == (1, 0), "it ran out"
    assert standby.page()["state"] == "standby", "its files are still open to the paused one"
    leader.signal(signal.SIGCONT)
    decided = len(epochs(log))
    until(lambda: len(epochs(log)) > decided, "the leader goes on", leader)

    report(log)
    leader.process.terminate()
    took_s = until(lambda: 2 in epochs(log), "the standby decides", standby)
    assert leader.process.wait(20) == 0
    page = standby.await_state("paused")
    assert (page["query_id"], page["adopted"]) == (query_id, None), "the memory goes on"
    records = [msgspec.json.decode(line or b"") for line in values(log, "decision-log")]
    rounds = [record["round"] for record in records if record["type"] == "round"]
    assert rounds == list(range(1, len(rounds) + 1)), "no round is lost or done twice"
    assert epochs(log) == sorted(epochs(log))

    waiting = start("c", checkpoint=str(tmp_path / "c"), is_standby=True)
    waiting.await_state("standby")
    waiting.process.terminate()
    asked = time.monotonic()
    assert waiting.process.wait(20) == 0
    print(
        f"taken over {took_s:.1f} s after SIGTERM; standby ended in "
        f"{time.monotonic() - asked:.1f} s"
    )
