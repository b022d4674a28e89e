"""Keys that change while the job runs: `set` commands over the configuration.

Rules: only keys that decide what is moved can be set; those that leases and time depend on need a
restart. A value has the type and the range that the file would ask for. `effective` gives one
frozen tree, so that a round sees one configuration from its beginning to its end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass, replace
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, get_type_hints

from controller.core.ranges import breach, rule_of
from controller.core.settings import Settings
from controller.strategies.registry import PLACE, SHED, SPLIT

ROOT = "balance."
Value = bool | int | float | str | list[str]

NAMED = {"shed": SHED, "place": PLACE, "split": SPLIT}
"""Keys whose value is the name of a strategy."""

TABLES = frozenset(
    {
        "avg",
        "overload",
        "threshold",
        "uniform",
        "transfer",
        "biggest_first",
        "least_resource",
        "message_rate",
        "usage",
        "filters",
        "thresholds",
        "weights",
    }
)
KEYS = frozenset(
    {
        "shed",
        "place",
        "split",
        "is_shed_enabled",
        "parity",
        "rounds.interval_ms",
        "windows.broker_history_ratio",
        "actions.moves_per_round_max",
        "actions.in_flight_max",
        "actions.in_flight_per_broker_max",
        "actions.overrides_per_round_max",
        "actions.bundle_cooldown_ms",
        "actions.no_return_ms",
        "actions.no_return_change_ratio",
        "actions.broker_cooldown_ms",
        "actions.excluded_namespaces",
    }
)


class KeyRefusedError(ValueError):
    """A key that cannot be set, or a value that it cannot have; the text says what to do."""


def dynamic_keys() -> list[str]:
    """All keys that can be set, as they stand in the file."""
    found = set(KEYS)
    for table in TABLES:
        found |= {f"{table}.{name}" for name in get_type_hints(type(getattr(Settings(), table)))}
    return sorted(ROOT + name for name in found)


def checked(settings: Settings, key: str, value: Value) -> Value:
    """The value as it will be kept; raises `KeyRefusedError`."""
    path = _path(key)
    kind = _kind(settings, path)
    fitting = _fitting(kind, value)
    if fitting is None:
        raise KeyRefusedError(f"{key} = {value!r} must be of type {_name(kind)}")
    known = NAMED.get(path[-1]) if len(path) == 1 else None
    if known is not None and fitting not in known:
        raise KeyRefusedError(f"{key} = {value!r} is no strategy; known are {', '.join(known)}")
    table = ".".join(("balance", *path[:-1]))
    problem = breach(rule_of(table, path[-1], kind), fitting)
    if problem is not None:
        raise KeyRefusedError(f"{key} = {value!r} {problem}")
    every = settings.rounds.upkeep_interval_ms
    if path == ["rounds", "interval_ms"] and isinstance(fitting, int) and fitting % every:
        raise KeyRefusedError(
            f"{key} = {value!r} must be a multiple of upkeep_interval_ms = {every}"
        )
    return fitting


def effective(settings: Settings, overrides: Mapping[str, Value]) -> Settings:
    """The settings with what was set; keys that this version does not know are passed over."""
    if not overrides:
        return settings
    frozen = ((k, tuple(v) if isinstance(v, list) else v) for k, v in sorted(overrides.items()))
    return _applied(settings, tuple(frozen))


@lru_cache(maxsize=64)
def _applied(settings: Settings, overrides: tuple[tuple[str, Any], ...]) -> Settings:
    for key, value in overrides:
        path = key.removeprefix(ROOT).split(".")
        try:
            checked(settings, key, list(value) if isinstance(value, tuple) else value)
        except KeyRefusedError:
            continue  # set by another version, or before the file changed
        settings = _with(settings, path, value)
    return settings


def _with(node: Any, path: list[str], value: Any) -> Any:
    head, *rest = path
    return replace(node, **{head: _with(getattr(node, head), rest, value) if rest else value})


def _path(key: str) -> list[str]:
    known = dynamic_keys()
    if key not in known:
        near = get_close_matches(key, known, n=1)
        hint = f"; did you mean {near[0]}?" if near else "; see bundlectl send set --list"
        raise KeyRefusedError(f"{key} cannot be set while the job runs{hint}")
    return key.removeprefix(ROOT).split(".")


def _kind(settings: Settings, path: list[str]) -> Any:
    node: Any = settings
    for part in path[:-1]:
        node = getattr(node, part)
    assert is_dataclass(node)
    return get_type_hints(type(node))[path[-1]]


def _fitting(kind: Any, value: Value) -> Value | None:
    """The value in the type of its key; None if it does not fit."""
    if kind is bool or isinstance(value, bool):
        return value if kind is bool and isinstance(value, bool) else None
    if kind is int:
        return value if isinstance(value, int) else None
    if kind is float:
        return float(value) if isinstance(value, int | float) else None
    if kind is str:
        return value if isinstance(value, str) else None
    return value if isinstance(value, list) else None


def _name(kind: Any) -> str:
    return kind.__name__ if kind in (bool, int, float, str) else "list of texts"
