"""A configuration as nested tables, and those as TOML text; for `bundlectl config show`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from controller.config.models import DERIVED
from controller.config.sections import JobConfig


def as_tables(config: JobConfig) -> dict[str, Any]:
    """The configuration in the shape of its file: every key, plain values."""
    tables = asdict(config)
    del tables["source"]
    balance = tables["balance"]
    tables["limits"] = balance["limits"]
    tables["balance"] = {key: balance[key] for key in balance if key not in DERIVED}
    plain: dict[str, Any] = _plain(tables)
    return plain


def as_toml(tables: Mapping[str, Any], remarks: Mapping[str, str] | None = None) -> str:
    """TOML text of nested tables; `remarks` are one-line comments by dotted name."""
    return "\n".join(_lines(tables, "", remarks or {})).strip() + "\n"


def leaves(
    tables: Mapping[str, Any], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every key that is no table, by its path, in order."""
    for key, one in tables.items():
        if isinstance(one, Mapping):
            yield from leaves(one, (*path, key))
        else:
            yield (*path, key), one


def dotted(path: Iterable[str]) -> str:
    """A path as one name, quoted where TOML wants it."""
    return ".".join(_key(part) for part in path)


def differing(tables: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """What is in `tables` and not the same in `others`; a table that only they have is whole."""
    found = {}
    for key, one in tables.items():
        other = others.get(key)
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            if inner := differing(one, other):
                found[key] = inner
        elif key not in others or one != other:
            found[key] = one
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, tuple | list) else value


def _lines(table: Mapping[str, Any], name: str, remarks: Mapping[str, str]) -> Iterator[str]:
    values = {key: one for key, one in table.items() if not isinstance(one, Mapping)}
    if name and (values or not table):
        yield ""
        yield f"[{name}]"
    for key, one in values.items():
        remark = remarks.get(f"{name}.{_key(key)}".removeprefix("."))
        yield f"{_key(key)} = {_literal(one)}" + (f"  # {_printable(remark)}" if remark else "")
    for key, one in table.items():
        if isinstance(one, Mapping):
            yield from _lines(one, f"{name}.{_key(key)}".removeprefix("."), remarks)


def _printable(remark: str) -> str:
    """A comment may hold no control character."""
    return "".join(one if one.isprintable() else "?" for one in remark)


def _key(text: str) -> str:
    is_bare = bool(text) and all(c.isascii() and (c.isalnum() or c in "-_") for c in text)
    return text if is_bare else _literal(text)


def _literal(value: Any) -> str:
    """JSON and TOML agree on strings (DEL aside), numbers, booleans and lists."""
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
