"""The page of the job, asked through its web server, and what people read of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from controller.cli.main import app
from controller.core.inputs import Snapshot
from controller.core.state import new_state
from controller.core.step import step
from controller.transport.embedded import EmbeddedLog
from controller.transport.port import Marker
from streaming.halt import Halt
from streaming.lease import LeaseKeeper
from streaming.metrics import Metrics
from streaming.plan import JobPlan
from streaming.status import Status, cluster_state
from streaming.web import Web
from tests.streaming.worlds import new_log, plan, settings

NOW_MS = 1_800_000_000_000
ROUNDS = settings("east").rounds


class Job:
    """A job without Spark: lease, figures, page and web server are the real ones."""

    def __init__(self, job: JobPlan) -> None:
        self.now_ms = NOW_MS
        self.log = new_log(job, clock=lambda: self.now_ms)
        self.metrics = Metrics()
        open_log = lambda: EmbeddedLog(job.transport.path, clock=lambda: self.now_ms)  # noqa: E731
        self.keeper = LeaseKeeper(open_log, job.name, "me", 10_000)
        self.status = Status(job, self.metrics, self.keeper, lambda: self.now_ms)
        page = {"/status": lambda: (True, self.status.page())}
        self.web = Web("127.0.0.1", 0, self.metrics.registry, page)
        self.web.start()

    def ask(self, *options: str) -> Result:
        url = f"http://127.0.0.1:{self.web.port}"
        return CliRunner().invoke(app, ["status", "--url", url, *options])

    def page(self) -> dict:
        return json.loads(self.ask("--json").stdout)


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    made = Job(plan(tmp_path, "east", "west"))
    yield made
    made.web.stop()


def snapshot(**changes: object) -> Snapshot:
    made = step(new_state("east", settings("east")), [], NOW_MS, settings("east")).snapshot
    known = {"clock_ms": NOW_MS, "is_warm": True, "mode": "act", "bundles_owned": 7, "bundles": 9}
    return replace(made, **(known | changes))


def test_a_standby_says_who_holds_the_lease(job: Job) -> None:
    other = job.log.acquire_lease("bundle-controller", "leader", 10_000)
    assert not job.keeper.is_free(job.log)
    job.now_ms += 4_000
    page = job.page()
    assert (page["state"], page["since_ms"]) == ("standby", NOW_MS + 4_000)
    assert page["lease"] == {
        "is_held": False,
        "holder": "leader",
        "epoch": other.epoch,
        "remaining_ms": 10_000,
    }
    text = job.ask().stdout
    assert "bundle-controller: standby since 2027-01-15T08:00:04+00:00: waits for" in text
    assert "held by leader, epoch 1, for another 10.0 s" in text


def test_a_leader_is_in_the_first_state_of_any_of_its_clusters(job: Job) -> None:
    job.keeper.acquire(job.log, Halt(), 0)
    job.status.lead(Marker("bundle-controller", "q-before", 41, 1))
    assert job.page()["state"] == "rebuilding", "no batch yet"
    job.metrics.snapshots["east"] = snapshot()
    assert job.page()["state"] == "rebuilding", "of the other one nothing is known"
    job.metrics.snapshots["west"] = snapshot(mode="paused")
    job.now_ms += 1_000
    page = job.page()
    assert (page["state"], page["behind_ms"]) == ("paused", 1_000)
    assert {name: one["state"] for name, one in page["clusters"].items()} == {
        "east": "acting",
        "west": "paused",
    }
    assert page["lease"]["is_held"] and page["lease"]["epoch"] == 1
    assert page["clusters"]["east"]["snapshot"]["bundles_owned"] == 7
    text = job.ask().stdout
    assert "adopted     the log of query q-before, published up to its batch 41" in text
    assert "bundles: 7 of 9 owned" in text
    job.status.stop()
    assert job.page()["state"] == "stopping"


def test_since_is_the_moment_of_the_change(job: Job) -> None:
    job.status.lead(None)
    job.metrics.snapshots.update(east=snapshot(), west=snapshot())
    assert job.page()["since_ms"] == NOW_MS
    job.now_ms += 1_500
    assert (job.page()["state"], job.page()["since_ms"]) == ("acting", NOW_MS)
    job.metrics.snapshots["east"] = snapshot(mode="safe_mode")
    assert (job.page()["state"], job.page()["since_ms"]) == ("safe_mode", NOW_MS + 1_500)


@pytest.mark.parametrize(
    ("changes", "is_acting", "state"),
    [
        ({}, True, "acting"),
        ({}, False, "observing"),
        ({"mode": "warm_up"}, True, "warming_up"),
        ({"mode": "paused"}, False, "paused"),
        ({"mode": "safe_mode"}, True, "safe_mode"),
        ({"clock_ms": NOW_MS - 3_100}, True, "acting"),
        ({"clock_ms": NOW_MS - 3_101}, True, "rebuilding"),
        ({"clock_ms": NOW_MS - 60_000, "mode": "paused"}, True, "rebuilding"),
    ],
)
def test_the_state_of_a_cluster(changes: dict, is_acting: bool, state: str) -> None:
    """Behind by more than two upkeep intervals (500 ms each), settle time and slack: reading up."""
    assert cluster_state(snapshot(**changes), NOW_MS, ROUNDS, is_acting) == state


def test_nobody_there_is_a_sentence(tmp_path: Path, job: Job) -> None:
    port = job.web.port
    job.web.stop()
    path = tmp_path / "job.toml"
    path.write_text(f"[metrics]\nport = {port}\n")
    silent = CliRunner().invoke(app, ["status", "--config", str(path)])
    assert silent.exit_code == 1 and "is it running?" in silent.stderr
    path.write_text("[metrics]\nport = 0\n")
    unknown = CliRunner().invoke(app, ["status", "--config", str(path)])
    assert unknown.exit_code == 1 and "--url" in unknown.stderr


def test_another_server_is_no_controller(job: Job) -> None:
    url = f"http://127.0.0.1:{job.web.port}/other"
    found = CliRunner().invoke(app, ["status", "--url", url])
    assert found.exit_code == 1 and "does not answer as a controller" in found.stderr
