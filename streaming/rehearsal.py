"""Runs the query over a log of its own that is thrown away, so that taking over is quick later.

The first batch of a process takes seconds: Spark loads and compiles its code, Python workers start
and import. A standby has the time to do that before it is needed. Called by `streaming.job`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import structlog
from pyspark.sql import DataFrame, SparkSession

from controller.transport.embedded import EmbeddedLog
from controller.transport.place import TransportPlace
from streaming.faults import Fault
from streaming.plan import JobPlan
from streaming.query import start_query, stop_query
from streaming.ticker import tick_records
from streaming.topics import create_topics

log = structlog.get_logger("streaming.rehearsal")

POLL_S = 0.05
BATCHES = 3  # the first is the slow one; the next ones read state and warm what that takes


def rehearse(spark: SparkSession, plan: JobPlan, is_over: Callable[[], bool]) -> None:
    """Runs a few batches that nobody sees, fewer if it `is_over` before.

    Raises what Spark raises: a query that cannot run here could not take over either.
    """
    started = time.monotonic()
    # What Spark still writes there after the query's end is of no use to anybody.
    with TemporaryDirectory(prefix="bundlectl-rehearsal-", ignore_cleanup_errors=True) as folder:
        scene = replace(
            plan,
            name=f"{plan.name}-rehearsal",
            transport=TransportPlace(path=str(Path(folder) / "log.db")),
            checkpoint=str(Path(folder) / "checkpoint"),
        )
        scratch = EmbeddedLog(scene.transport.path)
        create_topics(scene, scratch)
        done: list[int] = []
        query = start_query(spark, scene, Fault(), lambda frame, n: _discard(frame, n, done))
        try:
            for wanted in range(1, BATCHES + 1):
                scratch.append(tick_records(sorted(scene.clusters), scene.commands_topic))
                while len(done) < wanted and query.isActive and not is_over():
                    time.sleep(POLL_S)
            error = query.exception()
            if error is not None:
                raise error
        finally:
            stop_query(query)
            scratch.close()
    log.info("rehearsed", batches=len(done), seconds=round(time.monotonic() - started, 1))


def _discard(frame: DataFrame, batch_id: int, done: list[int]) -> None:
    frame.collect()
    done.append(batch_id)
