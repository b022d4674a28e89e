"""`bundlectl topics`: creates the topics of a configuration, checks and explains them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any

import typer

from controller.cli.errors import CliError
from controller.cli.opening import existing_log
from controller.cli.options import ConfigOption, JsonOption, SetOption, loaded
from controller.config import JobConfig
from controller.transport.errors import TransportError
from controller.transport.kafka.findings import MISSING, ExistingTopic, Finding
from controller.transport.kafka.settings import KafkaSettings
from controller.transport.kafka.topics import DAY_MS, HOUR_MS, TopicSpec
from controller.transport.place import open_transport
from streaming.from_config import plan_of
from streaming.topics import create_missing, create_topics, settled_findings, wanted_topics

app = typer.Typer(
    no_args_is_help=True, help="Create the topics of the configuration, check and explain them."
)

DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")
]
MendOption = Annotated[
    bool,
    typer.Option(
        "--mend",
        help="Also put right settings of existing topics, each shown as before -> after. Never "
        "changes partitions or replicas, and never keeps records for a shorter time.",
    ),
]
ReplicationOption = Annotated[
    int | None,
    typer.Option(
        "--replication", min=1, help="Replicas of topics that are created; wins over the file."
    ),
]


@dataclass(slots=True)
class Done:
    """What was done with a topic, or would be."""

    topic: str
    action: str  # created, exists, mended; in a dry run: would create, would mend
    changes: list[dict[str, str | None]] = field(default_factory=list)


@app.command()
def create(
    config: ConfigOption = None,
    set_: SetOption = None,
    dry_run: DryRunOption = False,
    mend: MendOption = False,
    replication: ReplicationOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create the topics that are missing, as the job itself would; exit 1 if --mend left errors."""
    found = loaded(config, set_)
    if found.transport.kind == "embedded":
        if replication is not None:
            raise CliError("the embedded log is one file and has no replicas: omit --replication")
        _show_done(_create_embedded(found, dry_run), [], mend, as_json)
        return
    settings = kafka_of(found)
    if replication is not None:
        settings = replace(settings, replication=replication)
        _check_replication(settings)
    done, left = _create_on_kafka(settings, wanted_topics(plan_of(found)), dry_run, mend)
    _show_done(done, left, mend, as_json)
    if mend and any(one.severity == "error" for one in left):
        raise typer.Exit(1)


@app.command()
def check(config: ConfigOption = None, set_: SetOption = None, as_json: JsonOption = False) -> None:
    """Compare the topics that exist with what is needed; exit 1 if one would do harm."""
    found = loaded(config, set_)
    specs = wanted_topics(plan_of(found))
    if found.transport.kind == "embedded":
        findings: list[Finding] = []
        text = "the embedded log needs no settings: there is nothing to check"
    else:
        findings = findings_on(kafka_of(found), specs)
        text = findings_text(findings, len(specs))
    if as_json:
        rows = [asdict(one) | {"is_mendable": one.is_mendable} for one in findings]
        typer.echo(json.dumps({"topics": len(specs), "findings": rows}, indent=2))
    else:
        typer.echo(text)
    if any(one.severity == "error" for one in findings):
        raise typer.Exit(1)


@app.command()
def describe(
    config: ConfigOption = None, set_: SetOption = None, as_json: JsonOption = False
) -> None:
    """Show every topic: what it is for, how it should be, and how it is."""
    found = loaded(config, set_)
    specs = wanted_topics(plan_of(found))
    existing: dict[str, ExistingTopic] = {}
    unknown = None
    try:
        existing = _existing(found, specs)
    except (TransportError, CliError) as error:
        unknown = str(error)
    if as_json:
        rows = [_row(spec, existing.get(spec.name)) for spec in specs]
        typer.echo(json.dumps({"topics": rows, "unknown": unknown}, indent=2))
        return
    for spec in specs:
        is_kafka = found.transport.kind == "kafka"
        typer.echo(_block(spec, existing.get(spec.name), is_kafka, unknown is None))
    if unknown is not None:
        typer.echo(f"bundlectl: what exists is not shown: {unknown}", err=True)


def kafka_of(config: JobConfig) -> KafkaSettings:
    """How to reach Kafka; raises `TransportError` if its client is not installed."""
    open_transport(config.transport).close()
    return config.transport.kafka


def findings_on(settings: KafkaSettings, specs: Sequence[TopicSpec]) -> list[Finding]:
    """What is wrong with the topics now."""
    from controller.transport.kafka.survey import TopicSurvey

    with closing(TopicSurvey(settings)) as survey:
        return survey.findings(specs)


def findings_text(findings: Sequence[Finding], topics: int) -> str:
    """All findings to be read, and how many there are."""
    if not findings:
        return f"{topics} topics are as they should be"
    errors = sum(one.severity == "error" for one in findings)
    parts = (_count(errors, "error"), _count(len(findings) - errors, "warning"))
    lines = [_finding(one) for one in findings]
    return "\n".join([*lines, f"{' and '.join(parts)} in {topics} topics"])


# ---------------------------------------------------------------------- creating


def _create_embedded(config: JobConfig, is_dry: bool) -> list[Done]:
    plan = plan_of(config)
    present: Mapping[str, int] = {}
    if is_dry:
        try:
            with closing(existing_log(config.transport)) as log:
                present = log.topics()
        except CliError:  # no such file yet
            present = {}
    else:
        with closing(open_transport(config.transport)) as log:
            present = log.topics()
            create_topics(plan, log)
    word = "would create" if is_dry else "created"
    return [
        Done(one.name, "exists" if one.name in present else word) for one in wanted_topics(plan)
    ]


