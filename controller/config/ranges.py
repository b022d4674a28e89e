"""Which values a key may have: by its full name if it is special, else by the unit in its name.

A key that fits no rule is a programming error and fails at import, so that no new setting comes
in unchecked. Used by `controller.config.models`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

Rule = Mapping[str, Any]
"""Arguments of pydantic's `Field`."""

FROM_ZERO: Rule = {"ge": 0}
FROM_ONE: Rule = {"ge": 1}
SHARE: Rule = {"ge": 0.0, "le": 1.0}
PERCENT: Rule = {"ge": 0.0, "le": 100.0}
NAME: Rule = {"min_length": 1, "max_length": 249, "pattern": r"^[^\s/]+$"}
TEXT: Rule = {"min_length": 1}
ANY: Rule = {}
PORT: Rule = {"ge": 0, "le": 65_535}
DAY_MS: Rule = {"ge": 1, "le": 86_400_000}

EXACT: Mapping[str, Rule] = MappingProxyType(
    {
        "job.name": NAME,
        "job.checkpoint": TEXT,
        "job.act": ANY,
        "job.trigger_ms": {"ge": 10, "le": 600_000},
        "job.master": TEXT,
        "job.driver_memory": {"pattern": r"^[1-9][0-9]*[kmgtKMGT]$"},
        "job.spark_conf": ANY,
        "job.max_rows_per_trigger": FROM_ONE,
        "job.max_bytes_per_trigger": {"ge": 1_048_576},
        "transport.kind": ANY,
        "transport.path": TEXT,
        "transport.durability": ANY,
        "topics.load_reports": NAME,
        "topics.commands": NAME,
        "topics.decision_log": NAME,
        "topics.dead_letters": NAME,
        "topics.partitions": {"ge": 1, "le": 256},
        "clusters.channel": {"max_length": 249, "pattern": r"^[^\s/]*$"},
        "clusters.reports_topics": ANY,
        "agent.clock_drift_max_ratio": {"ge": 0.0, "le": 0.5},
        "agent.release_threads": {"ge": 1, "le": 64},
        "agent.report_bundles_max": FROM_ZERO,  # 0 = all
        "agent.report_excluded_namespaces": ANY,
        "agent.topic_hashes_above": FROM_ZERO,
        "agent.topic_loads_above_rate": FROM_ZERO,
        "agent.report_topics_max": FROM_ZERO,  # 0 = none
        "agent.split_tries_max": {"ge": 1, "le": 100},
        "agent.shutdown_wait_ms": FROM_ZERO,
        "metrics.host": TEXT,
        "lease.ttl_ms": {"ge": 1_000, "le": 600_000},
        "lease.wait_ms": FROM_ZERO,
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
        "limits.value_max": {"gt": 0.0},
        "limits.record_bytes_max": {"ge": 1_024},
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


def rule_of(table: str, key: str, kind: object) -> Rule:
    """The rule of a key; raises `LookupError` if there is none."""
    name = f"{table}.{key}"
    if name in EXACT:
        return EXACT[name]
    if kind is bool:
        return ANY
    if table == "balance.weights":
        return FROM_ZERO
    for unit, rule in BY_UNIT:
        if key.endswith(unit):
            return rule
    raise LookupError(f"no range is known for {name}: add it to controller/config/ranges.py")
