"""What is remembered per bundle and per broker: the layouts of the two tables.

Bundle rows are kept small (they travel in and out with every micro-batch): names are rebuilt
from namespace and range, brokers are slots, averages are float32 unless the settings ask for
more. Broker -1 means none.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from controller.core.state.columns import Column, Columns

STATES: Final = ("Init", "Free", "Assigning", "Owned", "Releasing", "Splitting", "Deleted")
INIT, FREE, ASSIGNING, OWNED, RELEASING, SPLITTING, DELETED = range(7)
STATUSES: Final = ("up", "leaving", "gone")
UP, LEAVING, GONE = range(3)
RATE_IN, RATE_OUT, THROUGHPUT_IN, THROUGHPUT_OUT = range(4)


@cache
def bundle_layout(precision: str) -> tuple[Column, ...]:
    """Columns of the bundle table; `precision` is the type of the averages."""
    return (
        Column("namespace", "u4"),  # index into ClusterState.namespaces
        Column("lower", "u4"),
        Column("upper", "u4"),
        # ownership, folded from the channel
        Column("state", "u1", INIT),
        Column("destination", "i2", -1),  # dstBroker
        Column("source", "i2", -1),  # sourceBroker
        Column("serving", "i2", -1),  # the broker that serves it by the channel
        Column("version", "i8"),  # versionId of the last accepted record, 0 = none
        Column("since_ms", "i8"),  # ingest time of the last accepted record
        # load, from reports
        Column("sampled_ms", "i8"),  # ingest time of the last sample, 0 = none
        Column("raw", precision, 0, 4),  # rate in, rate out, throughput in, throughput out
        Column("short", precision, 0, 4),
        Column("long", precision, 0, 4),
        Column("samples", "u2"),  # counts up to the long window
        Column("sessions", "u4"),  # producers + consumers
        Column("topics", "u4"),
        Column("topic_boundary", "u4"),  # halves the topic count, 0 = unknown
        # cool-downs
        Column("moved_ms", "i8"),  # last time a move of it began, 0 = never
        Column("left", "i2", -1),  # the broker that it left then
        Column("left_rate", "f4"),  # its short-term rate when it left
    )


BROKER_LAYOUT: Final = (
    Column("first_seen_ms", "i8"),
    Column("last_seen_ms", "i8"),  # last sign of life: any report or heartbeat
    Column("reported_ms", "i8"),  # ingest time of the last load report, 0 = no load known
    Column("sequence", "i8"),  # of the last load report
    Column("usage", "f8", 0, 10),  # (usage, limit) of cpu, heap, direct, bandwidth in, out
    Column("totals", "f8", 0, 4),  # rate in, rate out, throughput in, throughput out
    Column("topics", "i8"),
    Column("load", "f8"),  # load ratio of the last report
    Column("load_ema", "f8"),
    Column("ema_samples", "i8"),
    Column("throughput_ema", "f8"),  # bytes/s in + out
    Column("moved_ms", "i8"),  # last time a move from or to it was decided, 0 = never
    Column("unloaded_ms", "i8"),  # last time a bundle left it, 0 = never
    # what its agent says of it
    Column("status", "u1", UP),
    Column("status_sequence", "i8"),  # of the sign of life with that status
    Column("is_jittery", "u1"),  # 1 = it says that reads or writes of the log fail
)


def bundle_table(precision: str) -> Columns:
    """An empty bundle table."""
    return Columns(bundle_layout(precision))


def broker_table() -> Columns:
    """An empty broker table."""
    return Columns(BROKER_LAYOUT)
