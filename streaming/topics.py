"""The job's topics: which there are, their creation, and a refusal of those that are set wrong.

Called by `streaming.job`, `streaming.rehearsal` and `bundlectl topics`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing

import structlog

from controller.transport.errors import TopicSettingsError
from controller.transport.kafka.findings import MISSING, Finding
from controller.transport.kafka.needed import TopicNames, needed_topics
from controller.transport.kafka.settings import KafkaSettings
from controller.transport.kafka.topics import TopicSpec, own_specs
from controller.transport.port import Transport
from streaming.plan import JobPlan

log = structlog.get_logger("streaming.topics")

KNOWN_S = 10.0  # after its creation every broker knows a topic by then
POLL_S = 0.2


def wanted_topics(plan: JobPlan) -> tuple[TopicSpec, ...]:
    """All topics of a job; the embedded log keeps marker and lease elsewhere."""
    names = TopicNames(
        job=plan.name,
        reports=tuple(plan.report_topics),
        channels=plan.channels,
        commands=plan.commands_topic,
        decisions=plan.decisions_topic,
        dead_letters=plan.dead_letters_topic,
        report_partitions=plan.report_partitions,
    )
    every = needed_topics(names)
    if plan.transport.kind == "kafka":
        return every
    own = {spec.name for spec in own_specs(plan.name)}
    return tuple(spec for spec in every if spec.name not in own)


def create_topics(plan: JobPlan, log_file: Transport) -> None:
    """Creates the topics that are missing; those that exist keep their partitions.

    On Kafka, raises `TopicSettingsError` if one that exists would make the controller go wrong.
    """
    specs = wanted_topics(plan)
    if plan.transport.kind == "kafka":
        create_missing(plan.transport.kafka, specs)
        refuse_bad_topics(plan.transport.kafka, specs)
        return
    present = set(log_file.topics())
    for spec in specs:
        if spec.name not in present:
            log_file.create_topic(spec.name, spec.partitions, spec.settings["cleanup.policy"])


def create_missing(settings: KafkaSettings, specs: Sequence[TopicSpec]) -> list[str]:
    """Creates those of the topics that do not exist on Kafka, and returns their names."""
    from controller.transport.kafka.survey import TopicSurvey

    with closing(TopicSurvey(settings)) as survey:
        present = survey.existing(spec.name for spec in specs)
        missing = [spec for spec in specs if spec.name not in present]
        for spec in missing:
            survey.create(spec)
    return [spec.name for spec in missing]


def refuse_bad_topics(settings: KafkaSettings, specs: Sequence[TopicSpec]) -> None:
    """Raises `TopicSettingsError` for the first error; warnings are lines of the log."""
    findings = settled_findings(settings, specs)
    for one in findings:
        if one.severity == "warning":
            log.warning(
                "a topic is not as it should be",
                topic=one.topic,
                setting=one.setting,
                found=one.found,
                wanted=one.wanted,
            )
    errors = [one for one in findings if one.severity == "error"]
    if errors:
        raise TopicSettingsError(refusal(settings, errors))


def refusal(settings: KafkaSettings, errors: Sequence[Finding]) -> str:
    """One sentence about the first error, and how many more there are."""
    first, more = errors[0], len(errors) - 1
    also = f" ({more} more: bundlectl topics check)" if more else ""
    return (
        f"topic {first.topic} of Kafka at {settings.bootstrap_servers} has {first.setting} = "
        f"{first.found}, not {first.wanted}{also}: {first.why[:1].lower()}{first.why[1:-1]}; "
        f"{first.remedy}"
    )


def settled_findings(settings: KafkaSettings, specs: Sequence[TopicSpec]) -> list[Finding]:
    """What is wrong with topics that were perhaps made just now: not every broker knows at once."""
    from controller.transport.kafka.survey import TopicSurvey

    deadline = time.monotonic() + KNOWN_S
    with closing(TopicSurvey(settings)) as survey:
        while True:
            findings = survey.findings(specs)
            is_known = all(one.setting != MISSING for one in findings)
            if is_known or time.monotonic() > deadline:
                return findings
            time.sleep(POLL_S)
