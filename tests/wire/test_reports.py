"""Load reports: all formats, every reason to reject one, and hostile bytes."""

from __future__ import annotations

import copy
import json
import math
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.wire.limits import DEFAULT_LIMITS, WireLimits
from controller.wire.rejects import REASONS, WireError
from controller.wire.reports import (
    BundleStats,
    Heartbeat,
    LoadReport,
    Report,
    ResourceUsage,
    decode_report,
    encode_heartbeat,
    encode_load_report,
)
from tests.wire import report_builders as build

FORMATS = {
    "local": build.local_broker_data,
    "broker": build.broker_load_data,
    "top": build.top_bundles_load_data,
    "ours": build.load_report,
    "loaded": build.load_report_with_topics,
    "partial": build.partial_report,
    "heartbeat": build.heartbeat,
}
B0 = build.bundle_name(0)


def decode(document: Any, limits: WireLimits = DEFAULT_LIMITS) -> Report:
    value = document if isinstance(document, bytes) else json.dumps(document).encode()
    return decode_report(value, "b1", "c1", limits)


def why(document: Any, limits: WireLimits = DEFAULT_LIMITS) -> tuple[str, str | None]:
    with pytest.raises(WireError) as caught:
        decode(document, limits)
    assert caught.value.detail
    return caught.value.reason, caught.value.field


def changed(document: dict[str, Any], path: list[Any], value: Any) -> dict[str, Any]:
    result = copy.deepcopy(document)
    node = result
    for key in path[:-1]:
        node = node[key]
    if value is DELETE:
        del node[path[-1]]
    else:
        node[path[-1]] = value
    return result


DELETE = object()


def test_our_load_report() -> None:
    report = decode(build.load_report(3))
    assert (report.kind, report.broker, report.sequence) == ("full", "b1", 7)
    assert (report.zone, report.version) == ("z1", "0.1.0")
    assert report.usage == (10.0, 100.0, 11.0, 100.0, 12.0, 100.0, 13.0, 100.0, 14.0, 100.0)
    assert report.totals == (31.5, 61.5, 3000.75, 6000.75)
    assert report.bundle_names == [build.bundle_name(at) for at in range(3)]
    assert report.bundle_stats.tolist()[1] == [10.5, 20.5, 1000.25, 2000.25, 5.0, 4.0, 5.0]
    assert report.bundle_stats.dtype == np.float64
    assert report.topic_hashes[B0] == [5, 4_000_000_000]


def test_a_report_of_the_largest_bundles_says_the_totals_itself() -> None:
    report = decode(build.partial_report())
    assert (report.kind, report.totals, report.topics) == ("partial", (100, 101, 102, 103), 12)
    assert report.usage is not None
    assert len(report.bundle_names) == 2


def test_a_report_of_the_largest_bundles_may_lack_the_totals() -> None:
    report = decode(build.load_report(full=False))
    assert (report.kind, report.totals, report.topics) == ("partial", None, None)
    assert report.usage is not None


def test_totals_of_a_full_report_are_those_of_its_bundles() -> None:
    report = decode({**build.partial_report(), "full": True})
    assert (report.kind, report.topics) == ("full", None)
    assert report.totals == decode(build.load_report()).totals


def test_loads_of_topics_stand_beside_their_hashes() -> None:
    document = changed(build.load_report(), ["bundles", B0, "topicRates"], [0.5, 0])
    document = changed(document, ["bundles", B0, "topicThroughputs"], [100, 0.0])
    report = decode(document)
    assert set(report.topic_hashes) == {B0, build.bundle_name(1)}
    assert list(report.topic_loads) == [B0]
    loads = report.topic_loads[B0]
    assert (loads.hashes.dtype, loads.rates.dtype) == (np.int64, np.float64)
    assert loads.hashes.tolist() == report.topic_hashes[B0] == [5, 4_000_000_000]
    assert (loads.rates.tolist(), loads.throughputs.tolist()) == ([0.5, 0.0], [100.0, 0.0])


