"""Runs one job from start to end: lease, query, ticks, web server, and a clean stop.

Order of the start: log and topics, lease, session, query, ticks. Order of the end: ticks, query
(between two batches if it can), lease, web server. Called by `streaming.main`.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import structlog
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from controller.transport.embedded import EmbeddedLog
from controller.transport.port import Transport
from streaming.faults import armed
from streaming.halt import Halt
from streaming.lease import LeaseKeeper
from streaming.listener import ProgressListener
from streaming.metrics import Metrics
from streaming.plan import JobPlan
from streaming.query import start_query
from streaming.session import build_session, job_conf
from streaming.sink import Sink, Topics
from streaming.ticker import Ticker, wall_clock_ms
from streaming.web import Web

log = structlog.get_logger("streaming.job")

POLL_S = 0.2  # how often the main thread looks whether the query lives
QUIET_WAIT_S = 4.0  # a stop waits this long for the moment between two batches


class JobError(Exception):
    """The job cannot start or go on; the text is a sentence for the operator."""


def run(plan: JobPlan, halt: Halt) -> None:
    """Runs until `halt` is set or the query fails; raises `JobError` with one sentence."""
    metrics = Metrics()
    with ExitStack() as stack:
        transport = open_log(plan)
        stack.callback(transport.close)
        keeper = LeaseKeeper(lambda: EmbeddedLog(plan.log_path), plan.name, _holder(),
                             plan.lease_ttl_ms)
        if not keeper.acquire(transport, halt, plan.lease_wait_ms):
            return
        stack.callback(keeper.release, transport)
        keeper.keep(halt)
        check_marker(plan, transport)
        fault = armed()
        fault.reach("start_up", fault.batch)
        spark = stack.enter_context(_session(plan))
        sink = _sink(plan, keeper, metrics, fault)
        stack.callback(sink.close)
        spark.streams.addListener(ProgressListener(metrics))
        query = _start(spark, plan, fault, sink)
        stack.callback(_stop_query, query)
        web = _web(plan, metrics, query, keeper, halt)
        stack.callback(web.stop)
        ticker = _ticker(plan, halt)
        ticker.start()
        stack.callback(ticker.stop)
        log.info("running", query=plan.name, clusters=sorted(plan.clusters), http_port=web.port)
        _watch(query, halt)
        log.info("stopping", failure=halt.failure)
    if halt.failure is not None:
        raise JobError(halt.failure)
