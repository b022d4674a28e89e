"""Compares a topic that exists with what it should be; every finding says why and how to mend it.

Pure. Longer retention, more bytes and more report partitions than wanted are the operator's
choice, and no finding. Used by `bundlectl topics`, `bundlectl doctor` and the start of the job.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from controller.transport.kafka.topics import TopicSpec

Severity = Literal["error", "warning"]

BROKERS_FOR_REPLICAS = 3
"""From so many brokers on, three replicas with two in sync survive the loss of any broker."""

MESSAGE_BYTES_MIN = 1024 * 1024
"""Less than limits.record_bytes_max lets pass: below it, whole reports are refused."""

MIN_IN_SYNC = 2
MISSING = "topic"
UNREADABLE = "settings"
UNLIMITED = -1


@dataclass(frozen=True, slots=True)
class Setting:
    """A value that is in force, and who set it: the topic itself, the brokers, or Kafka."""

    value: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class ExistingTopic:
    """A topic as the brokers describe it; no settings at all: they may not be read."""

    name: str
    partitions: int
    replicas: int  # of the partition that has the fewest
    settings: Mapping[str, Setting]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be. `mend` is what --mend would set, if that is safe."""

    topic: str
    setting: str  # Kafka's name of it, or: topic, partitions, replication, settings
    severity: Severity
    found: str
    wanted: str
    why: str  # one sentence
    command: str  # of Kafka's own tools
    mend: str | None = None

    @property
    def is_mendable(self) -> bool:
        """Whether `bundlectl topics create --mend` puts it right."""
        return self.mend is not None or self.setting == MISSING

    @property
    def remedy(self) -> str:
        """What to do, for the end of a sentence."""
        if self.setting == MISSING:
            return f"run bundlectl topics create, or {self.command}"
        if self.is_mendable:
            return f"run bundlectl topics create --mend, or {self.command}"
        return self.command


def topic_findings(
    spec: TopicSpec, found: ExistingTopic | None, brokers: int, servers: str
) -> list[Finding]:
    """Everything that is wrong with a topic, errors first.

    `brokers` is how many the cluster has; `servers` is what Kafka's tools are to be called with.
    """
    if found is None:
        return [_missing(spec, servers)]
    look = _Look(spec, found, brokers, servers)
    every = [*_partitions(look), *_replication(look)]
    every += _settings(look) if found.settings else [_unreadable(look)]
    return sorted(every, key=lambda one: (one.severity, one.setting))


def all_findings(
    specs: Sequence[TopicSpec],
    existing: Mapping[str, ExistingTopic],
    brokers: int,
    servers: str,
) -> list[Finding]:
    """The findings of all topics, in the order of the specs."""
    return [
        finding
        for spec in specs
        for finding in topic_findings(spec, existing.get(spec.name), brokers, servers)
    ]


@dataclass(frozen=True, slots=True)
class _Look:
    """One topic under examination."""

    spec: TopicSpec
    found: ExistingTopic
    brokers: int
    servers: str

    def value(self, name: str) -> str | None:
        setting = self.found.settings.get(name)
        return None if setting is None else setting.value

    def number(self, name: str) -> int | None:
        try:
            return int(self.value(name) or "")
        except ValueError:
            return None

    def finding(
        self, name: str, severity: Severity, wanted: str, why: str, mend: str | None = None
    ) -> Finding:
        """A finding about a Kafka setting; `wanted` is what is set unless `mend` says otherwise."""
        value = wanted if mend is None else mend
        command = (
            f"kafka-configs.sh {self.servers} --alter --entity-type topics "
            f"--entity-name {self.spec.name} --add-config {name}={value}"
        )
        setting = self.found.settings[name]
        shown = f"{setting.value} ({setting.source})" if setting.source else setting.value
        return Finding(self.spec.name, name, severity, shown, wanted, why, command, value)


def _missing(spec: TopicSpec, servers: str) -> Finding:
    settings = " ".join(f"--config {name}={value}" for name, value in spec.settings.items())
    return Finding(
        spec.name,
        MISSING,
        "error",
        "missing",
        f"{spec.partitions} partitions" if spec.partitions > 1 else "1 partition",
        f"Without it there is no place for: {spec.purpose}.",
        f"kafka-topics.sh {servers} --create --topic {spec.name} --partitions {spec.partitions} "
        f"{settings}",
    )


def _unreadable(look: _Look) -> Finding:
    return Finding(
        look.spec.name,
        UNREADABLE,
        "warning",
        "not shown to us",
        "readable",
        "What the brokers do not show cannot be checked.",
        f"kafka-acls.sh {look.servers} --add --allow-principal User:NAME "
        f"--operation DescribeConfigs --topic {look.spec.name}",
    )


