"""Real agent processes on an embedded log; the test plays the controller.

Assign, transfer, split, unload, kill -9 of an owner and a forced override; the judge is the
demo's observer, which reads the brokers' own logs.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from controller.agent.own_log import wall_ms
from controller.agent.runtime import RuntimeSettings
from controller.agent.state import AgentSettings
from controller.demo.observer import Observer, ObserverSettings
from controller.model.boundaries import range_midpoint
from controller.model.bundles import split_name
from controller.sim.boundaries import FileBoundaries
from controller.sim.process import ProcessSpec, write_spec
from controller.sim.workload import Workload, WorkloadSpec
from controller.transport.embedded import EmbeddedLog
from controller.transport.place import TransportPlace
from controller.transport.port import OutRecord
from controller.wire.channel import ServiceUnitState, ServiceUnitStateData, encode_channel
from controller.wire.limits import WireLimits
from controller.wire.reports import Report, decode_report
from tests.agent.builders import data

CHANNEL, REPORTS, DECISIONS = "bundle-state-c", "load-reports", "decision-log"
COMMANDS = "controller-commands"
BROKERS = ("b1", "b2", "b3")
AGENT = AgentSettings(
    heartbeat_interval_ms=100,
    report_interval_ms=200,
    lease_ms=2_000,
    unheard_poll_ms=300,
    heard_settle_ms=300,
    takeover_grace_ms=400,
)
RUNTIME = RuntimeSettings(
    channel_topic=CHANNEL,
    reports_topic=REPORTS,
    commands_topic=COMMANDS,
    poll_interval_ms=20,
    topic_hashes_above=5,
    shutdown_wait_ms=0,
)
BUNDLES = Workload(WorkloadSpec()).bundle_names()[:6]


class Cluster:
    """Agent processes, and the test as their controller."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.log = EmbeddedLog(home / "log.db")
        self.log.create_topic(CHANNEL, 1)
        self.log.create_topic(REPORTS, 4)
        self.log.create_topic(DECISIONS, 1)
        self.log.create_topic(COMMANDS, 1)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.observer = Observer(
            self.log, home / "own", CHANNEL, DECISIONS, ObserverSettings(settle_ms=100.0)
        )

    def start(self, broker: str, shutdown_wait_ms: int = 0) -> None:
        spec = ProcessSpec(
            transport=TransportPlace(path=str(self.home / "log.db"), busy_wait_ms=2_000),
            cluster="c",
            broker=broker,
            own_log=str(self.home / "own" / f"{broker}.jsonl"),
            agent=AGENT,
            runtime=replace(RUNTIME, shutdown_wait_ms=shutdown_wait_ms),
        )
        path = self.home / f"{broker}.json"
        write_spec(spec, path)
        errors = (self.home / f"{broker}.err").open("ab")
        self.processes[broker] = subprocess.Popen(
            [sys.executable, "-m", "controller.sim.process", str(path)], stderr=errors
        )

    def write(self, bundle: str, record: ServiceUnitStateData | None) -> None:
        value = None if record is None else encode_channel(record)
        self.log.append([OutRecord(CHANNEL, bundle, value)])

    def until(self, condition: Callable[[], bool], what: str, seconds: float = 20.0) -> None:
        """Waits on the outside world; fails with the state of things."""
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"{what}: {self.observer.channel.table}"
            time.sleep(0.02)
            self.observer.update()

    def owner_is(self, bundle: str, broker: str) -> bool:
        return self.observer.channel.owned().get(bundle) == broker and bundle in (
            self.observer.service.served().get(broker, [])
        )

    def version(self, bundle: str) -> int:
        return self.observer.channel.table[bundle].versionId

    def reports(self, broker: str) -> list[Report]:
        found = []
        for partition in range(4):
            for record in self.log.read(REPORTS, partition, 0, 10_000):
                if (record.key or "").split("/")[1] == broker:
                    found.append(decode_report(record.value, broker, "c", WireLimits()))
        return found

    def stop(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()
        self.log.close()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path)
    try:
        for broker in BROKERS:
            cluster.start(broker)
        for index, bundle in enumerate(BUNDLES):
            cluster.write(bundle, data("Assigning", 1, BROKERS[index % 3]))
        cluster.until(
            lambda: all(cluster.owner_is(b, BROKERS[i % 3]) for i, b in enumerate(BUNDLES)),
            "all bundles are served by their first owners",
        )
        yield cluster
    finally:
        cluster.stop()


