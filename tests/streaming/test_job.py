"""The query on real Spark: routing, dead letters, independence of clusters, replay, late writes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from controller.transport.embedded import EmbeddedLog
from controller.transport.port import OutRecord
from controller.wire.commands import Tick
from streaming.faults import Fault
from streaming.halt import Halt
from streaming.lease import LeaseKeeper
from streaming.metrics import Metrics
from streaming.plan import JobPlan
from streaming.query import start_query
from streaming.sink import Sink, Topics
from tests.streaming.worlds import assign, bundle, command, load_report, new_log, plan, values

pytestmark = pytest.mark.spark

WARM_MS = 600  # a little more than the warm-up of the settings
GOOD_HOUR_MS = 1_000_000  # the log's time in these tests


class Bench:
    """A log on a clock of the test's, and runs of the job's query over all that it holds."""

    def __init__(self, spark: SparkSession, job: JobPlan) -> None:
        self.spark, self.job = spark, job
        self.now_ms = GOOD_HOUR_MS
        self.log = new_log(job, clock=lambda: self.now_ms)
        self.metrics = Metrics()

    def append(self, *records: OutRecord) -> None:
        self.log.append(records)

    def warm_up(self, *clusters: str) -> None:
        """Three brokers report, and enough time passes for the first decisions."""
        names = [(c, b) for c in clusters for b in ("b1", "b2", "b3")]
        self.append(*[load_report(c, b, 1, range(3)) for c, b in names])
        self.now_ms += WARM_MS
        self.append(*[command(c, Tick()) for c in clusters])

    def run(self, wrap: Callable[[Sink], Callable[[DataFrame, int], None]] | None = None) -> None:
        """Processes everything that is in the log, then stops."""
        with ExitStack() as stack:
            keeper = LeaseKeeper(self._open, self.job.name, "test", 60_000)
            keeper.acquire(self.log, Halt(), 0)
            stack.callback(keeper.release, self.log)
            topics = Topics(
                self.job.channels,
                self.job.commands_topic,
                self.job.decisions_topic,
                self.job.dead_letters_topic,
            )
            sink = Sink(
                self._open,
                keeper,
                topics,
                self.job.name,
                self.job.checkpoint,
                self.job.is_acting,
                self.metrics,
                lambda: self.now_ms,
                Fault(),
            )
            stack.callback(sink.close)
            query = start_query(self.spark, self.job, Fault(), wrap(sink) if wrap else sink)
            stack.callback(query.stop)
            sink.query_id.set_result(str(query.id))
            query.processAllAvailable()

    def channel(self, cluster: str) -> list[tuple[str | None, dict]]:
        records = self.log.read(self.job.channels[cluster], 0, 0, 1_000)
        return [(r.key, msgspec.json.decode(r.value or b"null")) for r in records]

    def dead_letters(self) -> list[dict]:
        return [msgspec.json.decode(v or b"") for v in values(self.log, "dead-letters")]

    def _open(self) -> EmbeddedLog:
        return EmbeddedLog(self.job.log_path, clock=lambda: self.now_ms)


def test_an_assignment_request_is_answered_on_the_channel(
    spark: SparkSession, tmp_path: Path
) -> None:
    bench = Bench(spark, plan(tmp_path))
    bench.warm_up("east")
    bench.append(assign("east", 7))
    bench.run()

    [(key, record)] = bench.channel("east")
    assert key == bundle(7)
    assert record["state"] == "Assigning" and record["dstBroker"] in ("b1", "b2", "b3")


def test_two_clusters_in_one_job_decide_as_if_alone(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "both").mkdir()
    (tmp_path / "alone").mkdir()
    both = Bench(spark, plan(tmp_path / "both", "east", "west"))
    alone = Bench(spark, plan(tmp_path / "alone", "east", "west"))
    for bench, clusters in ((both, ("east", "west")), (alone, ("east",))):
        bench.warm_up(*clusters)
        bench.append(*[assign("east", n) for n in range(5)])
    both.append(*[assign("west", n) for n in range(20, 27)])
    both.append(OutRecord("load-reports", "west/b1", b"junk"))
    both.run()
    alone.run()

    assert both.channel("east") == alone.channel("east")
    assert len(both.channel("west")) == 7


def test_bad_records_are_dead_letters_and_good_ones_beside_them_count(
    spark: SparkSession, tmp_path: Path
) -> None:
    bench = Bench(spark, plan(tmp_path))
    bench.append(
        OutRecord("load-reports", "east/b9", b"{"),
        OutRecord("load-reports", "north/b1", b"{}"),
        OutRecord("load-reports", None, None),
        OutRecord("controller-commands", "east/x", b'{"command":"dance"}'),
        OutRecord("bundle-state-east", bundle(1), b"\xff\xfe"),
    )
    bench.warm_up("east")
    bench.append(assign("east", 7))
    bench.run()

    reasons = {(letter["key"], letter["reason"]) for letter in bench.dead_letters()}
    assert ("east/b9", "malformed_json") in reasons
    assert ("north/b1", "unrouted") in reasons and (None, "unrouted") in reasons
    assert ("east/x", "unknown_command") in reasons
    assert len(bench.dead_letters()) == 5
    assert bench.log.end_offsets("bundle-state-east") == {0: 2}, "the bad one and our answer"


def test_a_batch_that_failed_is_run_again_with_identical_bytes(
    spark: SparkSession, tmp_path: Path
) -> None:
    bench = Bench(spark, plan(tmp_path, "east", "west"))
    bench.warm_up("east", "west")
    bench.append(assign("east", 1), assign("west", 2))
    seen: list[list[tuple]] = []

    def failing(sink: Sink) -> Callable[[DataFrame, int], None]:
        def fail(frame: DataFrame, batch_id: int) -> None:
            seen.append(sorted(map(tuple, frame.collect())))
            raise RuntimeError("the disk is on fire")

        return fail

    for _ in range(2):
        with pytest.raises(StreamingQueryException, match="on fire"):
            bench.run(failing)
    bench.run()

    assert seen[0] == seen[1] and len(seen[0]) > 4
    assert len(bench.channel("east")) == len(bench.channel("west")) == 1


def test_a_batch_published_before_the_crash_is_not_published_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    bench = Bench(spark, plan(tmp_path))
    bench.warm_up("east")
    bench.append(assign("east", 1))

    def crashing(sink: Sink) -> Callable[[DataFrame, int], None]:
        def publish_then_crash(frame: DataFrame, batch_id: int) -> None:
            sink(frame, batch_id)
            raise RuntimeError("crash between publish and commit")

        return publish_then_crash

    with pytest.raises(StreamingQueryException, match="between publish and commit"):
        bench.run(crashing)
    before = (bench.channel("east"), values(bench.log, "decision-log"))
    bench.run()

    assert len(before[0]) == 1
    assert bench.channel("east") == before[0]
    assert values(bench.log, "decision-log")[: len(before[1])] == before[1]


def test_a_write_that_comes_too_late_is_refused_as_a_command(
    spark: SparkSession, tmp_path: Path
) -> None:
    bench = Bench(spark, plan(tmp_path))
    bench.warm_up("east")
    bench.append(assign("east", 1))
    bench.now_ms += 3_600_000  # the job was down for an hour
    bench.run()

    assert bench.channel("east") == []
    commands = [msgspec.json.decode(v or b"") for v in values(bench.log, "controller-commands")]
    refused = [one for one in commands if one["command"] == "refused"]
    assert [one["bundle"] for one in refused] == [bundle(1)]
    assert refused[0]["versionId"] == 1 and refused[0]["decisionId"]


def test_observing_publishes_decisions_but_nothing_on_the_channel(
    spark: SparkSession, tmp_path: Path
) -> None:
    bench = Bench(spark, replace(plan(tmp_path), is_acting=False))
    bench.warm_up("east")
    bench.append(assign("east", 1))
    bench.run()

    assert bench.channel("east") == []
    lines = [msgspec.json.decode(v or b"") for v in values(bench.log, "decision-log")]
    assert any(line["plan"]["decisions"] for line in lines)


def test_a_new_checkpoint_adopts_and_is_silent_until_warm(
    spark: SparkSession, tmp_path: Path
) -> None:
    bench = Bench(spark, plan(tmp_path))
    bench.warm_up("east")
    bench.append(assign("east", 1))
    bench.run()
    published = bench.channel("east")
    bench.job = replace(bench.job, checkpoint=str(tmp_path / "another"))
    bench.run()

    assert bench.channel("east")[: len(published)] == published
    owners = [key for key, record in bench.channel("east")]
    assert owners == [bundle(1)], "the channel that is read back says that it is being assigned"


def test_metrics_carry_rounds_decisions_and_rejects(spark: SparkSession, tmp_path: Path) -> None:
    bench = Bench(spark, plan(tmp_path))
    bench.warm_up("east")
    bench.append(assign("east", 7), OutRecord("load-reports", "east/b9", b"{"))
    bench.now_ms += 2_000
    bench.append(command("east", Tick()))
    bench.run()
    value = bench.metrics.registry.get_sample_value
    cluster = {"cluster": "east"}

    assert value("bundle_controller_rejects_total", {**cluster, "reason": "malformed_json"}) == 1
    assigned = {**cluster, "kind": "assign", "reason": "unowned"}
    assert value("bundle_controller_decisions_total", assigned) == 1
    assert value("bundle_controller_broker_load_ratio", {**cluster, "broker": "b1"}) > 0
    usage = {**cluster, "feature": "load_ratio", "stat": "max"}
    assert value("pulsar_lb_resource_usage_stats", usage) > 0
