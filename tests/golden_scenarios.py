"""Reads golden scenarios of Pulsar's own classes (tests/golden/pulsar/README.md), and judges.

Sets are compared as sets, numbers with a relative and absolute tolerance of 1e-9 (sums of floats
depend on the order of Pulsar's maps); the last digit of a spread after moves only to 1e-8.
"""

from __future__ import annotations

import copy
import gzip
import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "golden" / "pulsar"
NOT_CARRIED_OVER = ("activeBrokers", "select", "repeat", "report")
TOLERANCE = 1e-9
LOOSE = {"stdAfter": 1e-8}
Json = dict[str, Any]


def load(name: str) -> list[Json]:
    """Lines `{"in": scenario, "out": answer}` of one class."""
    with gzip.open(FOLDER / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def ticks(scenario: Json) -> list[Json]:
    """One complete input per output tick: carry-over, `xPatch` and `repeat` applied."""
    current: Json = {}
    out = []
    for tick in scenario["ticks"]:
        for name in NOT_CARRIED_OVER:
            current.pop(name, None)
        for name, value in tick.items():
            if name.endswith("Patch"):
                _merge(current.setdefault(name.removesuffix("Patch"), {}), value)
            else:
                current[name] = copy.deepcopy(value)
        out += [copy.deepcopy(current) for _ in range(current.get("repeat", 1))]
    return out


def differing(golden: Json, answer: Json) -> list[str]:
    """Members of a golden tick that an answer does not have, or has otherwise."""
    return [
        name
        for name, value in golden.items()
        if name not in answer or not _same(_in_order(name, value), _in_order(name, answer[name]))
    ]


def _in_order(name: str, value: Any) -> Any:
    if name == "decisions":
        return sorted(value, key=lambda d: (d["from"] or "", d["bundle"], d.get("rank", -1)))
    if name in ("best", "recentlyUnloadedBrokersLeft"):
        return sorted(value)
    return value


def _same(a: Any, b: Any, tolerance: float = TOLERANCE) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[k], b[k], LOOSE.get(k, tolerance)) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, bool) or isinstance(b, bool) or not isinstance(a, int | float):
        return bool(a == b)
    if not isinstance(b, int | float):
        return False
    return abs(a - b) <= tolerance + tolerance * max(abs(a), abs(b))


def _merge(into: Json, patch: Json) -> None:
    for name, value in patch.items():
        if value is None:
            into.pop(name, None)
        elif isinstance(value, dict) and isinstance(into.get(name), dict):
            _merge(into[name], value)
        else:
            into[name] = copy.deepcopy(value)