def test_transfer_unload_and_split_are_carried_out_without_double_service(
    cluster: Cluster,
) -> None:
    moved, unloaded, split = BUNDLES[0], BUNDLES[1], BUNDLES[2]
    namespace, _, span = split.rpartition("/")
    lower, upper = (int(part, 16) for part in span.split("_"))
    middle = (lower + upper) // 2
    low, high = f"0x{lower:08x}_0x{middle:08x}", f"0x{middle:08x}_0x{upper:08x}"
    cluster.write(moved, data("Releasing", 3, "b2", "b1"))
    cluster.write(unloaded, data("Releasing", 3, None, "b2"))
    cluster.write(split, data("Splitting", 3, None, "b3", children={low: None, high: None}))
    cluster.until(lambda: cluster.owner_is(moved, "b2"), "the transfer arrives")
    cluster.until(
        lambda: cluster.observer.channel.table[unloaded].state == ServiceUnitState.Free,
        "the unload ends free",
    )
    cluster.until(
        lambda: (
            cluster.observer.channel.table[split].state == ServiceUnitState.Deleted
            and cluster.owner_is(f"{namespace}/{low}", "b3")
            and cluster.owner_is(f"{namespace}/{high}", "b3")
        ),
        "the children are served and the parent is deleted",
    )
    cluster.write(unloaded, data("Assigning", cluster.version(unloaded) + 1, "b1"))
    cluster.until(lambda: cluster.owner_is(unloaded, "b1"), "it is assigned again")
    assert cluster.version(moved) == 5
    assert cluster.observer.service.violations == 0
    assert (cluster.observer.channel.transfers, cluster.observer.channel.splits) == (1, 1)


def test_a_killed_owner_is_replaced_and_may_come_back(cluster: Cluster) -> None:
    orphans = [BUNDLES[0], BUNDLES[3]]
    cluster.processes["b1"].send_signal(signal.SIGKILL)
    cluster.processes["b1"].wait()
    cluster.observer.died("b1", wall_ms())
    for bundle in orphans:
        cluster.write(bundle, data("Owned", 3, "b2", "b1", force=True))
    cluster.until(lambda: all(cluster.owner_is(b, "b2") for b in orphans), "b2 takes over")
    takeover_s = cluster.observer.takeover_s()
    assert takeover_s is not None and takeover_s >= AGENT.takeover_grace_ms / 1e3 / 2
    cluster.start("b1")
    cluster.until(lambda: "b1" in cluster.observer.service.live, "b1 is back")
    cluster.write(BUNDLES[0], data("Releasing", 4, "b1", "b2"))
    cluster.until(lambda: cluster.owner_is(BUNDLES[0], "b1"), "b1 gets a bundle back")
    assert cluster.observer.service.violations == 0


def test_a_restarted_owner_serves_what_the_channel_still_gives_it(cluster: Cluster) -> None:
    cluster.processes["b3"].terminate()
    assert cluster.processes["b3"].wait(timeout=10) == 0
    cluster.until(lambda: not cluster.observer.service.served().get("b3"), "b3 has stopped")
    cluster.start("b3")
    cluster.until(lambda: cluster.owner_is(BUNDLES[2], "b3"), "b3 serves again")
    assert cluster.observer.service.violations == 0


def test_an_owner_that_hung_past_its_lease_fences_itself_before_it_resumes(
    cluster: Cluster,
) -> None:
    cluster.processes["b2"].send_signal(signal.SIGSTOP)
    frozen_ms = wall_ms()
    cluster.until(lambda: wall_ms() - frozen_ms > AGENT.lease_ms + 300, "the lease is over")
    cluster.processes["b2"].send_signal(signal.SIGCONT)
    cluster.until(
        lambda: b'"fence"' in (cluster.home / "own" / "b2.jsonl").read_bytes(), "b2 is fenced"
    )
    cluster.until(lambda: cluster.owner_is(BUNDLES[1], "b2"), "b2 resumes")
    assert cluster.observer.service.violations == 0


