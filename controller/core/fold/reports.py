"""Folds load reports and heartbeats into the tables.

Rules: any report is a sign of life; a report with a sequence that was seen already adds no
sample (duplicates and late reports are harmless); a bundle is sampled only by the broker that
serves it by the channel, or by anybody while the channel knows nothing of it; a report is taken
whole or not at all; a status (up, leaving, gone) counts unless a later one was heard.
"""

from __future__ import annotations

import numpy as np

from controller.core.inputs import RawRecord
from controller.core.state.columns import Columns
from controller.core.state.memory import Traits
from controller.core.state.tables import INIT, STATUSES, UP
from controller.core.state.topics import count_of, packed
from controller.core.work import Work
from controller.load.averages import smooth
from controller.load.usage import load_ratio, weighted_max
from controller.model.boundaries import topic_count_boundary
from controller.strategies.view import Ints
from controller.wire.rejects import WireError
from controller.wire.reports import Report, decode_report


def fold_report(work: Work, record: RawRecord) -> None:
    """One record of a report topic; raises `WireError` for what cannot be taken."""
    name = broker_of(record.key)
    report = decode_report(record.value, name, work.cluster, work.settings.limits)
    slots = _bundle_slots(work, report)
    broker = work.broker(name, record.ingest_ms)
    _sign_of_life(work, broker, record.ingest_ms)
    _take_status(work, broker, report)
    if report.kind == "heartbeat":
        return
    brokers = work.state.brokers
    if report.kind == "cleared":
        brokers["reported_ms"][broker] = 0
        return
    if report.kind != "top":
        if 0 < report.sequence <= int(brokers["sequence"][broker]):
            work.state.memory.count("duplicate_reports")
            return
        brokers["sequence"][broker] = report.sequence
        _take_usage(work, broker, report, record.ingest_ms)
        _take_traits(work, name, report)
    work.state.memory.count("reports")
    if len(slots):
        _take_samples(work, broker, report, slots, record.ingest_ms)


def broker_of(key: str | None) -> str:
    """Broker of a record key: behind the first `/` of `cluster/broker`, or the whole key."""
    if not key:
        raise WireError("missing_field", "key", "a load report needs the key cluster/broker")
    name = key.split("/", 1)[1] if "/" in key else key
    if not name:
        raise WireError("missing_field", "key", f"no broker in the key {key!r}")
    return name


def _bundle_slots(work: Work, report: Report) -> Ints:
    known = work.state.bundles.slots
    slots = list(map(known.get, report.bundle_names))
    if None in slots:
        slots = [work.bundle(name) for name in report.bundle_names]
    return np.array(slots, np.int64)


def _sign_of_life(work: Work, broker: int, ingest_ms: int) -> None:
    seen = work.state.brokers["last_seen_ms"]
    silent_ms = ingest_ms - int(seen[broker])
    is_first = int(work.state.brokers["first_seen_ms"][broker]) == ingest_ms
    if is_first or silent_ms >= work.settings.liveness.takeover_after_ms:
        work.is_answer_due = True
    seen[broker] = ingest_ms


def _take_status(work: Work, broker: int, report: Report) -> None:
    """Status and transport health; an older sign of life that comes late does not revive."""
    brokers = work.state.brokers
    if report.sequence < int(brokers["status_sequence"][broker]):
        return
    status = STATUSES.index(report.status)
    if status != int(brokers["status"][broker]):
        work.is_answer_due |= status == UP
        work.state.memory.count(f"brokers_{report.status}")
    brokers["status"][broker] = status
    brokers["status_sequence"][broker] = report.sequence
    brokers["is_jittery"][broker] = report.transport == "jittery"


def _take_usage(work: Work, broker: int, report: Report, ingest_ms: int) -> None:
    brokers = work.state.brokers
    if report.usage is not None:
        samples = int(brokers["ema_samples"][broker])
        history = work.settings.windows.broker_history_ratio
        weighted = weighted_max(report.usage, work.settings.weights)
        ema = smooth(float(brokers["load_ema"][broker]), weighted, samples, history)
        brokers["usage"][broker] = report.usage
        brokers["load"][broker] = load_ratio(report.usage, work.settings.weights)
        brokers["load_ema"][broker] = ema
        brokers["ema_samples"][broker] = samples + 1
        brokers["reported_ms"][broker] = ingest_ms
        if report.totals is not None:
            throughput = report.totals[2] + report.totals[3]
            before = float(brokers["throughput_ema"][broker])
            brokers["throughput_ema"][broker] = smooth(before, throughput, samples, history)
    if report.totals is not None:
        brokers["totals"][broker] = report.totals
    if report.kind == "full":
        brokers["topics"][broker] = int(report.bundle_stats[:, 5].sum())


def _take_traits(work: Work, name: str, report: Report) -> None:
    """Version, zone and kinds of topics, as the last report of a format that has them says."""
    if report.kind not in ("full", "partial"):
        return
    persistent, non_persistent = report.serves
    said = Traits(
        version=report.version,
        zone=report.zone,
        serves_persistent=persistent,
        serves_non_persistent=non_persistent,
    )
    if said == Traits():
        work.state.memory.traits.pop(name, None)
    else:
        work.state.memory.traits[name] = said


def _take_samples(work: Work, broker: int, report: Report, slots: Ints, ingest_ms: int) -> None:
    bundles: Columns = work.state.bundles
    own = (bundles["serving"][slots] == broker) | (bundles["state"][slots] == INIT)
    values = report.bundle_stats
    if not own.all():
        slots, values = slots[own], values[own]
    work.samples.append((slots, values, ingest_ms))
    for name, hashes in report.topic_hashes.items():
        boundary = topic_count_boundary(sorted(hashes))
        bundles["topic_boundary"][bundles.slots[name]] = boundary or 0
    names = report.bundle_names if own.all() else [bundles.names[slot] for slot in slots.tolist()]
    _take_topics(work, report, names)


def _take_topics(work: Work, report: Report, names: list[str]) -> None:
    """Keeps the loads of topics as the owner's last report gives them, if there is room."""
    kept = work.state.memory.topics
    if not kept and not report.topic_loads:
        return
    for name in names:
        kept.pop(name, None)
    room = work.settings.log.topic_loads_max - sum(map(count_of, kept.values()))
    for name in names:
        loads = report.topic_loads.get(name)
        if loads is None:
            continue
        if len(loads.hashes) > room:
            work.state.memory.count("topic_loads_refused")
            continue
        kept[name] = packed(loads)
        room -= len(loads.hashes)
