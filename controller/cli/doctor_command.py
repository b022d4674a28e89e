"""`bundlectl doctor`: looks at everything that a controller needs, and says what is not right.

Reads only. Each check ends as a line: good, note (no harm by itself) or bad, with the remedy.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

import typer

from controller.agent.clocks import wall_clock_ms
from controller.cli.errors import CliError
from controller.cli.java import require_java
from controller.cli.opening import existing_log
from controller.cli.options import ConfigOption, JsonOption, SetOption, loaded
from controller.cli.topics_commands import findings_on
from controller.config import JobConfig
from controller.transport.errors import TransportError
from controller.transport.kafka.topics import lease_topic
from controller.transport.port import LeaseState, LogRecord, Transport
from streaming.from_config import plan_of
from streaming.topics import wanted_topics

CLOCK_DIFFERENCE_MAX_MS = 1_000
"""Time-outs of the agents are seconds; the brokers' clock counts, so a difference delays them."""

RENEWALS_WAIT_S = 5.0
"""A controller renews its lease every few seconds: so long one of them is waited for."""

POLL_S = 0.1
NAMED_MAX = 3  # findings on the page; bundlectl topics check prints all

Status = Literal["good", "note", "bad"]


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the page."""

    name: str
    status: Status
    text: str


def doctor(
    config: ConfigOption = None, set_: SetOption = None, as_json: JsonOption = False
) -> None:
    """Look at Java, Spark, log, topics, clocks, checkpoint and lease; exit 1 if anything is bad."""
    found = loaded(config, set_)
    checks = []
    for check in checks_of(found):
        checks.append(check)
        if not as_json:
            typer.echo(f"{check.status:<5} {check.name:<11} {check.text}")
    is_good = all(one.status != "bad" for one in checks)
    if as_json:
        rows = [asdict(one) for one in checks]
        typer.echo(json.dumps({"is_good": is_good, "checks": rows}, indent=2))
    if not is_good:
        raise typer.Exit(1)


def checks_of(config: JobConfig) -> Iterator[Check]:
    """All checks, each as soon as it is done."""
    yield _java()
    yield _pyspark()
    reached = _log(config)
    yield reached
    yield _checkpoint(config)
    if reached.status != "good":
        return
    yield _guarded("topics", lambda: _topics(config))
    with closing(existing_log(config.transport)) as log:
        if config.transport.kind == "kafka":
            yield _guarded("clock", lambda: _clock(config, log))
        yield _guarded("lease", lambda: _lease(config, log))
        yield _guarded("marker", lambda: _marker(config, log))


def _guarded(name: str, check: Callable[[], Check]) -> Check:
    try:
        return check()
    except (TransportError, OSError) as error:
        return Check(name, "bad", str(error))


# ---------------------------------------------------------------------- this machine


def _java() -> Check:
    try:
        return Check("Java", "good", f"Java {require_java()}")
    except CliError as error:
        return Check("Java", "bad", str(error))


def _pyspark() -> Check:
    try:
        return Check("PySpark", "good", f"PySpark {version('pyspark')}")
    except PackageNotFoundError:
        return Check("PySpark", "bad", "PySpark is not installed: run make setup")


def _checkpoint(config: JobConfig) -> Check:
    """Whether the folder can be used; what stands in it is judged by the job itself too."""
    from streaming.checkpoint import CheckpointError, local_folder, read_facts

    place = config.job.checkpoint
    folder = local_folder(place)
    if folder is None:
        return Check(
            "checkpoint", "note", f"{place} is not local: it cannot be looked at from here"
        )
    writable = _writable(folder)
    if writable is not None:
        return Check(
            "checkpoint",
            "bad",
            f"{writable} cannot be written: change its owner, or job.checkpoint",
        )
    try:
        facts = read_facts(place)
    except CheckpointError as error:
        return Check("checkpoint", "bad", str(error))
    if facts is None:
        return Check("checkpoint", "good", f"{folder} is local and new: memory comes from the log")
    where = "before its first batch" if facts.batch_id < 0 else f"at batch {facts.batch_id}"
    text = f"{folder} is local and writable; query {facts.query_id} is {where}"
    return Check("checkpoint", "good", text)


def _writable(folder: Path) -> Path | None:
    """The folder, or the next one above it that exists, if it cannot be written; None if it can."""
    for one in (folder, *folder.absolute().parents):
        if one.exists():
            is_fit = one.is_dir() and os.access(one, os.W_OK | os.X_OK)
            return None if is_fit else one
    return folder


# ---------------------------------------------------------------------- the log


def _log(config: JobConfig) -> Check:
    """Whether it can be reached; on Kafka, whether we are let in."""
    place = config.transport
    if place.kind == "embedded" and not Path(place.path).exists():
        return _new_log(Path(place.path))
    try:
        with closing(existing_log(place)) as log:
            topics = len(log.topics())
        if place.kind == "embedded":
            return Check("log", "good", f"{place.shown}, {topics} topics")
        from controller.transport.kafka.survey import TopicSurvey

        with closing(TopicSurvey(place.kafka)) as survey:
            brokers = survey.brokers()
    except (TransportError, CliError, OSError) as error:
        return Check("log", "bad", str(error))
    how = place.kafka.security_protocol
    who = f" as {place.kafka.username}" if how.startswith("SASL") else ""
    text = f"{place.shown} answers and lets us in{who} ({how}); brokers: {brokers}"
    return Check("log", "good", text)


def _new_log(path: Path) -> Check:
    barred = _writable(path.parent)
    if barred is not None:
        return Check(
            "log", "bad", f"{barred} cannot be written: change its owner, or transport.path"
        )
    return Check("log", "note", f"there is no {path} yet: the controller makes it at its start")


def _topics(config: JobConfig) -> Check:
    specs = wanted_topics(plan_of(config))
    if config.transport.kind == "embedded":
        return Check("topics", "good", "the embedded log needs no settings")
    findings = findings_on(config.transport.kafka, specs)
    if not findings:
        return Check("topics", "good", f"all {len(specs)} are as they should be")
    status: Status = "bad" if any(one.severity == "error" for one in findings) else "note"
    named = [f"{one.topic}: {one.setting} is {one.found}, not {one.wanted}" for one in findings]
    more = [f"{len(named) - NAMED_MAX} more"] if len(named) > NAMED_MAX else []
    text = "; ".join(named[:NAMED_MAX] + more)
    return Check("topics", status, f"{text}. bundlectl topics check says why, and what to do")


def _clock(config: JobConfig, log: Transport) -> Check:
    """Compares with the ingest time of a lease record that appears while we look.

    One that was there before shows only whether this clock is behind: how old it is, nobody knows.
    """
    topic = lease_topic(config.job.name)
    if topic not in log.topics():
        return Check("clock", "note", "not compared: no controller has ever held the lease")
    before = _last(log, topic)
    if before is not None and before.ingest_ms - wall_clock_ms() > CLOCK_DIFFERENCE_MAX_MS:
        return clock_check(wall_clock_ms() - before.ingest_ms)
    state = log.lease_state(config.job.name)
    deadline = time.monotonic() + RENEWALS_WAIT_S
    while state is not None and state.remaining_ms and time.monotonic() < deadline:
        time.sleep(POLL_S)
        last = _last(log, topic)
        if last is not None and (before is None or last.offset > before.offset):
            return clock_check(wall_clock_ms() - last.ingest_ms)
    return Check("clock", "note", "not compared: no controller renews its lease now")


def clock_check(ahead_ms: int) -> Check:
    """`ahead_ms`: this clock less the brokers', with what the reading took."""
    if abs(ahead_ms) <= CLOCK_DIFFERENCE_MAX_MS:
        return Check("clock", "good", "differs from the brokers' by less than a second")
    way = "ahead of" if ahead_ms > 0 else "behind"
    text = f"this machine's clock is {abs(ahead_ms) / 1_000:.1f} s {way} the brokers': "
    return Check("clock", "bad", f"{text}synchronise both (chrony, ntp)")


