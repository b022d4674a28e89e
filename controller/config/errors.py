"""Turns what is wrong with a configuration into sentences: where, what value, what to do.

Used by `controller.config.load`.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from controller.config.models import ENV_DELIMITER, ENV_PREFIX


class ConfigError(ValueError):
    """The configuration cannot be used; each problem is one sentence, one per line."""

    def __init__(self, source: str, problems: Sequence[str]) -> None:
        self.source = source
        self.problems = tuple(problems)
        super().__init__("\n".join(f"{source}: {problem}" for problem in problems))


def problems_of(error: ValidationError, model: type[BaseModel]) -> list[str]:
    """One sentence for each error of the validation, in the order of the file."""
    return [_sentence(item, model) for item in error.errors(include_url=False)]


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint: the known word that is nearest, or all of them if none is near."""
    words = sorted(known)
    close = difflib.get_close_matches(word, words, n=1, cutoff=0.5)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"known are {', '.join(words)}"


def _sentence(item: Mapping[str, Any], model: type[BaseModel]) -> str:
    path = [str(part) for part in item["loc"] if part != "[key]"]
    table, key = ".".join(path[:-1]), path[-1] if path else ""
    variable = f"{ENV_PREFIX}{ENV_DELIMITER.join(path)}".upper()
    if variable in (name.upper() for name in os.environ):
        table = f"environment {variable}, {table}" if table else f"environment {variable}"
    if item["type"] == "extra_forbidden":
        word = "table" if isinstance(item["input"], dict) else "key"
        return f"{_place(table)}unknown {word} {key!r}; {nearest(key, _known(model, path[:-1]))}"
    text = item["msg"][:1].lower() + item["msg"][1:]
    return f"{_place(table)}{key} = {item['input']!r}: {text}"


def _place(table: str) -> str:
    return f"[{table}] " if table else ""


def _known(model: type[BaseModel], path: Sequence[str]) -> list[str]:
    """Keys of the table at `path`; a table of named tables is passed by any name."""
    at: Any = model
    for part in path:
        if isinstance(at, type) and issubclass(at, BaseModel):
            at = at.model_fields[part].annotation
        else:
            at = get_args(at)[1]
    return list(at.model_fields) if isinstance(at, type) and issubclass(at, BaseModel) else []
