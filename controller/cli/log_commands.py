"""`bundlectl log`: looks into the log. Reads only; never creates a log."""

from __future__ import annotations

import json
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from controller.cli.errors import CliError
from controller.cli.opening import existing_log
from controller.cli.options import ConfigOption, JsonOption, loaded
from controller.config.errors import nearest
from controller.transport.place import TransportPlace
from controller.transport.port import LogRecord, Transport

app = typer.Typer(no_args_is_help=True, help="Look into the log: its topics, records and markers.")

PathOption = Annotated[Path | None, typer.Option("--path", "-p", help="File of an embedded log.")]

READ_MAX = 1_000
FOLLOW_S = 0.5


@app.command()
def topics(
    path: PathOption = None, config: ConfigOption = None, as_json: JsonOption = False
) -> None:
    """List topics: partitions and, for each of them, the offset after the last record."""
    with closing(existing_log(_place(path, config))) as log:
        ends = {name: log.end_offsets(name) for name in log.topics()}
    if as_json:
        rows = [{"topic": name, "end_offsets": ends[name]} for name in ends]
        typer.echo(json.dumps(rows))
        return
    for name, offsets in ends.items():
        text = " ".join(f"{number}:{end}" for number, end in sorted(offsets.items()))
        typer.echo(f"{name:<28} {len(offsets):>4} partitions   ends {text}")


@app.command()
def tail(
    topic: Annotated[str, typer.Argument(help="Name of the topic.")],
    path: PathOption = None,
    config: ConfigOption = None,
    lines: Annotated[
        int, typer.Option("--lines", "-n", min=0, help="Records per partition to begin with.")
    ] = 10,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Print the last records of a topic, oldest first."""
    place = _place(path, config)
    with closing(existing_log(place)) as log:
        names = log.topics()
        if topic not in names:
            raise CliError(f"{place.shown} has no topic {topic!r}; {nearest(topic, names)}")
        starts, ends = log.start_offsets(topic), log.end_offsets(topic)
        offsets = {number: max(starts[number], end - lines) for number, end in ends.items()}
        while True:
            found = _new_records(log, topic, offsets)
            for record in found:
                typer.echo(_line(record, as_json))
            if not found and not follow:
                return
            if not found:
                time.sleep(FOLLOW_S)


@app.command()
def marker(
    name: Annotated[
        str | None, typer.Argument(help="Name of the job; by default the configuration's.")
    ] = None,
    path: PathOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show which batch the job has published last."""
    wanted = name or loaded(config).job.name
    place = _place(path, config)
    with closing(existing_log(place)) as log:
        found = log.marker(wanted)
        if found is None:
            raise CliError(
                f"{place.shown} has no marker {wanted!r}: that job has published nothing"
            )
    facts = {
        "name": found.name,
        "query_id": found.query_id,
        "batch_id": found.batch_id,
        "epoch": found.epoch,
    }
    text = json.dumps(facts) if as_json else " ".join(f"{key}={facts[key]}" for key in facts)
    typer.echo(text)


def _place(path: Path | None, config: Path | None) -> TransportPlace:
    return loaded(config).transport if path is None else TransportPlace(path=str(path))


def _new_records(log: Transport, topic: str, offsets: dict[int, int]) -> list[LogRecord]:
    """Records from `offsets` on, in order of append; moves `offsets` behind them."""
    found: list[LogRecord] = []
    for partition, offset in offsets.items():
        batch = log.read(topic, partition, offset, READ_MAX)
        if batch:
            offsets[partition] = batch[-1].offset + 1
            found += batch
    return sorted(found, key=lambda one: (one.ingest_ms, one.sequence, one.partition))


def _line(record: LogRecord, as_json: bool) -> str:
    text = None if record.value is None else record.value.decode("utf-8", errors="replace")
    if not as_json:
        at = datetime.fromtimestamp(record.ingest_ms / 1_000, UTC).isoformat("T", "milliseconds")
        return f"{at} {record.partition}@{record.offset} {record.key or '-'} {text or '(null)'}"
    return json.dumps(
        {
            "sequence": record.sequence,
            "partition": record.partition,
            "offset": record.offset,
            "ingest_ms": record.ingest_ms,
            "key": record.key,
            "value": _value(text),
        },
        ensure_ascii=False,
    )


def _value(text: str | None) -> Any:
    """JSON inside JSON where the value is JSON, else its text."""
    try:
        return None if text is None else json.loads(text)
    except ValueError:
        return text
