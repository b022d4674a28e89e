"""A log on a clock of the test's, and runs of the job's real query over all that it holds."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import msgspec
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
from tests.streaming.worlds import command, load_report, new_log, values

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
                lambda reached: self._open(),
                keeper,
                topics,
                self.job.name,
                self.job.checkpoint,
                self.job.is_acting,
                self.metrics,
                lambda: self.now_ms,
                Fault(),
                self.job.may_adopt,
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
        return EmbeddedLog(self.job.transport.path, clock=lambda: self.now_ms)
