"""Builds the one SparkSession of the job, with the settings that a small fast stream needs.

Works when Python starts the JVM and under spark-submit. What spark-submit was told (`--conf`,
`--master`, spark-defaults) wins over what stands here. Called by `streaming.main`, the tests and
the benches; nobody else makes a session.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlparse

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from controller.processes import processes

FILE_MANAGER = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)

# Each line has its reason; figures are medians measured on two shared cores.
TUNING: Mapping[str, str] = {
    # A table of ours has UTC times only; a session in another zone would shift what Spark prints.
    "spark.sql.session.timeZone": "UTC",
    # Python workers over unix sockets: 20-30 % off a small Python stage.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.worker.reuse": "true",  # a warm worker also keeps the decoded state
    # Each DataFrame call would record the Python stack; foreachBatch makes some every batch.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Re-planning at run time costs more than a tiny batch takes.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.adaptive.streaming.stateless.enabled": "false",
    # Rounds come through the log as ticks; an empty batch would have nothing to do.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.minBatchesToRetain": "50",  # also the horizon of a roll-back
    "spark.sql.streaming.metricsEnabled": "true",
    "spark.sql.streaming.stopTimeout": "5s",  # a stop that hangs must not hold up the process
    "spark.sql.streaming.numRecentProgressUpdates": "20",
    # Arrow batches carry whole groups; bytes bound them, so rows need not.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    "spark.sql.execution.arrow.maxBytesPerBatch": "64MB",
    # The driver lives for months: keep little history in its heap.
    "spark.sql.ui.retainedExecutions": "50",
    "spark.sql.streaming.ui.retainedProgressUpdates": "100",
    "spark.sql.streaming.ui.enabledCustomMetricList": (
        "stateOnCurrentVersionSizeBytes,loadedMapCacheHitCount"
    ),
    "spark.ui.retainedJobs": "100",
    "spark.ui.retainedStages": "200",
    "spark.ui.retainedTasks": "1000",
    "spark.ui.showConsoleProgress": "false",
    "spark.locality.wait": "0",
    "spark.python.worker.faulthandler.enabled": "true",
}

LOCAL: Mapping[str, str] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
"""For a master inside this machine: nothing listens on an outer address."""

JAVA_OPTIONS = "-Xss8m"
"""Stopping a query while foreachBatch runs overflows the default stack of the stream thread."""


def is_local_path(checkpoint: str) -> bool:
    """True for a plain path or a `file:` URL."""
    return urlparse(checkpoint).scheme in ("", "file")


def is_under_submit() -> bool:
    """True if spark-submit started this process, so that the JVM runs already."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def job_conf(
    app_name: str,
    checkpoint: str,
    master: str,
    shuffle_partitions: int,
    ui_port: int | None = None,
    extra: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """All Spark settings of the job; `extra` (the operator's own) wins over ours.

    `ui_port` None switches the UI off. The file manager that renames within one directory is
    atomic on local disks only, so other places keep Spark's own choice.
    """
    conf = {"spark.app.name": app_name, "spark.master": master, **TUNING}
    conf["spark.sql.shuffle.partitions"] = str(shuffle_partitions)
    conf["spark.driver.extraJavaOptions"] = JAVA_OPTIONS
    conf["spark.ui.enabled"] = str(ui_port is not None).lower()
    if ui_port is not None:
        conf["spark.ui.port"] = str(ui_port)
    if master.startswith("local"):
        conf.update(LOCAL)
    if is_local_path(checkpoint):
        conf["spark.sql.streaming.checkpointFileManagerClass"] = FILE_MANAGER
    source_root = _source_root()
    if source_root is not None:
        conf["spark.executorEnv.PYTHONPATH"] = source_root
    conf.update(extra or {})
    return conf


def build_session(conf: Mapping[str, str]) -> SparkSession:
    """The session with `conf`; under spark-submit only with what was not given there."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if conf.get("spark.driver.host") == "127.0.0.1":
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder
    given = _given_by_submit()
    # The address of a local master would be wrong for the executors of another one.
    is_moved = not given.get("spark.master", "local").startswith("local")
    for key, value in conf.items():
        if key not in given and not (is_moved and key in LOCAL):
            builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def end_started_jvm() -> None:
    """Ends the JVM that this process has begun to start and not waited for (Linux).

    One that is interrupted in its start finds nobody to talk to, and stays all the same.
    """
    for one in processes():
        if one.parent == os.getpid():
            with suppress(OSError):  # it has ended meanwhile
                os.kill(one.pid, signal.SIGKILL)


def _given_by_submit() -> dict[str, str]:
    if not is_under_submit():
        return {}
    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def _source_root() -> str | None:
    """Where workers find our packages if they are not installed but run from a clone."""
    root = Path(__file__).resolve().parent.parent
    return None if root.name in ("site-packages", "dist-packages") else str(root)