def test_totals_do_not_depend_on_the_order_of_bundles() -> None:
    document = build.load_report(40)
    names = list(document["bundles"])
    for at, name in enumerate(names):
        document["bundles"][name]["msgRateIn"] = 0.1 * 3.0 ** (at % 30)
    turned = {**document, "bundles": {n: document["bundles"][n] for n in reversed(names)}}
    assert decode(document).totals == decode(turned).totals


def test_heartbeat_and_tombstone() -> None:
    assert decode(build.heartbeat()).kind == "heartbeat"
    assert decode(build.heartbeat()).sequence == 8
    cleared = decode_report(None, "b1", "c1", DEFAULT_LIMITS)
    assert (cleared.kind, cleared.sequence, cleared.usage) == ("cleared", 0, None)


def test_bundles_listed_without_figures_are_ignored() -> None:
    assert decode(build.local_broker_data()).bundle_names == [
        build.bundle_name(0),
        build.bundle_name(1),
    ]


def test_brokers_without_bundles() -> None:
    for document in (build.local_broker_data(0), build.load_report(0), {"topBundlesLoadData": []}):
        report = decode(document)
        assert report.bundle_stats.shape == (0, 7)
        assert report.bundle_names == []
    assert decode(build.load_report(0)).totals == (0.0, 0.0, 0.0, 0.0)


def test_unmeasured_brokers_do_not_look_idle() -> None:
    zeros = {name: {"usage": 0.0, "limit": 0.0} for name in build.usages()}
    document = {**build.broker_load_data(), **zeros, "updatedAt": 0, "maxResourceUsage": 1.0}
    assert decode(document).kind == "cleared"


def test_pulsars_minus_one_means_not_measured() -> None:
    minus = {"usage": -1.0, "limit": -1.0}
    usage = decode({**build.local_broker_data(), "bandwidthIn": minus}).usage
    assert usage is not None
    assert usage[6:8] == (0.0, 0.0)
    assert why({**build.load_report(), "bandwidthIn": minus}) == ("negative", "bandwidthIn.usage")
    half = {"usage": -1.0, "limit": 5.0}
    assert why({**build.broker_load_data(), "cpu": half}) == ("negative", "cpu.usage")


def test_encoders_write_what_the_decoder_reads() -> None:
    usage = ResourceUsage(1.0, 2.0)
    written = LoadReport(
        cluster="c1", broker="b1", sequence=3, timestamp=4, full=True, cpu=usage, memory=usage,
        directMemory=usage, bandwidthIn=usage, bandwidthOut=usage,
        bundles={B0: BundleStats(
            msgRateIn=1.0, msgThroughputIn=2.0, msgRateOut=3.0, msgThroughputOut=4.0, topics=5
        )},
    )  # fmt: skip
    report = decode(encode_load_report(written))
    assert report.bundle_stats.tolist() == [[1.0, 3.0, 2.0, 4.0, 0.0, 5.0, 0.0]]
    beat = Heartbeat(cluster="c1", broker="b1", sequence=3, timestamp=4)
    assert decode(encode_heartbeat(beat)).kind == "heartbeat"
    assert msgspec.json.decode(encode_heartbeat(beat))["reportType"] == "Heartbeat"


