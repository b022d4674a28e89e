"""Runs one job from start to end: web server, session, lease, query, ticks, and a clean stop.

Order of the start: log, web server, session, then checkpoint and lease (a standby waits for these
without limit, with all before them ready), topics, query, ticks. The end is the reverse, so the
lease is given back last. Called by `streaming.process`.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import structlog
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from controller.jars import JarsError
from controller.transport.errors import CredentialsError, TransportError
from controller.transport.place import open_transport
from controller.transport.port import Marker, Transport
from streaming.checkpoint import (
    CheckpointError,
    check_adopting,
    check_against_log,
    check_against_marker,
    local_folder,
    read_facts,
)
from streaming.faults import Fault, FaultError, armed
from streaming.halt import Halt, Halted
from streaming.kafka_session import reader_conf
from streaming.lease import LeaseKeeper
from streaming.listener import ProgressListener
from streaming.metrics import Metrics
from streaming.pace import Pace
from streaming.plan import JobPlan
from streaming.query import start_query, stop_query
from streaming.rehearsal import rehearse
from streaming.session import build_session, end_started_jvm, job_conf
from streaming.sink import Sink, Topics
from streaming.status import Status
from streaming.succession import CheckpointLock, await_turn
from streaming.ticker import Ticker, wall_clock_ms
from streaming.topics import create_topics
from streaming.web import Web

log = structlog.get_logger("streaming.job")

POLL_S = 0.2  # how often the main thread looks whether the query lives

NEEDS_OPERATOR = (CheckpointError, CredentialsError, FaultError)
"""Starting again cannot help here."""


class JobError(Exception):
    """The job cannot start or go on; the text is a sentence for the operator."""

    def __init__(self, sentence: str, is_restart_useful: bool = True) -> None:
        super().__init__(sentence)
        self.is_restart_useful = is_restart_useful


def run(plan: JobPlan, halt: Halt) -> None:
    """Runs until `halt` is set or the query fails; raises `JobError` with one sentence."""
    try:
        with ExitStack() as stack:
            _run(plan, halt, stack)
    except (Halted, KeyboardInterrupt):
        log.info("stopped while Spark was starting")
    except (TransportError, CheckpointError, FaultError, JarsError, OSError) as error:
        is_restart_useful = not isinstance(error, NEEDS_OPERATOR)
        raise JobError(f"the job cannot run: {error}", is_restart_useful) from error
    except (PySparkException, Py4JError) as error:
        raise JobError(f"the job cannot run: {cause_of(error)}") from error
    if halt.failure is not None:
        raise JobError(halt.failure)


def _run(plan: JobPlan, halt: Halt, stack: ExitStack) -> None:
    fault, metrics, holder = armed(), Metrics(), _holder()
    transport = _open_log(plan)
    stack.callback(transport.close)
    transport.topics()  # a log that cannot be reached is told before Spark takes its time
    keeper = LeaseKeeper(lambda: _open_log(plan), plan.name, holder, plan.lease_ttl_ms)
    stack.callback(keeper.release, transport)
    status = Status(plan, metrics, keeper, wall_clock_ms)
    metrics.lease.set_function(lambda: float(keeper.is_held))
    pages = Pages(metrics, keeper, status)
    web = _web(plan, metrics, pages)
    stack.callback(web.stop)
    # Pushed before the session, so freed after it: Spark's threads may write until it has stopped.
    lock = CheckpointLock(plan.checkpoint, holder)
    stack.callback(lock.release)
    try:
        with halt.interrupting():  # a JVM takes seconds to start
            spark = stack.enter_context(_session(plan))
    except Halted:
        end_started_jvm()
        raise
    halt.catch_signals()
    if plan.is_standby:
        rehearse(spark, plan, lambda: halt.is_set() or keeper.is_free(transport))
    log.info("ready", standby=plan.is_standby, http_port=web.port)
    wait_ms = None if plan.is_standby else plan.lease_wait_ms
    if halt.is_set() or not await_turn(spark, lock, keeper, transport, halt, wait_ms):
        return
    keeper.keep(halt)
    create_topics(plan, transport)
    sink = make_sink(plan, keeper, metrics, fault)
    stack.callback(sink.close)
    sink.open()  # fences a predecessor, so its marker is final before anybody reads it
    status.lead(check_start(plan, transport))
    fault.reach("start_up", fault.batch)
    pace = Pace()
    spark.streams.addListener(ProgressListener(metrics, pace))
    if halt.is_set():
        return
    query = start_query(spark, plan, fault, sink)
    status.query_id = str(query.id)
    sink.query_id.set_result(status.query_id)
    pages.query = query
    stack.callback(stop_query, query)
    pace.status = lambda: query.status
    ticker = _ticker(plan, halt, pace)
    ticker.start()
    stack.callback(ticker.stop)
    log.info("running", query=plan.name, clusters=sorted(plan.clusters), epoch=keeper.lease.epoch)
    _watch(query, halt)
    status.stop()
    log.info("stopping", failure=halt.failure)


def check_start(plan: JobPlan, log_file: Transport) -> Marker | None:
    """Refuses what cannot go well; returns the marker of another checkpoint that is adopted.

    Refused are a checkpoint of another log, one that was put back, and adopting where it is not
    wanted. Where the checkpoint is not local, the sink judges at its first batch.
    """
    marker = log_file.marker(plan.name)
    facts = read_facts(plan.checkpoint)
    if facts is not None:
        check_against_log(facts, log_file, plan.transport.shown)
        check_against_marker(facts.query_id, facts.batch_id, marker)
        if facts.shuffle_partitions not in (None, plan.shuffle_partitions):
            log.warning(
                "the checkpoint keeps its own number of state partitions",
                configured=plan.shuffle_partitions,
                kept=facts.shuffle_partitions,
            )
    if local_folder(plan.checkpoint) is None:
        return None
    is_own = marker is not None and facts is not None and facts.query_id == marker.query_id
    check_adopting(is_own, marker, plan.transport.shown, plan.may_adopt)
    return None if is_own else marker


def _open_log(plan: JobPlan) -> Transport:
    return open_transport(plan.transport)


def _holder() -> str:
    """Unique: in containers host name and process id may well be those of another job."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"