def _partitions(look: _Look) -> Iterator[Finding]:
    if not look.spec.is_ordered or look.found.partitions == 1:
        return
    name = look.spec.name
    yield Finding(
        name,
        "partitions",
        "error",
        str(look.found.partitions),
        "1",
        "Its records count in the order in which they were written, which only one partition "
        "keeps.",
        "stop everything that uses it, name another topic in the configuration, or remove this "
        f"one with all it holds: kafka-topics.sh {look.servers} --delete --topic {name}",
    )


def _replication(look: _Look) -> Iterator[Finding]:
    replicas, brokers = look.found.replicas, look.brokers
    if replicas == 1 and brokers >= BROKERS_FOR_REPLICAS:
        yield Finding(
            look.spec.name,
            "replication",
            "warning",
            "1",
            str(BROKERS_FOR_REPLICAS),
            f"With the one broker that holds it the topic is gone, though there are {brokers}.",
            f"kafka-reassign-partitions.sh {look.servers} --reassignment-json-file FILE --execute, "
            f"with three brokers in FILE for each partition of {look.spec.name}",
        )


def _settings(look: _Look) -> Iterator[Finding]:
    yield from _time(look)
    yield from _cleanup(look)
    yield from _sizes(look)
    yield from _durations(look)
    yield from _safety(look)


def _time(look: _Look) -> Iterator[Finding]:
    name = "message.timestamp.type"
    if look.value(name) not in (None, look.spec.settings[name]):
        yield look.finding(
            name,
            "error",
            look.spec.settings[name],
            "Ingest times would be those of the clients' clocks, and loads, leases and take-overs "
            "are judged by ingest times.",
        )


def _cleanup(look: _Look) -> Iterator[Finding]:
    name = "cleanup.policy"
    found, wanted = look.value(name), look.spec.settings[name]
    policies = {one.strip() for one in (found or "").split(",")}
    if found is None or policies == {wanted}:
        return
    if wanted == "compact":
        why = "Old records would be removed though nothing newer says who owns a bundle "
        why += "that stays where it is, or what was published last."
    else:
        why = "Only the last record of each key would stay, but the ones before it count as well."
    yield look.finding(name, "error", wanted, why)


def _sizes(look: _Look) -> Iterator[Finding]:
    name = "max.message.bytes"
    found, wanted = look.number(name), int(look.spec.settings[name])
    if found is None or found >= wanted:
        return
    severity: Severity = "error" if found < MESSAGE_BYTES_MIN else "warning"
    yield look.finding(
        name,
        severity,
        str(wanted),
        "A large record would be refused, so that a broker with thousands of bundles would fall "
        "silent, or a round could not be published.",
    )


def _durations(look: _Look) -> Iterator[Finding]:
    lag = look.number("min.compaction.lag.ms")
    lag_wanted = int(look.spec.settings.get("min.compaction.lag.ms", "0"))
    if lag is not None and lag < lag_wanted:
        yield look.finding(
            "min.compaction.lag.ms",
            "error",
            str(lag_wanted),
            "Compaction keeps the last record of a bundle, also one that lost by the conflict "
            "rule, so the winner before it must stay until the controller has written it again.",
        )
    yield from _retention(look)
    segment, segment_wanted = look.number("segment.ms"), look.spec.settings.get("segment.ms")
    if segment is not None and segment_wanted is not None and segment > int(segment_wanted):
        yield look.finding(
            "segment.ms",
            "warning",
            segment_wanted,
            "Old records stay for as long as their segment is open, and who starts reads them all.",
        )


def _retention(look: _Look) -> Iterator[Finding]:
    wanted = look.spec.settings.get("retention.ms")
    if wanted is None:
        return
    found = look.number("retention.ms")
    if found is not None and found != UNLIMITED and found < int(wanted):
        yield look.finding(
            "retention.ms",
            "warning",
            wanted,
            "Records would be removed before a controller that was down, or lost its checkpoint, "
            "has read them.",
        )
    size = look.number("retention.bytes")
    if size is not None and size != UNLIMITED:
        yield look.finding(
            "retention.bytes",
            "warning",
            str(UNLIMITED),
            "A busy hour would shorten the time for which records are kept.",
        )


def _safety(look: _Look) -> Iterator[Finding]:
    name = "min.insync.replicas"
    found, replicas = look.number(name), look.found.replicas
    safe = MIN_IN_SYNC if replicas >= BROKERS_FOR_REPLICAS else 1
    if found is not None and found > replicas:
        why = "With fewer replicas than that every write is refused."
        yield look.finding(name, "error", f"at most {replicas}", why, str(safe))
    elif found == 1 and replicas >= BROKERS_FOR_REPLICAS:
        yield look.finding(
            name,
            "warning",
            str(safe),
            "A write is acknowledged by one broker alone, and is lost with it.",
        )
    name = "unclean.leader.election.enable"
    if look.value(name) == "true":
        yield look.finding(
            name,
            "error",
            "false",
            "A replica that lags may become the leader, and what was acknowledged is then gone, "
            "so that two brokers may come to own a bundle.",
        )
