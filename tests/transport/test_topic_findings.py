from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from controller.transport.kafka.findings import (
    ExistingTopic,
    Finding,
    Setting,
    all_findings,
    topic_findings,
)
from controller.transport.kafka.needed import TopicNames, needed_topics
from controller.transport.kafka.topics import TopicSpec

SERVERS = "--bootstrap-server kafka-1:9092"
DAY_MS = 86_400_000
NAMES = TopicNames(
    job="job",
    reports=("load-reports", "reports-east"),
    channels={"east": "bundle-state-east"},
    commands="commands",
    decisions="decisions",
    dead_letters="dead",
    report_partitions=4,
)
SPECS = {spec.name: spec for spec in needed_topics(NAMES)}
REPORTS, CHANNEL, COMMANDS = (
    SPECS["load-reports"],
    SPECS["bundle-state-east"],
    SPECS["commands"],
)
MARKERS, LEASE = SPECS["job-markers"], SPECS["job-lease"]
KAFKA_DEFAULTS = {
    "message.timestamp.type": "CreateTime",
    "cleanup.policy": "delete",
    "max.message.bytes": "1048588",
    "min.compaction.lag.ms": "0",
    "retention.ms": "604800000",
    "retention.bytes": "-1",
    "segment.ms": "604800000",
    "min.insync.replicas": "2",
    "unclean.leader.election.enable": "false",
}


def made(spec: TopicSpec, changed: Mapping[str, str] | None = None) -> ExistingTopic:
    """The topic as Kafka makes it from the spec, in a cluster of three, but for what is changed."""
    values = {**KAFKA_DEFAULTS, **spec.settings, **(changed or {})}
    settings = {name: Setting(value, "of the topic") for name, value in values.items()}
    return ExistingTopic(spec.name, spec.partitions, 3, settings)


def findings(spec: TopicSpec, found: ExistingTopic | None, brokers: int = 3) -> list[Finding]:
    return topic_findings(spec, found, brokers, SERVERS)


