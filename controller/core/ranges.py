"""Which values a key under [balance] may have: by its name if it is special, else by its unit.

The same rules hold for the file (`controller.config`, which adds those of its other tables) and for
keys that are set while the job runs (`controller.core.dynamic`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

Rule = Mapping[str, Any]
"""Limits by name, as pydantic's `Field` takes them: ge, gt, le, min_length, pattern."""

FROM_ZERO: Rule = {"ge": 0}
FROM_ONE: Rule = {"ge": 1}
SHARE: Rule = {"ge": 0.0, "le": 1.0}
PERCENT: Rule = {"ge": 0.0, "le": 100.0}
TEXT: Rule = {"min_length": 1}
ANY: Rule = {}
PORT: Rule = {"ge": 0, "le": 65_535}
DAY_MS: Rule = {"ge": 1, "le": 86_400_000}

EXACT: Mapping[str, Rule] = MappingProxyType(
    {
        "balance.shed": TEXT,
        "balance.place": TEXT,
        "balance.split": TEXT,
        "balance.rounds.interval_ms": DAY_MS,
        "balance.rounds.upkeep_interval_ms": DAY_MS,
        "balance.rounds.settle_ms": FROM_ZERO,
        "balance.rounds.warmup_ms": FROM_ZERO,
        "balance.windows.precision": {"pattern": "^float(32|64)$"},
        "balance.actions.bundle_cooldown_ms": FROM_ZERO,
        "balance.actions.broker_cooldown_ms": FROM_ZERO,
        "balance.actions.no_return_ms": FROM_ZERO,
        "balance.actions.no_return_change_ratio": FROM_ZERO,  # 2.0 = three times the load
        "balance.actions.excluded_namespaces": ANY,
        "balance.log.verdicts_top": FROM_ZERO,
        "balance.avg.min_unload_rate": FROM_ZERO,
        "balance.avg.min_unload_throughput": FROM_ZERO,
        "balance.threshold.min_unload_throughput": FROM_ZERO,
        "balance.uniform.min_unload_rate": FROM_ZERO,
        "balance.uniform.min_unload_throughput": FROM_ZERO,
        "balance.uniform.rate_difference_percent": FROM_ZERO,  # 0 switches it off
        "balance.uniform.throughput_multiplier": FROM_ZERO,  # 0 switches it off
        "balance.uniform.bundles_per_round_max": {"ge": -1},  # -1 = no limit
        "balance.transfer.broker_delay_ms": FROM_ZERO,
        "balance.thresholds.sessions_max": ANY,  # <= 0 switches it off, as in Pulsar
        "balance.thresholds.rate_max": {"gt": 0.0},
        "balance.thresholds.throughput_max": {"gt": 0.0},
        "balance.thresholds.algorithm": {
            "pattern": "^(range|topic_count|flow_or_qps)_equally_divide$"
        },
    }
)

BY_UNIT: tuple[tuple[str, Rule], ...] = (
    ("_ms", FROM_ONE),
    ("_ratio", SHARE),
    ("_share", SHARE),
    ("_points", PERCENT),
    ("_samples", FROM_ONE),
    ("_partitions", {"ge": 1, "le": 1_024}),
    ("_max", FROM_ONE),
    ("hit_count", FROM_ONE),
    ("hit_count_low", FROM_ONE),
    ("hit_count_high", FROM_ONE),
    ("port", PORT),
)


def rule_of(table: str, key: str, kind: object, exact: Mapping[str, Rule] = EXACT) -> Rule:
    """The rule of a key; raises `LookupError` if there is none."""
    name = f"{table}.{key}"
    if name in exact:
        return exact[name]
    if kind is bool:
        return ANY
    if table == "balance.weights":
        return FROM_ZERO
    for unit, rule in BY_UNIT:
        if key.endswith(unit):
            return rule
    raise LookupError(f"no range is known for {name}")


def breach(rule: Rule, value: Any) -> str | None:
    """What is wrong with a value that has the right type; None = nothing."""
    if isinstance(value, float) and not math.isfinite(value):
        return "must be a finite number"
    if isinstance(value, int | float) and not isinstance(value, bool):
        if "ge" in rule and value < rule["ge"]:
            return f"must be at least {rule['ge']}"
        if "gt" in rule and value <= rule["gt"]:
            return f"must be above {rule['gt']}"
        if "le" in rule and value > rule["le"]:
            return f"must be at most {rule['le']}"
    if isinstance(value, str):
        if len(value) < rule.get("min_length", 0):
            return "must not be empty"
        if "pattern" in rule and re.search(rule["pattern"], value) is None:
            return f"must match {rule['pattern']}"
    return None