LOCAL, OURS = build.local_broker_data(), build.load_report()
PARTIAL, LOADED = build.partial_report(), build.load_report_with_topics()
ROW = f'lastStats["{B0}"]'


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (changed(LOCAL, ["lastStats", B0, "msgRateIn"], DELETE), ("missing_field", "msgRateIn")),
        (changed(LOCAL, ["lastStats", B0, "topics"], DELETE), ("missing_field", "topics")),
        (changed(LOCAL, ["lastStats", B0, "topics"], 1.5), ("wrong_type", "topics")),
        (changed(LOCAL, ["lastStats", B0, "topics"], "4"), ("wrong_type", "topics")),
        (changed(LOCAL, ["lastStats", B0, "msgRateOut"], None), ("wrong_type", "msgRateOut")),
        (changed(LOCAL, ["lastStats", B0, "msgRateOut"], -0.5), ("negative", "msgRateOut")),
        (changed(LOCAL, ["lastStats", B0, "topics"], -1), ("negative", "topics")),
        (changed(LOCAL, ["lastStats", B0, "producerCount"], -3), ("negative", "producerCount")),
        (changed(LOCAL, ["lastStats", B0, "msgRateIn"], 1e16), ("absurd_value", "msgRateIn")),
        (changed(LOCAL, ["lastStats", B0, "topics"], 10**8), ("absurd_value", "topics")),
        (changed(LOCAL, ["lastStats", B0, "topics"], 10**400), ("absurd_value", "topics")),
        (changed(LOCAL, ["lastStats", B0, "topics"], -(10**400)), ("negative", "topics")),
        (changed(LOCAL, ["lastStats", B0, "msgRateIn"], 10**400), ("not_finite", "msgRateIn")),
        (changed(LOCAL, ["lastStats", B0, "msgRateIn"], math.nan), ("not_finite", "msgRateIn")),
        (changed(LOCAL, ["lastStats", B0, "msgRateIn"], math.inf), ("not_finite", "msgRateIn")),
        (changed(LOCAL, ["lastStats", B0, "msgRateIn"], -math.inf), ("not_finite", "msgRateIn")),
    ],
)
def test_the_bundle_and_its_field_are_named(document: Any, expected: tuple[str, str]) -> None:
    reason, field = expected
    assert why(document) == (reason, f"{ROW}.{field}")


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (changed(LOCAL, ["lastStats", B0], 3), ("wrong_type", ROW)),
        (changed(LOCAL, ["lastStats"], DELETE), ("missing_field", "lastStats")),
        (changed(LOCAL, ["lastStats"], []), ("wrong_type", "lastStats")),
        (changed(LOCAL, ["cpu", "limit"], DELETE), ("missing_field", "cpu.limit")),
        (changed(LOCAL, ["cpu", "usage"], -2.0), ("negative", "cpu.usage")),
        (changed(LOCAL, ["cpu", "usage"], 1e300), ("absurd_value", "cpu.usage")),
        (changed(LOCAL, ["msgRateOut"], -2.0), ("negative", "msgRateOut")),
        (changed(LOCAL, ["lastUpdate"], -2), ("negative", "lastUpdate")),
        (changed(LOCAL, ["lastUpdate"], 10**30), ("absurd_value", "lastUpdate")),
        (changed(LOCAL, ["lastUpdate"], 10**30 + 0.5), ("wrong_type", "lastUpdate")),
        (changed(LOCAL, ["brokerVersionString"], "x" * 2000),
         ("absurd_value", "brokerVersionString")),
        (changed(LOCAL, ["lastStats", "x" * 2000], build.stats()), ("bad_name", "lastStats")),
        (changed(OURS, ["cluster"], "c2"), ("key_mismatch", "cluster")),
        (changed(OURS, ["broker"], "b2"), ("key_mismatch", "broker")),
        (changed(OURS, ["reportType"], "Other"), ("unknown_format", "reportType")),
        (changed(OURS, ["reportType"], 5), ("unknown_format", "reportType")),
        (changed(OURS, ["zone"], "z" * 2000), ("absurd_value", "zone")),
        (changed(OURS, ["full"], 1), ("wrong_type", "full")),
        (changed(OURS, ["sequence"], DELETE), ("missing_field", "sequence")),
        (changed(OURS, ["bundles", B0, "topicHashes"], [2**32]),
         ("absurd_value", f'bundles["{B0}"].topicHashes[0]')),
        (changed(OURS, ["bundles", B0, "topicHashes"], [1, -1]),
         ("negative", f'bundles["{B0}"].topicHashes[1]')),
        (changed(OURS, ["bundles", B0, "topicHashes"], [1] * 20_001),
         ("absurd_value", f'bundles["{B0}"].topicHashes')),
        (changed(LOADED, ["bundles", B0, "topicRates"], [1.0]),
         ("absurd_value", f'bundles["{B0}"].topicRates')),
        (changed(LOADED, ["bundles", B0, "topicThroughputs"], [1.0, 2.0, 3.0]),
         ("absurd_value", f'bundles["{B0}"].topicThroughputs')),
        (changed(LOADED, ["bundles", B0, "topicRates"], [1.0, -0.5]),
         ("negative", f'bundles["{B0}"].topicRates[1]')),
        (changed(LOADED, ["bundles", B0, "topicThroughputs"], [1e16, 0]),
         ("absurd_value", f'bundles["{B0}"].topicThroughputs[0]')),
        (changed(LOADED, ["bundles", B0, "topicRates"], [1.0, math.nan]),
         ("not_finite", f'bundles["{B0}"].topicRates[1]')),
        (changed(LOADED, ["bundles", B0, "topicRates"], [1.0, "x"]),
         ("wrong_type", f'bundles["{B0}"].topicRates[1]')),
        (changed(LOADED, ["bundles", B0, "topicRates"], DELETE),
         ("missing_field", f'bundles["{B0}"].topicRates')),
        (changed(LOADED, ["bundles", B0, "topicThroughputs"], None),
         ("missing_field", f'bundles["{B0}"].topicThroughputs')),
        (changed(LOADED, ["bundles", B0, "topicHashes"], DELETE),
         ("missing_field", f'bundles["{B0}"].topicHashes')),
        (changed(PARTIAL, ["msgRateOut"], DELETE), ("missing_field", "msgRateOut")),
        (changed(PARTIAL, ["msgRateOut"], -1.0), ("negative", "msgRateOut")),
        (changed(PARTIAL, ["msgThroughputIn"], 1e16), ("absurd_value", "msgThroughputIn")),
        (changed(PARTIAL, ["topics"], -1), ("negative", "topics")),
        (changed(OURS, ["bundles", "plain"], {}), ("missing_field", 'bundles["plain"].msgRateIn')),
        (changed(build.top_bundles_load_data(), ["topBundlesLoadData", 1, "stats", "topics"], -1),
         ("negative", "topBundlesLoadData[1].stats.topics")),
        (changed(build.top_bundles_load_data(), ["topBundlesLoadData", 1, "stats", "topics"], "x"),
         ("wrong_type", "topBundlesLoadData[1].stats.topics")),
        (changed(build.top_bundles_load_data(), ["topBundlesLoadData", 1, "bundleName"], B0),
         ("absurd_value", "topBundlesLoadData")),
        (changed(build.broker_load_data(), ["updatedAt"], DELETE), ("missing_field", "updatedAt")),
        ({"hello": 1}, ("unknown_format", None)),
        ([], ("unknown_format", None)),
        (b"", ("malformed_json", None)),
        (b'{"lastStats":', ("malformed_json", None)),
        (b'{"lastStats": {"a": 3}, "x"', ("malformed_json", None)),
        (b'\xef\xbb\xbf{"lastStats": {}}', ("malformed_json", None)),
        (b'{"lastStats": {"\\ud800": {}}}', ("malformed_json", None)),
        (b'{"lastStats": {}, "x": "\xff"}', ("not_utf8", None)),
        (b'{"lastStats": {}, "x": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
         ("malformed_json", None)),
        (b'{"lastStats": {}, "cpu": {"usage": 1e999}}', ("not_finite", "cpu.usage")),
        (b'{"x": [1, NaN], "lastStats": {}}', ("not_finite", "x[1]")),
        (b" " * 2_000_000, ("oversized", None)),
    ],
)  # fmt: skip
def test_every_reason_to_reject(document: Any, expected: tuple[str, str | None]) -> None:
    assert why(document) == expected