def _create_on_kafka(
    settings: KafkaSettings, specs: Sequence[TopicSpec], is_dry: bool, may_mend: bool
) -> tuple[list[Done], list[Finding]]:
    """What was done, and what is still wrong afterwards."""
    if is_dry:
        findings = findings_on(settings, specs)
        created = {one.topic for one in findings if one.setting == MISSING}
        findings = [one for one in findings if one.setting != MISSING]
    else:
        created = set(create_missing(settings, specs))
        findings = settled_findings(settings, specs)
    mends = [one for one in findings if may_mend and one.mend is not None]
    done = [_done(spec.name, created, mends, "would " if is_dry else "") for spec in specs]
    if not mends or is_dry:
        return done, [one for one in findings if one not in mends]
    _mend(settings, mends)
    return done, findings_on(settings, specs)


def _check_replication(settings: KafkaSettings) -> None:
    """Raises `CliError` where there are not so many brokers."""
    from controller.transport.kafka.survey import TopicSurvey

    with closing(TopicSurvey(settings)) as survey:
        brokers = survey.brokers()
    if settings.replication > brokers:
        raise CliError(
            f"--replication {settings.replication} needs as many brokers, but Kafka at "
            f"{settings.bootstrap_servers} has {brokers}: start more, or ask for fewer replicas"
        )


def _done(name: str, created: set[str], mends: Sequence[Finding], would: str) -> Done:
    changes: list[dict[str, str | None]] = [
        {"setting": one.setting, "before": one.found, "after": one.mend}
        for one in mends
        if one.topic == name
    ]
    if name in created:
        return Done(name, "would create" if would else "created", changes)
    if changes:
        return Done(name, "would mend" if would else "mended", changes)
    return Done(name, "exists")


def _mend(settings: KafkaSettings, mends: Sequence[Finding]) -> None:
    from controller.transport.kafka.survey import TopicSurvey

    with closing(TopicSurvey(settings)) as survey:
        for topic in sorted({one.topic for one in mends}):
            values = {one.setting: one.mend for one in mends if one.topic == topic}
            survey.alter(topic, {name: value for name, value in values.items() if value})


def _show_done(
    done: Sequence[Done], left: Sequence[Finding], was_mending: bool, as_json: bool
) -> None:
    if as_json:
        rows = [asdict(one) for one in done]
        findings = [asdict(one) | {"is_mendable": one.is_mendable} for one in left]
        typer.echo(json.dumps({"topics": rows, "findings": findings}, indent=2))
        return
    for one in done:
        typer.echo(f"{one.action:<13} {one.topic}")
        for change in one.changes:
            typer.echo(f"{'':<13}   {change['setting']}: {change['before']} -> {change['after']}")
    if left and was_mending:
        typer.echo(findings_text(left, len(done)))
    elif left:
        typer.echo(
            f"{_count(len(left), 'finding')}: bundlectl topics check explains, --mend puts right "
            "what is safe"
        )


# ---------------------------------------------------------------------- describing


def _existing(config: JobConfig, specs: Sequence[TopicSpec]) -> dict[str, ExistingTopic]:
    if config.transport.kind == "kafka":
        settings = kafka_of(config)
        from controller.transport.kafka.survey import TopicSurvey

        with closing(TopicSurvey(settings)) as survey:
            return survey.existing(spec.name for spec in specs)
    with closing(existing_log(config.transport)) as log:
        return {name: ExistingTopic(name, count, 1, {}) for name, count in log.topics().items()}


def _row(spec: TopicSpec, found: ExistingTopic | None) -> dict[str, Any]:
    there = None
    if found is not None:
        settings = {name: asdict(one) for name, one in found.settings.items()}
        there = {
            "partitions": found.partitions,
            "replicas": found.replicas,
            "settings": {name: settings[name] for name in spec.settings if name in settings},
        }
    return {
        "topic": spec.name,
        "purpose": spec.purpose,
        "kept": _kept(spec),
        "wanted": {"partitions": spec.partitions, "settings": dict(spec.settings)},
        "there": there,
    }


def _block(spec: TopicSpec, found: ExistingTopic | None, is_kafka: bool, is_known: bool) -> str:
    missing = "missing" if is_known else "not known"
    partitions = missing if found is None else str(found.partitions)
    wanted = str(spec.partitions) if spec.is_ordered else f"{spec.partitions} when created"
    rows = [("", "wanted", "there"), ("partitions", wanted, partitions)]
    if is_kafka:
        rows.append(("replicas", "", missing if found is None else str(found.replicas)))
        for name, value in spec.settings.items():
            one = None if found is None else found.settings.get(name)
            rows.append((name, value, "" if one is None else f"{one.value} ({one.source})"))
    title = f"{spec.name}: {spec.purpose}"
    if is_kafka:
        title += f"\n  kept: {_kept(spec)}"
    lines = [f"  {name:<26} {wanted:<16} {there}".rstrip() for name, wanted, there in rows]
    return "\n".join([title, *lines, ""])


def _kept(spec: TopicSpec) -> str:
    """For how long records are kept."""
    if spec.settings["cleanup.policy"] == "compact":
        lag_ms = int(spec.settings.get("min.compaction.lag.ms", "0"))
        also = f", every record for {_duration(lag_ms)}" if lag_ms else ""
        return f"the last record of each key for ever{also}"
    return f"every record for {_duration(int(spec.settings['retention.ms']))}"


def _duration(ms: int) -> str:
    if ms % DAY_MS:
        return _count(ms // HOUR_MS, "hour")
    return _count(ms // DAY_MS, "day")


def _finding(one: Finding) -> str:
    lines = [
        f"{one.severity:<8} {one.topic}: {one.setting} is {one.found}, should be {one.wanted}",
        f"{'':<8} {one.why}",
        f"{'':<8} {one.remedy}",
    ]
    return "\n".join(lines)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
