"""Every message of a real cluster is read, and nothing of it is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from controller.model.bundles import split_name
from controller.wire.channel import decode_channel, encode_channel
from controller.wire.limits import DEFAULT_LIMITS
from controller.wire.reports import decode_report

SAMPLES = Path(__file__).parents[1] / "samples"


def messages(name: str) -> list[dict[str, Any]]:
    lines = (SAMPLES / "extensible" / name).read_text().splitlines()
    return [json.loads(line) for line in lines]


def value_of(message: dict[str, Any]) -> bytes | None:
    value = message["value"]
    return None if value is None else json.dumps(value).encode()


def usage_of(data: dict[str, Any]) -> tuple[float, ...]:
    names = ("cpu", "memory", "directMemory", "bandwidthIn", "bandwidthOut")
    return tuple(data[name][part] for name in names for part in ("usage", "limit"))


def totals_of(data: dict[str, Any]) -> tuple[float, ...]:
    return tuple(
        data[n] for n in ("msgRateIn", "msgRateOut", "msgThroughputIn", "msgThroughputOut")
    )


def row_of(stats: dict[str, Any]) -> list[float]:
    clients = stats["consumerCount"] + stats["producerCount"]
    return [*totals_of(stats), clients, stats["topics"], stats["cacheSize"]]


@pytest.mark.parametrize("path", sorted((SAMPLES / "modular").glob("load-report-*.json")))
def test_local_broker_data(path: Path) -> None:
    data = json.loads(path.read_text())
    report = decode_report(path.read_bytes(), "127.0.0.1:18080", "lab", DEFAULT_LIMITS)
    assert (report.kind, report.broker) == ("full", "127.0.0.1:18080")
    assert report.sequence == data["lastUpdate"]
    assert report.version == data["brokerVersionString"]
    assert report.usage == usage_of(data)
    assert report.totals == totals_of(data)
    assert report.bundle_names == list(data["lastStats"])
    assert report.bundle_stats.tolist() == [row_of(s) for s in data["lastStats"].values()]
    for name in report.bundle_names:
        split_name(name)


def test_broker_load_data() -> None:
    kinds = set()
    for message in messages("broker.jsonl"):
        report = decode_report(value_of(message), message["key"], "lab", DEFAULT_LIMITS)
        kinds.add(report.kind)
        assert report.broker == message["key"]
        if message["value"] is None:
            assert report.kind == "cleared"
            continue
        assert report.kind == "broker"
        assert report.usage == usage_of(message["value"])
        assert report.totals == totals_of(message["value"])
        assert report.sequence == message["value"]["updatedAt"]
    assert kinds == {"broker", "cleared"}


def test_top_bundles_load_data() -> None:
    bundles = 0
    for message in messages("bundles.jsonl"):
        report = decode_report(value_of(message), message["key"], "lab", DEFAULT_LIMITS)
        if message["value"] is None:
            assert report.kind == "cleared"
            continue
        entries = message["value"]["topBundlesLoadData"]
        assert (report.kind, report.usage, report.totals) == ("top", None, None)
        assert report.bundle_names == [e["bundleName"] for e in entries]
        assert report.bundle_stats.tolist() == [row_of(e["stats"]) for e in entries]
        bundles += len(entries)
    assert bundles > 50


def test_channel_records_are_written_as_they_were_read() -> None:
    for message in messages("state.jsonl"):
        data = decode_channel(value_of(message))
        if message["value"] is None:
            assert data is None
        else:
            assert data is not None
            assert json.loads(encode_channel(data)) == message["value"]