def test_limits_are_the_callers() -> None:
    limits = WireLimits(bundles_per_report_max=2, value_max=100.0, text_max=40)
    assert why(build.load_report(3), limits) == ("too_many_bundles", "bundles")
    assert why(build.local_broker_data(3), limits)[0] == "absurd_value"
    assert decode(build.top_bundles_load_data(1), limits).kind == "top"
    size = len(json.dumps(build.heartbeat()))
    assert decode(build.heartbeat(), WireLimits(record_bytes_max=size)).kind == "heartbeat"
    assert why(build.heartbeat(), WireLimits(record_bytes_max=size - 1)) == ("oversized", None)


# --------------------------------------------------------------------------- hostile records

NASTY = st.sampled_from(
    [
        None, True, -1, -0.5, 10**20, 10**400, 1e308, math.nan, math.inf, -math.inf, "", "x",
        "\ud800", [], {}, [[]], {"a": 1}, {"usage": 1}, 2**63, -(2**63), 1.5,
    ]
)  # fmt: skip


def paths_in(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    children: list[Any] = []
    if isinstance(node, dict):
        children = list(node.items())
    elif isinstance(node, list):
        children = list(enumerate(node))
    found = [path] if path else []
    for key, child in children:
        found += paths_in(child, (*path, key))
    return found


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A report of some format with one to three members deleted or replaced, then cut or bent."""
    document = FORMATS[draw(st.sampled_from(sorted(FORMATS)))]()
    for _ in range(draw(st.integers(0, 3))):
        paths = paths_in(document)
        if not paths:
            break
        path = list(draw(st.sampled_from(paths)))
        value = DELETE if draw(st.booleans()) else draw(NASTY)
        document = changed(document, path, value)
    value = json.dumps(document).encode()
    match draw(st.integers(0, 4)):
        case 0:
            value = value[: draw(st.integers(0, len(value)))]
        case 1:
            at = draw(st.integers(0, len(value)))
            value = value[:at] + draw(st.binary(min_size=1, max_size=3)) + value[at + 1 :]
        case 2:
            value = value.replace(b"10.5", draw(st.sampled_from([b"1e999", b"NaN", b"-1e5"])))
    return value


@given(mutated())
@settings(print_blob=True, deadline=None, max_examples=1_000)
def test_hostile_records_give_a_report_or_a_wire_error(value: bytes) -> None:
    try:
        report = decode(value)
    except WireError as error:
        assert error.reason in REASONS
        assert error.detail
        if error.reason in {"missing_field", "negative", "key_mismatch", "too_many_bundles"}:
            assert error.field
        return
    assert np.isfinite(report.bundle_stats).all()
    assert (report.bundle_stats >= 0).all()
    assert report.bundle_stats.shape == (len(report.bundle_names), 7)
    assert report.usage is None or all(0 <= u <= DEFAULT_LIMITS.value_max for u in report.usage)
    assert report.totals is None or all(0 <= t < math.inf for t in report.totals)
    for name, loads in report.topic_loads.items():
        assert len(loads.hashes) == len(loads.rates) == len(loads.throughputs)
        assert loads.hashes.tolist() == report.topic_hashes[name]
        assert ((loads.rates >= 0) & (loads.throughputs >= 0)).all()
    assert report.broker == "b1"
    for name in report.bundle_names:
        name.encode()


@given(st.binary(max_size=200))
@settings(print_blob=True, deadline=None)
def test_any_bytes_give_a_report_or_a_wire_error(value: bytes) -> None:
    for member in (b"lastStats", b"reportType", b"topBundlesLoadData", b"updatedAt", b""):
        start = b'{"%s":' % member if member else b""
        try:
            decode(start + value)
        except WireError as error:
            assert error.reason in REASONS
