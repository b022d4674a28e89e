"""What an import of Pulsar's configuration found, for people and as JSON; for `config import`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from controller.config.pulsar.classes import simple_name
from controller.config.pulsar.outcome import Imported, Problem
from controller.config.pulsar.properties import Entry
from controller.config.pulsar.values import text_of

Row = tuple[str, ...]
PACKAGE = "org.apache.pulsar."
PIPE_COLUMNS = 400
"""Width at most where no terminal shows the report: enough that no row is broken, for grep."""


def print_report(found: Imported) -> None:
    """The report on stderr: what was taken, what is another here, what is nothing here, errors."""
    is_terminal = sys.stderr.isatty()
    console = Console(
        stderr=True, markup=False, highlight=False, width=None if is_terminal else PIPE_COLUMNS
    )
    for title, heads, rows in _sections(found):
        if rows:
            console.print(_table(title, heads, rows))
    for note in found.notes:
        console.print(f"note: {found.source}: {note}", soft_wrap=True)
    for problem in found.errors:
        console.print(f"error: {sentence(found.source, problem)}", soft_wrap=True)
    console.print(_summary(found), soft_wrap=True)


def sentence(source: str, problem: Problem) -> str:
    """A problem as one line: file, lines, keys, values, what is wrong, what to do."""
    return f"{_places(source, problem.entries)}{problem.problem}; {problem.remedy}"


def report_json(found: Imported) -> str:
    """The whole outcome as one JSON document."""
    document = {
        "toml": found.toml,
        "taken": [
            {**_entry(one.entry), "ours": dict(one.ours), **({"why": one.why} if one.why else {})}
            for one in found.taken
        ],
        "otherDefaults": [
            {
                "key": one.key,
                "pulsar": one.pulsar,
                "pulsarHere": dict(one.pulsar_here),
                "ours": dict(one.ours),
                "why": one.why,
            }
            for one in found.other_defaults
        ],
        "withoutMeaning": [{**_entry(one.entry), "why": one.why} for one in found.without_meaning],
        "errors": [_error(found.source, one) for one in found.errors],
        "notes": list(found.notes),
        "otherKeys": found.other_keys,
    }
    return json.dumps(document, indent=2, ensure_ascii=False)


def _sections(found: Imported) -> Iterator[tuple[str, tuple[str, ...], list[Row]]]:
    """Title, heads and rows of each table."""
    taken: list[Row] = [
        (str(one.entry.line or "-"), _said(one.entry), _pairs(one.ours), one.why)
        for one in found.taken
    ]
    yield "Taken", ("line", "Pulsar", "here", "Pulsar's default; why ours is another"), taken
    others: list[Row] = [
        (_short(one.key, text_of(one.pulsar)), _pairs(one.pulsar_here), _pairs(one.ours), one.why)
        for one in found.other_defaults
    ]
    title = "Left out, and has another default here (--pulsar-defaults takes Pulsar's)"
    yield title, ("Pulsar's default", "would be here", "is here", "why"), others
    nothing: list[Row] = [
        (str(one.entry.line), _said(one.entry), one.why) for one in found.without_meaning
    ]
    yield "Has no meaning here", ("line", "Pulsar", "why"), nothing


def _table(title: str, heads: Iterable[str], rows: Iterable[Row]) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    for head in heads:
        table.add_column(head, overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def _summary(found: Imported) -> str:
    return (
        f"{found.source}: {len(found.taken)} keys taken, {len(found.other_defaults)} with another "
        f"default here, {len(found.without_meaning)} without meaning here, {len(found.errors)} "
        f"errors, {found.other_keys} keys not about load balance"
    )


def _said(entry: Entry) -> str:
    return _short(entry.key, entry.value.strip())


def _short(key: str, text: str) -> str:
    """Classes of Pulsar's are known by their simple names."""
    return f"{key} = {simple_name(text) if text.startswith(PACKAGE) else text}"


def _pairs(values: Mapping[str, Any]) -> str:
    return "\n".join(f"{name} = {json.dumps(value)}" for name, value in values.items())


def _places(source: str, entries: Iterable[Entry]) -> str:
    said = [
        f"{source}:{one.line}: {_said(one)}" if one.line else f"Pulsar's default {_said(one)}"
        for one in entries
    ]
    return " and ".join(said) + (": " if said else "")


def _entry(entry: Entry) -> dict[str, Any]:
    """`line` is null for Pulsar's default of a key that the file leaves out."""
    return {"line": entry.line or None, "key": entry.key, "value": entry.value.strip()}


def _error(source: str, problem: Problem) -> dict[str, Any]:
    """The first key stands for all; `with` are the others that it does not fit together with."""
    first, *others = [_entry(one) for one in problem.entries] or [
        {"line": None, "key": None, "value": None}
    ]
    return {
        "file": source,
        **first,
        "problem": problem.problem,
        "remedy": problem.remedy,
        **({"with": others} if others else {}),
    }
