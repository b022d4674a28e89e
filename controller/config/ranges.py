"""Which values a key of the file may have: by its full name if it is special, else by its unit.

A key that fits no rule is a programming error and fails at import, so that no new setting comes
in unchecked. Keys under [balance] have their rules in `controller.core.ranges`. Used by
`controller.config.models`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from controller.core import ranges
from controller.core.ranges import ANY, FROM_ONE, FROM_ZERO, TEXT, Rule

NAME: Rule = {"min_length": 1, "max_length": 249, "pattern": r"^[^\s/]+$"}

VARIABLE: Rule = {"pattern": r"^([A-Za-z_][A-Za-z0-9_]*)?$"}

EXACT: Mapping[str, Rule] = MappingProxyType(
    {
        **ranges.EXACT,
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
        "transport.kafka.bootstrap_servers": TEXT,
        "transport.kafka.security_protocol": ANY,
        "transport.kafka.sasl_mechanism": ANY,
        "transport.kafka.username": ANY,
        "transport.kafka.password_env": VARIABLE,
        "transport.kafka.password_file": ANY,
        "transport.kafka.ca_file": ANY,
        "transport.kafka.certificate_file": ANY,
        "transport.kafka.key_password_env": VARIABLE,
        "transport.kafka.key_password_file": ANY,
        "transport.kafka.replication": {"ge": -1, "le": 32_767},
        "transport.kafka.transaction_timeout_ms": {"ge": 1_000, "le": 900_000},
        "transport.kafka.connector": TEXT,
        "transport.kafka.maven_repository": {"pattern": r"^(https?|file)://\S+$"},
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
        "limits.value_max": {"gt": 0.0},
        "limits.record_bytes_max": {"ge": 1_024},
    }
)


def rule_of(table: str, key: str, kind: object) -> Rule:
    """The rule of a key; raises `LookupError` if there is none."""
    try:
        return ranges.rule_of(table, key, kind, EXACT)
    except LookupError as error:
        raise LookupError(f"{error}: add it to controller/config/ranges.py") from None