@contextmanager
def _session(plan: JobPlan) -> Iterator[SparkSession]:
    conf = job_conf(
        plan.name,
        plan.checkpoint,
        plan.master,
        plan.shuffle_partitions,
        plan.ui_port,
        {**reader_conf(plan.transport, plan.master), **plan.spark_conf},
    )
    spark = build_session(conf)
    try:
        yield spark
    finally:
        spark.stop()


def make_sink(plan: JobPlan, keeper: LeaseKeeper, metrics: Metrics, fault: Fault) -> Sink:
    """The sink of a plan; it opens its own log."""
    topics = Topics(
        plan.channels, plan.commands_topic, plan.decisions_topic, plan.dead_letters_topic
    )
    return Sink(
        partial(open_transport, plan.transport),
        keeper,
        topics,
        query_name=plan.name,
        checkpoint=plan.checkpoint,
        is_acting=plan.is_acting,
        metrics=metrics,
        clock=wall_clock_ms,
        fault=fault,
        may_adopt=plan.may_adopt,
    )


def _ticker(plan: JobPlan, halt: Halt, pace: Pace) -> Ticker:
    rounds = {name: settings.rounds for name, settings in plan.clusters.items()}
    is_paced = plan.first_settings().is_paced_by_ticks
    may_tick = pace.is_caught_up if is_paced else lambda: True
    return Ticker(lambda: _open_log(plan), rounds, plan.commands_topic, halt, may_tick=may_tick)


class Pages:
    """What the web server answers. `query` comes with leading."""

    def __init__(self, metrics: Metrics, keeper: LeaseKeeper, status: Status) -> None:
        self._metrics, self._keeper, self._status = metrics, keeper, status
        self.query: StreamingQuery | None = None

    def health(self) -> tuple[bool, dict[str, Any]]:
        """Good while a standby waits and while a leader's query lives."""
        is_active = self.query is not None and self.query.isActive
        facts = {"state": self._status.state, "query_active": is_active}
        return is_active or self.query is None, facts

    def ready(self) -> tuple[bool, dict[str, Any]]:
        """Good once the first batch is published and while the lease is held."""
        batches, is_held = self._metrics.batches_committed, self._keeper.is_held
        facts = {"batches": batches, "lease_held": is_held, "state": self._status.state}
        return bool(batches) and is_held, facts

    def status(self) -> tuple[bool, dict[str, Any]]:
        """Always good: the page says itself how things are."""
        return True, self._status.page()


def _web(plan: JobPlan, metrics: Metrics, pages: Pages) -> Web:
    probes = {"/health": pages.health, "/ready": pages.ready, "/status": pages.status}
    web = Web(plan.http_host, plan.http_port, metrics.registry, probes)
    web.start()
    return web


def _watch(query: StreamingQuery, halt: Halt) -> None:
    """Returns when the job is to end; fails `halt` if the query ended by itself."""
    while not halt.wait(POLL_S):
        if not query.isActive:
            error = query.exception()
            halt.fail(f"the query failed: {cause_of(error)}" if error else "the query ended")


def cause_of(error: Exception) -> str:
    """The line of a failed query that names the cause: the innermost Python error."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    python_errors = [line for line in lines if _is_error_line(line)]
    return python_errors[-1] if python_errors else (lines[0] if lines else repr(error))


def _is_error_line(line: str) -> bool:
    name, colon, _ = line.partition(": ")
    last = name.rpartition(".")[2]
    is_ours = last.endswith(("Error", "Exception")) and " " not in name
    return bool(colon) and is_ours and not name.startswith(("org.", "java.", "py4j."))
