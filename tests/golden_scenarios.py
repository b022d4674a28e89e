"""Reads golden scenarios of Pulsar's own classes (tests/golden/pulsar/README.md)."""

from __future__ import annotations

import copy
import gzip
import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "golden" / "pulsar"
NOT_CARRIED_OVER = ("activeBrokers", "select", "repeat", "report")
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


def _merge(into: Json, patch: Json) -> None:
    for name, value in patch.items():
        if value is None:
            into.pop(name, None)
        elif isinstance(value, dict) and isinstance(into.get(name), dict):
            _merge(into[name], value)
        else:
            into[name] = copy.deepcopy(value)
