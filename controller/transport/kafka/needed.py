"""All topics that a job needs on Kafka, as they should be. Pure.

The job creates its topics by it (`streaming.topics`), and `bundlectl topics` creates, checks and
explains by it; so whoever came first, the topics are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller.transport.kafka.topics import (
    DAY_MS,
    HOUR_MS,
    TopicSpec,
    own_specs,
    topic_settings,
)

REPORTS_RETENTION_MS = DAY_MS
"""Of load reports, by far the most bytes. A job that was down for longer cannot go on where it
stopped, and a lost checkpoint is rebuilt from the reports that are left: the longest averages span
some half an hour, so a day is plenty. Lengthen it where the job may be down for a weekend."""

REPORTS_SEGMENT_MS = 6 * HOUR_MS
"""Retention removes closed segments only. In a small cluster one would stay open for a week, and
a rebuild would read a week of reports."""

COMMANDS_RETENTION_MS = 30 * DAY_MS
"""Policies, pins, drains and changed settings stand in the memory, and in this topic only: with a
lost checkpoint, or a standby with one of its own, what is older than this is forgotten and has to
be sent again. Ticks are most of it, some 3 MB a day and cluster, and a rebuild reads them all."""

COMMANDS_SEGMENT_MS = DAY_MS

DECISIONS_RETENTION_MS = 30 * DAY_MS
"""Nobody but people reads it: why a bundle moved is asked within weeks."""

DEAD_LETTERS_RETENTION_MS = 7 * DAY_MS
"""Long enough to look into what could not be read, after a weekend too."""


@dataclass(frozen=True, slots=True)
class TopicNames:
    """Names of a job's topics, and how finely reports are divided."""

    job: str
    reports: tuple[str, ...]
    channels: Mapping[str, str]  # cluster -> topic
    commands: str
    decisions: str
    dead_letters: str
    report_partitions: int


def needed_topics(names: TopicNames) -> tuple[TopicSpec, ...]:
    """Every topic of a job in name order, its own two included."""
    reports = [_reports(name, names.report_partitions) for name in names.reports]
    channels = [_channel(topic, cluster) for cluster, topic in names.channels.items()]
    shared = (_commands(names.commands), *_for_people(names.decisions, names.dead_letters))
    every = (*reports, *channels, *shared, *own_specs(names.job))
    return tuple(sorted(every, key=lambda one: one.name))


def _reports(name: str, partitions: int) -> TopicSpec:
    settings = topic_settings("delete", REPORTS_RETENTION_MS)
    settings["segment.ms"] = str(REPORTS_SEGMENT_MS)
    return TopicSpec(name, partitions, settings, "load reports and signs of life of the brokers")


def _channel(name: str, cluster: str) -> TopicSpec:
    purpose = f"who owns which bundle of cluster {cluster}"
    return TopicSpec(name, 1, topic_settings("compact"), purpose, is_ordered=True)


def _commands(name: str) -> TopicSpec:
    settings = topic_settings("delete", COMMANDS_RETENTION_MS)
    settings["segment.ms"] = str(COMMANDS_SEGMENT_MS)
    return TopicSpec(name, 1, settings, "operators' commands, agents' requests, ticks", True)


def _for_people(decisions: str, dead_letters: str) -> tuple[TopicSpec, TopicSpec]:
    return (
        TopicSpec(
            decisions,
            1,
            topic_settings("delete", DECISIONS_RETENTION_MS),
            "what was decided, and why",
        ),
        TopicSpec(
            dead_letters,
            1,
            topic_settings("delete", DEAD_LETTERS_RETENTION_MS),
            "records that could not be read, with the reason",
        ),
    )