def test_reports_are_full_ordered_and_list_hashes_of_big_bundles_only(cluster: Cluster) -> None:
    def reports() -> list[Report]:
        return cluster.reports("b1")

    cluster.until(
        lambda: any(r.kind == "full" and len(r.bundle_names) == 2 for r in reports()), "a report"
    )
    seen = reports()
    assert {report.kind for report in seen} == {"full", "heartbeat"}
    assert [r.sequence for r in seen] == sorted({r.sequence for r in seen})
    last = [report for report in seen if report.kind == "full"][-1]
    assert set(last.bundle_names) == {BUNDLES[0], BUNDLES[3]}
    for name, row in zip(last.bundle_names, last.bundle_stats, strict=True):
        assert len(last.topic_hashes[name]) == int(row[5]) > RUNTIME.topic_hashes_above


def _leaving_with_a_bundle(cluster: Cluster, wait_ms: int) -> subprocess.Popen[bytes]:
    """A fourth broker that serves the first bundle and was asked to stop."""
    cluster.start("b4", shutdown_wait_ms=wait_ms)
    cluster.write(BUNDLES[0], data("Releasing", 3, "b4", "b1"))
    cluster.until(lambda: cluster.owner_is(BUNDLES[0], "b4"), "b4 serves")
    cluster.processes["b4"].send_signal(signal.SIGTERM)
    cluster.until(lambda: cluster.reports("b4")[-1].status == "leaving", "b4 says that it leaves")
    return cluster.processes["b4"]


def test_a_leaving_broker_serves_until_its_bundle_is_taken_and_then_is_gone(
    cluster: Cluster,
) -> None:
    process = _leaving_with_a_bundle(cluster, wait_ms=60_000)
    assert cluster.owner_is(BUNDLES[0], "b4") and process.poll() is None
    cluster.write(BUNDLES[0], data("Releasing", cluster.version(BUNDLES[0]) + 1, "b2", "b4"))
    assert process.wait(timeout=20) == 0
    cluster.until(lambda: cluster.owner_is(BUNDLES[0], "b2"), "b2 serves")
    said = [report.status for report in cluster.reports("b4")]
    assert said[-1] == "gone" and said.count("gone") == 1
    assert sorted(said, key=("up", "leaving", "gone").index) == said
    assert cluster.observer.service.violations == 0


def test_a_second_signal_ends_the_waiting(cluster: Cluster) -> None:
    process = _leaving_with_a_bundle(cluster, wait_ms=60_000)
    asked_s = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=20) == 0
    assert time.monotonic() - asked_s < 5
    assert cluster.reports("b4")[-1].status == "gone"
    assert b'"exit"' in (cluster.home / "own" / "b4.jsonl").read_bytes()


def test_nobody_waits_longer_than_the_settings_allow(cluster: Cluster) -> None:
    process = _leaving_with_a_bundle(cluster, wait_ms=1_500)
    assert process.wait(timeout=20) == 0
    assert cluster.reports("b4")[-1].status == "gone"
    cluster.until(lambda: not cluster.observer.service.served().get("b4"), "b4 has stopped")


def test_two_brokers_that_split_one_namespace_at_once_both_succeed(cluster: Cluster) -> None:
    """Boundaries live in one file and change by compare-and-set; no change is lost."""
    halves = {}
    for bundle in BUNDLES:
        namespace, lower, upper = split_name(bundle)
        middle = range_midpoint(lower, upper)
        spans = (f"0x{lower:08x}_0x{middle:08x}", f"0x{middle:08x}_0x{upper:08x}")
        halves[bundle] = [f"{namespace}/{span}" for span in spans]
        children = dict.fromkeys(spans)
        owner = cluster.observer.channel.owned()[bundle]
        cluster.write(bundle, data("Splitting", 3, None, owner, children=children))
    cluster.until(
        lambda: all(
            cluster.observer.channel.table[bundle].state == ServiceUnitState.Deleted
            for bundle in BUNDLES
        ),
        "all parents are deleted",
    )
    boundaries = FileBoundaries(cluster.home / "log.db.boundaries")
    for bundle, children in halves.items():
        found = boundaries.read(split_name(bundle)[0])
        assert found is not None and split_name(children[0])[2] in found[1]
    assert cluster.observer.service.violations == 0
