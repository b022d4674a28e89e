"""Dotted names of our file: whether there is such a key, what may stand there, who mentions it.

Asks the model of the document itself. Used by `controller.config.pulsar.imported`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from controller.config.load import DOCUMENT


def is_target(name: str) -> bool:
    """Whether our file has this key."""
    return _table_of(name) is not None


def range_problem(name: str, value: Any) -> str:
    """What is wrong with a value for this key, or nothing; the key must be there."""
    table = _table_of(name)
    if table is None:
        raise LookupError(f"{name} is no key of the file")
    try:
        table(**{name.rpartition(".")[2]: value})
    except ValidationError as error:
        text = error.errors(include_url=False)[0]["msg"]
        return text[:1].lower() + text[1:]
    return ""


def value_at(tables: Mapping[str, Any], name: str) -> Any:
    """The value of a key; None if the tables do not name it."""
    at: Any = tables
    for part in name.split("."):
        if not isinstance(at, Mapping) or part not in at:
            return None
        at = at[part]
    return at


def set_at(tables: dict[str, Any], name: str, value: Any) -> None:
    """Sets a key in nested tables."""
    *parents, key = name.split(".")
    for part in parents:
        tables = tables.setdefault(part, {})
    tables[key] = value


def named_in(sentence: str, names: Iterable[str]) -> list[str]:
    """The keys that the sentence of a check speaks of: in full, or as a word of their table.

    A sentence that begins with a table and names none of its keys speaks of all of them.
    """
    known = list(names)
    exact = [one for one in known if _speaks_of(sentence, one)]
    return exact or [one for one in known if sentence.startswith(f"[{one.rpartition('.')[0]}]")]


def _speaks_of(sentence: str, name: str) -> bool:
    table, _, key = name.rpartition(".")
    if re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", sentence):
        return True
    bare = re.search(rf"(?<![\w.]){re.escape(key)}(?!\w)", sentence)
    return sentence.startswith(f"[{table}]") and bare is not None


def _table_of(name: str) -> type[BaseModel] | None:
    """The model of the table that has this key."""
    *parents, key = name.split(".")
    at: Any = DOCUMENT
    for part in (*parents, key):
        if not (isinstance(at, type) and issubclass(at, BaseModel)) or part not in at.model_fields:
            return None
        table, at = at, at.model_fields[part].annotation
    is_table = isinstance(at, type) and issubclass(at, BaseModel)
    return None if is_table else table
