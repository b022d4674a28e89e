"""What the job tells Prometheus, fed on the driver from the rows of each batch and from Spark.

Names of Pulsar's own load-balance metrics are kept where the meaning is the same (`pulsar_lb_*`),
so that dashboards go on working; all others begin with `bundle_controller_`. Figures come from
round records and snapshots that the core wrote; nothing is computed here but sums.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import msgspec
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
)
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from pyspark.sql import Row

from controller.core.inputs import Snapshot
from controller.wire.decisions import AnswerRecord, RoundRecord
from controller.wire.rejects import Reject

BATCH_BUCKETS_S = (0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0)
MOVE_KINDS = ("transfer", "unload")

disable_created_metrics()  # a second series for each counter that nobody asks for

_records = msgspec.json.Decoder(RoundRecord | AnswerRecord)
_snapshots = msgspec.json.Decoder(Snapshot)
_rejects = msgspec.json.Decoder(Reject)


class Metrics:
    """All series of one process, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)
        self._job_series()
        self._balance_series()
        self._brokers: dict[str, set[str]] = {}
        self.batches_committed = 0
        self.last_batch: tuple[int, int] | None = None  # id, and when it was published (ms)
        self.snapshots: dict[str, Snapshot] = {}  # cluster -> its last one

    def _job_series(self) -> None:
        make = self.registry
        prefix = "bundle_controller_"
        self.batch_id = Gauge(prefix + "batch_id", "Last micro-batch published.", registry=make)
        self.batch_at = Gauge(
            prefix + "batch_timestamp_seconds", "Time of the last micro-batch.", registry=make
        )
        self.batch_s = Histogram(
            prefix + "batch_duration_seconds",
            "Duration of a trigger, from Spark's progress.",
            buckets=BATCH_BUCKETS_S,
            registry=make,
        )
        self.input_rows = Counter(
            prefix + "input_records", "Records read from the log.", registry=make
        )
        self.state_bytes = Gauge(
            prefix + "state_bytes", "Memory of Spark's state store.", registry=make
        )
        self.source_lag = Gauge(
            prefix + "source_lag_records", "Records of the log not read yet.", registry=make
        )
        self.channel_records = Counter(
            prefix + "channel_records", "Channel records published.", registry=make
        )
        self.refused = Counter(
            prefix + "refused_records",
            "Channel records refused because they came too late.",
            registry=make,
        )
        self.lease = Gauge(
            prefix + "lease_held", "1 while the writer lease is held.", registry=make
        )

    def _balance_series(self) -> None:
        make, prefix, by = self.registry, "bundle_controller_", ["cluster"]
        self.snapshot = Gauge(
            prefix + "snapshot",
            "Figures of the cluster at the end of its last step (see `figure`).",
            [*by, "figure"],
            registry=make,
        )
        self.events = Gauge(
            prefix + "events", "Counts since the memory began.", [*by, "event"], registry=make
        )
        self.rounds = Counter(prefix + "rounds", "Rounds, by mode.", [*by, "mode"], registry=make)
        self.decisions = Counter(
            prefix + "decisions", "Decisions.", [*by, "kind", "reason"], registry=make
        )
        self.verdicts = Counter(
            prefix + "verdicts", "What was not done, by reason.", [*by, "reason"], registry=make
        )
        self.rejects = Counter(
            prefix + "rejects", "Dead letters, by reason.", [*by, "reason"], registry=make
        )
        self.imbalance = Gauge(
            prefix + "imbalance_ratio", "Max/mean load ratio of live brokers.", by, registry=make
        )
        self.broker_load = Gauge(
            prefix + "broker_load_ratio", "Load ratio of a broker.", [*by, "broker"], registry=make
        )
        self.usage = Gauge(
            "pulsar_lb_resource_usage_stats",
            "Load ratio over live brokers.",
            [*by, "feature", "stat"],
            registry=make,
        )
        self.breakdown = Counter(
            "pulsar_lb_unload_broker_breakdown",
            "Unload decisions and refusals, by reason.",
            [*by, "result", "reason"],
            registry=make,
        )
        self.unloads = Counter(
            "pulsar_lb_unload_bundle", "Bundles unloaded or transferred.", by, registry=make
        )
        self.splits = Counter("pulsar_lb_bundles_split", "Bundles split.", by, registry=make)

    def batch(self, rows: Sequence[Row], batch_id: int, is_new: bool) -> None:
        """Takes in the rows of a published batch; counts nothing twice after a restart."""
        for row in rows:
            if row.topic_kind == "snapshot":
                self._take_snapshot(row.cluster, _snapshots.decode(row.value))
            elif row.topic_kind == "decision" and is_new:
                self._take_record(_records.decode(row.value))
            elif row.topic_kind == "reject" and is_new:
                self.rejects.labels(row.cluster, _rejects.decode(row.value).reason).inc()
        self.batch_id.set(batch_id)
        self.batch_at.set(time.time())
        self.last_batch = batch_id, time.time_ns() // 1_000_000
        self.batches_committed += 1

    def published(self, channel: int, refused: int) -> None:
        """Counts what the sink wrote."""
        self.channel_records.inc(channel)
        self.refused.inc(refused)

    def trigger(self, seconds: float, rows: int, state_bytes: int, lag: int) -> None:
        """Takes in Spark's progress of one trigger."""
        self.batch_s.observe(seconds)
        self.input_rows.inc(rows)
        self.state_bytes.set(state_bytes)
        self.source_lag.set(lag)

    def _take_snapshot(self, cluster: str, snapshot: Snapshot) -> None:
        self.snapshots[cluster] = snapshot
        for name in Snapshot.__slots__:
            value = getattr(snapshot, name)
            if isinstance(value, int):
                self.snapshot.labels(cluster, name).set(value)
        for name, count in snapshot.counters.items():
            self.events.labels(cluster, name).set(count)

    def _take_record(self, record: RoundRecord | AnswerRecord) -> None:
        cluster = record.cluster
        for decision in record.plan.decisions:
            self.decisions.labels(cluster, decision.kind, decision.reason).inc()
            if decision.kind in MOVE_KINDS:
                self.unloads.labels(cluster).inc()
                self.breakdown.labels(cluster, "success", decision.reason).inc()
            elif decision.kind == "split":
                self.splits.labels(cluster).inc()
        for reason, count in record.verdicts.counts.items():
            self.verdicts.labels(cluster, reason).inc(count)
            self.breakdown.labels(cluster, "skip", reason).inc(count)
        if isinstance(record, RoundRecord):
            self._take_round(record)

    def _take_round(self, record: RoundRecord) -> None:
        figures, cluster = record.statistics, record.cluster
        self.rounds.labels(cluster, record.mode).inc()
        self.imbalance.labels(cluster).set(figures.imbalance)
        stats = {"mean": figures.loadMean, "max": figures.loadMax, "min": figures.loadMin}
        for stat, value in stats.items():
            self.usage.labels(cluster, "load_ratio", stat).set(value)
        for broker, load in figures.loads.items():
            self.broker_load.labels(cluster, broker).set(load)
        self._forget_brokers(cluster, figures.loads)

    def _forget_brokers(self, cluster: str, present: Iterable[str]) -> None:
        """A broker that left would otherwise keep its last load for ever."""
        now = set(present)
        for broker in self._brokers.get(cluster, set()) - now:
            self.broker_load.remove(cluster, broker)
        self._brokers[cluster] = now