def test_a_job_needs_these_topics() -> None:
    facts = {
        name: (spec.partitions, spec.settings["cleanup.policy"], spec.settings.get("retention.ms"))
        for name, spec in SPECS.items()
    }
    assert facts == {
        "bundle-state-east": (1, "compact", None),
        "commands": (1, "delete", str(30 * DAY_MS)),
        "dead": (1, "delete", str(7 * DAY_MS)),
        "decisions": (1, "delete", str(30 * DAY_MS)),
        "job-lease": (1, "delete", str(DAY_MS // 24)),
        "job-markers": (1, "compact", None),
        "load-reports": (4, "delete", str(DAY_MS)),
        "reports-east": (4, "delete", str(DAY_MS)),
    }
    assert all(spec.purpose for spec in SPECS.values())
    assert [name for name, spec in SPECS.items() if spec.is_ordered] == [
        "bundle-state-east",
        "commands",
        "job-lease",
        "job-markers",
    ]
    assert {one.settings["message.timestamp.type"] for one in SPECS.values()} == {"LogAppendTime"}
    assert CHANNEL.settings["min.compaction.lag.ms"] == str(7 * DAY_MS)


@pytest.mark.parametrize("name", SPECS)
def test_a_topic_made_as_it_should_be_has_no_finding(name: str) -> None:
    assert findings(SPECS[name], made(SPECS[name])) == []


# spec, setting, value there, severity, what is wanted, what --mend sets, a word of the reason
SETTINGS = [
    (REPORTS, "message.timestamp.type", "CreateTime", "error", "LogAppendTime", "", "clocks"),
    (LEASE, "message.timestamp.type", "CreateTime", "error", "LogAppendTime", "", "clocks"),
    (CHANNEL, "cleanup.policy", "delete", "error", "compact", "", "owns a bundle"),
    (CHANNEL, "cleanup.policy", "compact,delete", "error", "compact", "", "owns a bundle"),
    (CHANNEL, "cleanup.policy", "delete, compact", "error", "compact", "", "owns a bundle"),
    (MARKERS, "cleanup.policy", "delete", "error", "compact", "", "published last"),
    (COMMANDS, "cleanup.policy", "compact", "error", "delete", "", "each key"),
    (REPORTS, "cleanup.policy", "compact,delete", "error", "delete", "", "each key"),
    (CHANNEL, "min.compaction.lag.ms", "0", "error", str(7 * DAY_MS), "", "conflict rule"),
    (REPORTS, "max.message.bytes", "1048588", "warning", "8388608", "", "refused"),
    (REPORTS, "max.message.bytes", "100000", "error", "8388608", "", "refused"),
    (REPORTS, "retention.ms", "3600000", "warning", str(DAY_MS), "", "checkpoint"),
    (COMMANDS, "retention.ms", str(7 * DAY_MS), "warning", str(30 * DAY_MS), "", "checkpoint"),
    (REPORTS, "retention.bytes", "1000000", "warning", "-1", "", "busy hour"),
    (LEASE, "segment.ms", "604800000", "warning", "900000", "", "segment"),
    (REPORTS, "min.insync.replicas", "1", "warning", "2", "", "one broker"),
    (REPORTS, "min.insync.replicas", "4", "error", "at most 3", "2", "refused"),
    (CHANNEL, "unclean.leader.election.enable", "true", "error", "false", "", "two brokers"),
]


@pytest.mark.parametrize(
    ("spec", "setting", "value", "severity", "wanted", "mend", "reason"),
    SETTINGS,
    ids=[f"{case[0].name}-{case[1]}-{case[2]}" for case in SETTINGS],
)
def test_a_wrong_setting_is_the_one_finding(
    spec: TopicSpec,
    setting: str,
    value: str,
    severity: str,
    wanted: str,
    mend: str,
    reason: str,
) -> None:
    [found] = findings(spec, made(spec, {setting: value}))
    assert (found.topic, found.setting, found.severity) == (spec.name, setting, severity)
    assert (found.found, found.wanted) == (f"{value} (of the topic)", wanted)
    assert found.mend == (mend or wanted) and reason in found.why
    assert found.why[0].isupper() and found.why.endswith(".")
    assert found.command == (
        f"kafka-configs.sh {SERVERS} --alter --entity-type topics --entity-name {spec.name} "
        f"--add-config {setting}={found.mend}"
    )
    assert "topics create --mend" in found.remedy and found.command in found.remedy


@pytest.mark.parametrize("name", SPECS)
def test_what_the_commands_set_leaves_no_finding(name: str) -> None:
    """For a topic that Kafka made with its own defaults."""
    spec = SPECS[name]
    bare = replace(made(spec), settings={k: Setting(v) for k, v in KAFKA_DEFAULTS.items()})
    mended = {one.setting: one.mend for one in findings(spec, bare) if one.mend is not None}
    assert mended and findings(spec, made(spec, {**KAFKA_DEFAULTS, **mended})) == []


@pytest.mark.parametrize(
    ("spec", "setting", "value"),
    [
        (REPORTS, "retention.ms", "-1"),
        (REPORTS, "retention.ms", str(90 * DAY_MS)),
        (CHANNEL, "retention.ms", "1"),  # of no effect on what is only compacted
        (CHANNEL, "retention.bytes", "1"),
        (CHANNEL, "min.compaction.lag.ms", str(8 * DAY_MS)),
        (CHANNEL, "segment.ms", "1"),
        (LEASE, "segment.ms", "1000"),
        (REPORTS, "max.message.bytes", "16777216"),
        (REPORTS, "min.insync.replicas", "3"),
        (MARKERS, "min.compaction.lag.ms", "1000"),
    ],
)
def test_more_than_is_needed_is_the_operators_choice(
    spec: TopicSpec, setting: str, value: str
) -> None:
    assert findings(spec, made(spec, {setting: value})) == []


def test_a_missing_topic_is_an_error_that_create_puts_right() -> None:
    [found] = findings(CHANNEL, None)
    assert (found.severity, found.found, found.wanted) == ("error", "missing", "1 partition")
    assert found.mend is None and found.is_mendable
    assert found.command.startswith(
        f"kafka-topics.sh {SERVERS} --create --topic bundle-state-east --partitions 1 --config "
    )
    assert "--config cleanup.policy=compact" in found.command
    assert "bundlectl topics create," in found.remedy


@pytest.mark.parametrize("spec", [CHANNEL, COMMANDS, MARKERS, LEASE], ids=lambda one: one.name)
def test_more_than_one_partition_is_an_error_where_order_counts(spec: TopicSpec) -> None:
    [found] = findings(spec, replace(made(spec), partitions=2))
    assert (found.setting, found.severity, found.found, found.wanted) == (
        "partitions",
        "error",
        "2",
        "1",
    )
    assert not found.is_mendable and f"--delete --topic {spec.name}" in found.remedy


@pytest.mark.parametrize("partitions", [1, 3, 64])
def test_reports_may_have_any_number_of_partitions(partitions: int) -> None:
    assert findings(REPORTS, replace(made(REPORTS), partitions=partitions)) == []


@pytest.mark.parametrize(("brokers", "expected"), [(1, 0), (2, 0), (3, 1), (9, 1)])
def test_one_replica_is_a_warning_where_there_are_three_brokers(
    brokers: int, expected: int
) -> None:
    alone = replace(made(REPORTS, {"min.insync.replicas": "1"}), replicas=1)
    found = findings(REPORTS, alone, brokers)
    assert [(one.setting, one.severity) for one in found] == [("replication", "warning")] * expected
    assert all("reassign" in one.remedy and not one.is_mendable for one in found)


def test_more_in_sync_than_there_are_replicas_is_an_error() -> None:
    alone = replace(made(REPORTS, {"min.insync.replicas": "2"}), replicas=1)
    [found] = findings(REPORTS, alone, brokers=1)
    assert (found.severity, found.wanted, found.mend) == ("error", "at most 1", "1")


def test_settings_that_may_not_be_read_are_a_warning() -> None:
    [found] = findings(REPORTS, replace(made(REPORTS), settings={}))
    assert (found.severity, found.setting) == ("warning", "settings")
    assert "DescribeConfigs" in found.remedy


def test_settings_that_an_old_broker_does_not_know_are_none() -> None:
    few = {"cleanup.policy": Setting("delete"), "retention.ms": Setting("odd")}
    assert findings(REPORTS, replace(made(REPORTS), settings=few)) == []


def test_errors_come_before_warnings_and_topics_in_order() -> None:
    bad = made(CHANNEL, {"max.message.bytes": "1048588", "cleanup.policy": "delete"})
    found = all_findings([LEASE, CHANNEL], {CHANNEL.name: bad}, 3, SERVERS)
    assert [(one.topic, one.setting) for one in found] == [
        ("job-lease", "topic"),
        ("bundle-state-east", "cleanup.policy"),
        ("bundle-state-east", "max.message.bytes"),
    ]
