"""Decodes load reports of all formats into one `Report`, the hot path of the controller.

Rules: formats are told apart by content, with byte searches for quoted member names; a report is
taken whole or not at all; numbers are checked all at once with numpy; bundle names are *not*
parsed (the core does it once per new name). Called by the core for every record of the report
topics; the agents use the encoders.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from controller.wire.decoding import blame, decode_struct, explain_malformed
from controller.wire.formats import (
    BrokerLoadData,
    BrokerStatus,
    BundleStats,
    Heartbeat,
    LoadReport,
    LocalBrokerData,
    NamespaceBundleStats,
    ResourceUsage,
    TopBundle,
    TopBundlesLoadData,
    TransportHealth,
)
from controller.wire.limits import WireLimits
from controller.wire.rejects import WireError
from controller.wire.topics import TopicLoads, checked_topics

__all__ = [
    "BrokerLoadData",
    "BrokerStatus",
    "BundleStats",
    "Heartbeat",
    "LoadReport",
    "LocalBrokerData",
    "NamespaceBundleStats",
    "Report",
    "ResourceUsage",
    "TopBundle",
    "TopBundlesLoadData",
    "TopicLoads",
    "TransportHealth",
    "decode_report",
    "encode_heartbeat",
    "encode_load_report",
]

Kind = Literal["full", "partial", "top", "broker", "heartbeat", "cleared"]

RESOURCES = ("cpu", "memory", "directMemory", "bandwidthIn", "bandwidthOut")
TOTALS = ("msgRateIn", "msgRateOut", "msgThroughputIn", "msgThroughputOut")
STATS = (*TOTALS, "consumerCount", "topics", "cacheSize", "producerCount")
_COUNTS = frozenset({"consumerCount", "topics", "producerCount"})

_usage_pairs = attrgetter(*(f"{r}.{part}" for r in RESOURCES for part in ("usage", "limit")))
_total_values = attrgetter(*TOTALS)
_stat_values = attrgetter(*STATS)

_LOCAL = msgspec.json.Decoder(LocalBrokerData)
_BROKER = msgspec.json.Decoder(BrokerLoadData)
_TOP = msgspec.json.Decoder(TopBundlesLoadData)
_OURS: msgspec.json.Decoder[LoadReport | Heartbeat] = msgspec.json.Decoder(LoadReport | Heartbeat)
_ANY = msgspec.json.Decoder()


def _no_stats() -> NDArray[np.float64]:
    return np.empty((0, 7))


@dataclass(frozen=True, slots=True)
class Report:
    """One load report in the core's form.

    kind: full = all bundles of the broker; partial = usage, totals and some bundles (ours); top =
    some bundles only (Pulsar's); broker = usage only; heartbeat; cleared = Pulsar forgot the
    broker's data (a tombstone, or a record that was never updated).
    """

    kind: Kind
    broker: str
    sequence: int = 0  # 0 if the format has none; else grows with every report of the broker
    usage: tuple[float, ...] | None = None  # (usage, limit) of `RESOURCES` in turn
    totals: tuple[float, float, float, float] | None = None  # `TOTALS` of the whole broker
    bundle_names: list[str] = field(default_factory=list)
    # [n, 7]: `TOTALS`, consumers + producers, topics, cacheSize (bytes)
    bundle_stats: NDArray[np.float64] = field(default_factory=_no_stats)
    topic_hashes: dict[str, list[int]] = field(default_factory=dict)
    topic_loads: dict[str, TopicLoads] = field(default_factory=dict)  # of some with topic_hashes
    topics: int | None = None  # of the whole broker, where a partial report says so
    zone: str | None = None
    version: str | None = None
    serves: tuple[bool, bool] = (True, True)  # persistent topics, non-persistent ones
    status: BrokerStatus = "up"
    transport: TransportHealth = "stable"


def decode_report(
    value: bytes | None, broker_of_key: str, cluster: str, limits: WireLimits
) -> Report:
    """The report of one record; raises only `WireError`.

    `broker_of_key` is the broker part of the record's key; Pulsar's formats name no broker
    themselves. Ours must name the same cluster and broker as the key (`key_mismatch`).
    """
    if value is None:
        return Report("cleared", broker_of_key)
    if b'"reportType"' in value:
        ours = _decode(_OURS, value, limits)
        if isinstance(ours, Heartbeat):
            return _of_heartbeat(ours, broker_of_key, cluster, limits)
        return _of_load_report(ours, broker_of_key, cluster, limits)
    if b'"lastStats"' in value or b'"loadReportType"' in value:
        return _of_local(_decode(_LOCAL, value, limits), broker_of_key, limits)
    if b'"topBundlesLoadData"' in value:
        return _of_top(_decode(_TOP, value, limits), broker_of_key, limits)
    if b'"updatedAt"' in value or b'"maxResourceUsage"' in value:
        return _of_broker(_decode(_BROKER, value, limits), broker_of_key, limits)
    decode_struct(_ANY, value, limits)
    raise WireError("unknown_format", None, "no load report of a format known here")


def encode_load_report(report: LoadReport) -> bytes:
    """JSON of our load report; members that have their default are left out."""
    return msgspec.json.encode(report)


def encode_heartbeat(heartbeat: Heartbeat) -> bytes:
    """JSON of a heartbeat."""
    return msgspec.json.encode(heartbeat)


def _of_heartbeat(data: Heartbeat, broker: str, cluster: str, limits: WireLimits) -> Report:
    _check_key(data, broker, cluster, limits)
    return Report("heartbeat", broker, data.sequence, status=data.status, transport=data.transport)


def _of_load_report(data: LoadReport, broker: str, cluster: str, limits: WireLimits) -> Report:
    _check_key(data, broker, cluster, limits)
    _check_text("zone", data.zone, limits)
    _check_text("brokerVersion", data.brokerVersion, limits)
    usage = _checked_usage(data, limits)
    names = list(data.bundles)
    stats = _stats_array(data.bundles.values(), names, "bundles[{}]", limits)
    hashes, loads = checked_topics(data.bundles, limits)
    return Report(
        kind="full" if data.full else "partial",
        broker=broker,
        sequence=data.sequence,
        usage=usage,
        totals=_sums(stats) if data.full else _said_totals(data, limits),
        bundle_names=names,
        bundle_stats=stats,
        topic_hashes=hashes,
        topic_loads=loads,
        topics=None if data.full else data.topics,
        zone=data.zone,
        version=data.brokerVersion,
        serves=(data.persistentTopicsEnabled, data.nonPersistentTopicsEnabled),
        status=data.status,
        transport=data.transport,
    )


def _of_local(data: LocalBrokerData, broker: str, limits: WireLimits) -> Report:
    _check_text("brokerVersionString", data.brokerVersionString, limits)
    names = list(data.lastStats)
    return Report(
        kind="full",
        broker=broker,
        sequence=data.lastUpdate,
        usage=_checked_usage(data, limits),
        totals=_checked_totals(data, limits),
        bundle_names=names,
        bundle_stats=_stats_array(data.lastStats.values(), names, "lastStats[{}]", limits),
        version=data.brokerVersionString,
        serves=(data.persistentTopicsEnabled, data.nonPersistentTopicsEnabled),
    )


def _of_broker(data: BrokerLoadData, broker: str, limits: WireLimits) -> Report:
    usage, totals = _checked_usage(data, limits), _checked_totals(data, limits)
    if data.updatedAt == 0:
        # Never measured: all zeros, which would make the broker look idle.
        return Report("cleared", broker)
    return Report("broker", broker, data.updatedAt, usage, totals)


def _of_top(data: TopBundlesLoadData, broker: str, limits: WireLimits) -> Report:
    names = [bundle.bundleName for bundle in data.topBundlesLoadData]
    if len(set(names)) < len(names):
        raise WireError("absurd_value", "topBundlesLoadData", "a bundle is named twice")
    rows = [bundle.stats for bundle in data.topBundlesLoadData]
    stats = _stats_array(rows, names, "topBundlesLoadData[{}].stats", limits)
    return Report("top", broker, bundle_names=names, bundle_stats=stats)


def _check_key(data: LoadReport | Heartbeat, broker: str, cluster: str, limits: WireLimits) -> None:
    for name, said, expected in (
        ("cluster", data.cluster, cluster),
        ("broker", data.broker, broker),
    ):
        _check_text(name, said, limits)
        if said != expected:
            detail = f"the record says {said!r}, its key says {expected!r}"
            raise WireError("key_mismatch", name, detail)


def _check_text(name: str, text: str | None, limits: WireLimits) -> None:
    if text is not None and len(text) > limits.text_max:
        detail = f"{len(text)} characters; allowed are {limits.text_max}"
        raise WireError("absurd_value", name, detail)


def _checked_usage(
    data: LocalBrokerData | BrokerLoadData | LoadReport, limits: WireLimits
) -> tuple[float, ...]:
    usage: tuple[float, ...] = _usage_pairs(data)
    if -1 in usage and not isinstance(data, LoadReport):
        usage = _without_unmeasured(usage)
    if min(usage) < 0 or max(usage) > limits.value_max:
        paths = [f"{r}.{part}" for r in RESOURCES for part in ("usage", "limit")]
        _blame_number(paths, usage, limits.value_max)
    return usage


def _without_unmeasured(usage: tuple[float, ...]) -> tuple[float, ...]:
    """Zeros where Pulsar says usage -1, limit -1: a resource not measured yet, 0 % there too."""
    pairs = zip(usage[::2], usage[1::2], strict=True)
    return tuple(chain.from_iterable((0.0, 0.0) if p == (-1, -1) else p for p in pairs))


def _said_totals(data: LoadReport, limits: WireLimits) -> tuple[float, float, float, float] | None:
    """Totals of a partial report; one that gives some of the four gives too little."""
    given = [getattr(data, name) is not None for name in TOTALS]
    if any(given) and not all(given):
        name = TOTALS[given.index(False)]
        raise WireError("missing_field", name, f"other totals are given, {name} is missing")
    return _checked_totals(data, limits) if all(given) else None


def _checked_totals(
    data: LocalBrokerData | BrokerLoadData | LoadReport, limits: WireLimits
) -> tuple[float, float, float, float]:
    totals: tuple[float, float, float, float] = _total_values(data)
    if min(totals) < 0 or max(totals) > limits.value_max:
        _blame_number(TOTALS, totals, limits.value_max)
    return totals


def _sums(stats: NDArray[np.float64]) -> tuple[float, float, float, float]:
    """Totals of the bundles, summed in the order of the report."""
    rate_in, rate_out, bytes_in, bytes_out = stats[:, :4].sum(axis=0).tolist()
    return rate_in, rate_out, bytes_in, bytes_out


def _stats_array(
    rows: Collection[NamespaceBundleStats | BundleStats],
    names: Sequence[str],
    path: str,
    limits: WireLimits,
) -> NDArray[np.float64]:
    """Checked [n, 7] array of bundle figures; `path` holds `{}` where the bundle is named."""
    if len(rows) > limits.bundles_per_report_max:
        detail = f"{len(rows)} bundles; allowed are {limits.bundles_per_report_max}"
        raise WireError("too_many_bundles", path.partition("[")[0], detail)
    if not rows:
        return _no_stats()
    if max(map(len, names)) > limits.text_max:
        detail = f"a bundle name is longer than {limits.text_max} characters"
        raise WireError("bad_name", path.partition("[")[0], detail)
    maxima = [limits.count_max if name in _COUNTS else limits.value_max for name in STATS]
    try:
        flat: Iterable[Any] = chain.from_iterable(map(_stat_values, rows))
        figures = np.fromiter(flat, np.float64, len(rows) * len(STATS)).reshape(-1, len(STATS))
    except OverflowError:  # an integer of hundreds of digits
        figures = None
    # Written so that a NaN would fail too, should one ever get this far.
    if figures is None or not ((figures >= 0) & (figures <= maxima)).all():
        _blame_row(rows, names, path, maxima)
    assert figures is not None
    figures[:, 4] += figures[:, 7]
    return np.ascontiguousarray(figures[:, :7])


def _blame_row(
    rows: Iterable[NamespaceBundleStats | BundleStats],
    names: Sequence[str],
    path: str,
    maxima: Sequence[float],
) -> None:
    for at, row in enumerate(rows):
        where = path.format(at if path.startswith("top") else f'"{names[at]}"')
        for name, figure, maximum in zip(STATS, _stat_values(row), maxima, strict=True):
            _blame_number((f"{where}.{name}",), (figure,), maximum)


def _blame_number(paths: Sequence[str], numbers: Sequence[float], maximum: float) -> None:
    """Raises `WireError` for the first number that is negative or above the maximum."""
    for path, number in zip(paths, numbers, strict=True):
        if number < 0:
            raise WireError("negative", path, f"{_shown(number)} is negative")
        if number > maximum:
            raise WireError("absurd_value", path, f"{_shown(number)} is above {maximum:g}")


def _shown(number: float) -> str:
    return f"{number:.6g}" if abs(number) < 1e300 else "a number of 300 digits or more"


def _decode(decoder: msgspec.json.Decoder[Any], value: bytes, limits: WireLimits) -> Any:
    """`decode_struct`, with the bundle's name in the path of the field to blame."""
    try:
        return decode_struct(decoder, value, limits)
    except WireError as error:
        if error.field == "reportType":
            raise WireError("unknown_format", "reportType", error.detail) from None
        if error.field is None or "[...]" not in error.field:
            raise
        raise _name_bundle(error, value) from None


def _name_bundle(error: WireError, value: bytes) -> WireError:
    """The same error with `[...]` replaced by the name of the first bundle that cannot be read."""
    member = (error.field or "").partition("[")[0]
    row_type = NamespaceBundleStats if member == "lastStats" else BundleStats
    decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(row_type)
    try:
        document = msgspec.json.decode(value, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):  # broken further on than the field to blame
        return explain_malformed(value)
    rows = msgspec.json.decode(document[member], type=dict[str, msgspec.Raw])
    for name, row in rows.items():
        try:
            decoder.decode(row)
        except msgspec.ValidationError as again:
            inner = blame(again)
            path = f'{member}["{name}"]'
            field = f"{path}.{inner.field}" if inner.field else path
            return WireError(inner.reason, field, inner.detail)
    return error
