"""Becoming the one writer: first the checkpoint's lock, then the writer lease.

The lease keeps two controllers from publishing to one channel: it runs out, so a controller that
hangs is replaced, and when it wakes its publish is refused inside the transaction. Spark's files
have no such check: a woken driver writes offsets and state before it asks anybody. So a checkpoint
is guarded by a lock that does not run out: the system's own lock on a file beside the folder, held
by the JVM, which is the process that writes there, and freed by its death alone. A controller with
the same checkpoint takes over from a dead one, never from one that hangs; for that it needs a
checkpoint of its own. Called by `streaming.job`.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import structlog
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from controller.transport.port import Transport
from streaming.checkpoint import CheckpointError, local_folder
from streaming.halt import Halt
from streaming.lease import POLL_S, LeaseKeeper

log = structlog.get_logger("streaming.succession")

HOLDER_CHARS_MAX = 200  # of the lock file's text, shown to the operator


class CheckpointLock:
    """The lock of one checkpoint folder. Without effect where the folder is not local."""

    def __init__(self, checkpoint: str, holder: str) -> None:
        folder = local_folder(checkpoint)
        # Beside the folder: Spark wants a new checkpoint's folder to be empty.
        self.path = None if folder is None else Path(f"{folder.resolve()}.lock")
        self._holder = holder
        self._channel: Any = None

    def acquire(self, spark: SparkSession, halt: Halt, wait_ms: int | None) -> bool:
        """Waits for the process that has it to end; None = without limit. False if halted.

        Raises `CheckpointError` if it still has the checkpoint after `wait_ms`.
        """
        deadline = None if wait_ms is None else time.monotonic() + wait_ms / 1_000
        while not self._try(spark):
            if deadline is not None and time.monotonic() > deadline:
                raise CheckpointError(
                    f"{self.used_by()} still has the checkpoint open, though it may hang or be "
                    "paused: end that process, or give this one a job.checkpoint of its own"
                )
            if halt.wait(POLL_S):
                return False
        return True

    def release(self) -> None:
        """Frees the checkpoint, once nothing writes to it any more."""
        channel, self._channel = self._channel, None
        if channel is not None:
            try:
                channel.close()
            except (Py4JError, OSError) as error:
                log.info("checkpoint lock left to the end of the JVM", error=type(error).__name__)

    def used_by(self) -> str:
        """Who has it, as far as the file says."""
        try:
            text = self.path.read_text(encoding="utf-8") if self.path is not None else ""
        except (OSError, UnicodeDecodeError):
            text = ""
        return text[:HOLDER_CHARS_MAX].strip() or "another process"

    def _try(self, spark: SparkSession) -> bool:
        if self.path is None or self._channel is not None:
            return True
        self.path.parent.mkdir(parents=True, exist_ok=True)
        jvm: Any = spark._jvm
        channel = jvm.java.io.RandomAccessFile(str(self.path), "rw").getChannel()
        if channel.tryLock() is None:
            channel.close()
            return False
        self._channel = channel
        self.path.write_text(self._holder + "\n", encoding="utf-8")
        return True


def await_turn(
    spark: SparkSession,
    lock: CheckpointLock,
    keeper: LeaseKeeper,
    transport: Transport,
    halt: Halt,
    wait_ms: int | None,
) -> bool:
    """Waits until checkpoint and lease are free, and takes both; False if halted before.

    Lock before lease: a controller that hangs for a moment and has its checkpoint shared goes on
    when it wakes, instead of being fenced in favour of one that cannot begin.
    """

    def check_spark() -> None:
        spark.sparkContext.defaultParallelism  # noqa: B018  # asks the JVM: a dead one raises

    if not lock.acquire(spark, halt, wait_ms):
        return False
    return keeper.acquire(transport, halt, wait_ms, check_spark)
