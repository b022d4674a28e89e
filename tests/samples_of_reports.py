"""Good load reports of every format, and ways to spoil them."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Sequence
from typing import Any

from tests.world import CLUSTER, bundle_names

Json = dict[str, Any]
NAMES = bundle_names("t/n", 8)


def _usage() -> Json:
    return {"usage": 40.0, "limit": 100.0}


def _stats() -> Json:
    return {
        "msgRateIn": 100.0,
        "msgRateOut": 100.0,
        "msgThroughputIn": 10_000.0,
        "msgThroughputOut": 10_000.0,
        "consumerCount": 3,
        "producerCount": 2,
        "topics": 4,
        "cacheSize": 0,
    }


def _resources() -> Json:
    return {
        name: _usage() for name in ("cpu", "memory", "directMemory", "bandwidthIn", "bandwidthOut")
    }


def ours(broker: str, sequence: int, ms: int, bundles: Sequence[str] = NAMES) -> Json:
    return {
        "reportType": "LoadReport",
        "cluster": CLUSTER,
        "broker": broker,
        "sequence": sequence,
        "timestamp": ms,
        "full": True,
        **_resources(),
        "bundles": {name: _stats() for name in bundles},
    }


def local_broker_data(ms: int) -> Json:
    return {
        **_resources(),
        "msgRateIn": 1.0,
        "msgRateOut": 1.0,
        "msgThroughputIn": 1.0,
        "msgThroughputOut": 1.0,
        "lastUpdate": ms,
        "lastStats": {name: _stats() for name in NAMES},
        "bundles": NAMES,
        "loadReportType": "LocalBrokerData",
    }


def broker_load_data(ms: int) -> Json:
    return {
        **_resources(),
        "msgRateIn": 1.0,
        "msgRateOut": 1.0,
        "msgThroughputIn": 1.0,
        "msgThroughputOut": 1.0,
        "bundleCount": 8,
        "topics": 32,
        "maxResourceUsage": 0.4,
        "weightedMaxEMA": 0.4,
        "msgThroughputEMA": 2.0,
        "updatedAt": ms,
        "reportedAt": ms,
    }


def top_bundles() -> Json:
    return {"topBundlesLoadData": [{"bundleName": n, "stats": _stats()} for n in NAMES]}


def good_report(broker: str, sequence: int, ms: int, bundles: Sequence[str] = NAMES) -> bytes:
    return json.dumps(ours(broker, sequence, ms, bundles)).encode()


def mutated(rng: random.Random, number: int) -> tuple[str | None, bytes | None]:
    """(key, value) of a report that was spoiled in one to three ways."""
    broker = f"bad-{rng.randrange(5)}"
    key: str | None = f"{CLUSTER}/{broker}"
    report = rng.choice(
        (
            ours(broker, number + 1, 1),
            local_broker_data(number + 1),
            broker_load_data(1),
            top_bundles(),
        )
    )
    if rng.random() < 0.05:
        key = rng.choice((None, "", "/", f"{CLUSTER}/", "other/x", "x" * 5_000))
    return key, spoiled(rng, report)


def spoiled(rng: random.Random, document: Json) -> bytes | None:
    """JSON of a document with one to three members bent, and now and then the bytes, too."""
    for _ in range(rng.randrange(1, 4)):
        _spoil(rng, document)
    value = json.dumps(document).encode()
    return rng.choice(_BYTES)(rng, value) if rng.random() < 0.25 else value


def _spoil(rng: random.Random, node: Any) -> None:
    """Walks to a random member and replaces, removes, renames or adds."""
    while True:
        if isinstance(node, list):
            node = rng.choice(node) if node else None
            continue
        if not isinstance(node, dict) or not node:
            return
        name = rng.choice(sorted(node))
        child = node[name]
        if isinstance(child, dict | list) and rng.random() < 0.7:
            node = child
            continue
        action = rng.randrange(4)
        if action == 0:
            del node[name]
        elif action == 1:
            node[rng.choice(("", "x" * 3_000, "t/n/0x0_0x1", "\ud800", name + " "))] = node.pop(
                name
            )
        else:
            node[name] = copy.deepcopy(rng.choice(_VALUES))  # or it is put into itself one day
        return


_VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    -0.5,
    1e300,
    10**400,
    float("nan"),
    float("inf"),
    "12",
    "",
    [],
    {},
    [1],
    {"a": 1},
    2**63,
    -(2**63) - 1,
    "\ud800",
    "x" * 10_000,
    0,
    1e16,
)

_BYTES: tuple[Callable[[random.Random, bytes], bytes | None], ...] = (
    lambda rng, v: v[: rng.randrange(len(v))],
    lambda rng, v: v[:50] + bytes([rng.randrange(256) for _ in range(5)]) + v[50:],
    lambda rng, v: b"\xff\xfe" + v,
    lambda rng, v: v.replace(b"{", b"[", 1),
    lambda rng, v: b"[" * 5_000,
    lambda rng, v: b"",
    lambda rng, v: v + b" " * 2_000_000,
    lambda rng, v: b"null",
    lambda rng, v: None,
    lambda rng, v: v + v,
)