def _last(log: Transport, topic: str) -> LogRecord | None:
    """The last record of a topic with one partition."""
    start, end = log.start_offsets(topic)[0], log.end_offsets(topic)[0]
    found = log.read(topic, 0, max(start, end - 1), 1)
    return found[-1] if found else None


def _lease(config: JobConfig, log: Transport) -> Check:
    state = log.lease_state(config.job.name)
    return Check("lease", "good", _holder(state))


def _holder(state: LeaseState | None) -> str:
    if state is None:
        return "nobody has ever held it: no controller has run on this log"
    if not state.remaining_ms:
        return f"free; {state.holder} had it last (epoch {state.epoch})"
    left = f"{state.remaining_ms / 1_000:.1f} s"
    return f"held by {state.holder} (epoch {state.epoch}), for another {left}"


def _marker(config: JobConfig, log: Transport) -> Check:
    """What the job would say to marker and checkpoint at its start."""
    from streaming.checkpoint import (
        CheckpointError,
        check_against_log,
        check_against_marker,
        local_folder,
        read_facts,
    )

    marker, place = log.marker(config.job.name), config.job.checkpoint
    try:
        facts = None if local_folder(place) is None else read_facts(place)
        if facts is not None:
            check_against_log(facts, log, config.transport.shown)
            check_against_marker(facts.query_id, facts.batch_id, marker)
    except CheckpointError as error:
        return Check("marker", "bad", str(error))
    if marker is None:
        return Check("marker", "good", f"none: {config.job.name} has published nothing yet")
    text = f"batch {marker.batch_id} of query {marker.query_id} was published last"
    if local_folder(place) is None or (facts is not None and facts.query_id == marker.query_id):
        return Check("marker", "good", text)
    if not config.job.may_adopt:
        return Check("marker", "bad", f"{text}, by another checkpoint; job.may_adopt is false")
    would = "a controller with this one would adopt the log and rebuild its memory"
    return Check("marker", "note", f"{text}, by another checkpoint: {would}")
