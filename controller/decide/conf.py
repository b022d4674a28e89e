"""ServiceConfiguration fields of a scenario as the settings that the strategies read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from controller.config.pulsar.keys import ALIASES, KEYS, PulsarKey
from controller.core.settings import Settings
from controller.decide.scenario import ScenarioError

ROOT = "balance."
ALGORITHMS = frozenset(
    {
        "range_equally_divide",
        "topic_count_equally_divide",
        "specified_positions_divide",
        "flow_or_qps_equally_divide",
    }
)


def settings_of(conf: Mapping[str, Any], *, parity: bool) -> Settings:
    """Pulsar's defaults with what `conf` changes; raises `ScenarioError`."""
    settings = _defaults(parity)
    for name, value in conf.items():
        settings = _applied(settings, _proper(name, conf), value, name)
    return settings


def _proper(name: str, conf: Mapping[str, Any]) -> str:
    """The key that a misspelt twin stands for, if that has its default."""
    proper = ALIASES.get(name)
    if proper is None:
        return name
    return proper if conf.get(proper, KEYS[proper].default) == KEYS[proper].default else ""


@lru_cache(maxsize=2)
def _defaults(parity: bool) -> Settings:
    settings = replace(Settings(), parity=parity)
    for name, key in KEYS.items():
        if key.default is not None:
            settings = _applied(settings, name, key.default, name)
    return settings


def _applied(settings: Settings, name: str, value: Any, said: str) -> Settings:
    if not name:
        return settings
    key = KEYS.get(name)
    if key is None:
        raise ScenarioError("no such field of ServiceConfiguration", f"conf.{said}")
    _check(key, value, f"conf.{said}")
    targets = [target for target in key.targets if target.startswith(ROOT)]
    if not targets:
        return settings
    try:
        ours = key.convert(value)
    except (ValueError, OverflowError) as error:
        raise ScenarioError(str(error), f"conf.{said}") from None
    for target in targets:
        settings = _set(settings, target.removeprefix(ROOT).split("."), ours)
    return settings


def _check(key: PulsarKey, value: Any, place: str) -> None:
    """The type of the default, as Java has it."""
    wanted = type(key.default)
    if wanted is bool or isinstance(value, bool):
        fits = wanted is bool and isinstance(value, bool)
    elif wanted in (int, float):
        fits = isinstance(value, int | float) and math.isfinite(value)
        fits = fits and (wanted is float or float(value).is_integer())
    elif wanted is list:
        fits = isinstance(value, list) and all(isinstance(one, str) for one in value)
    else:
        fits = wanted is type(None) or isinstance(value, wanted)
    if not fits:
        raise ScenarioError(f"{value!r} is no {wanted.__name__}", place)
    if place.endswith("SplitAlgorithm") and value not in ALGORITHMS:
        raise ScenarioError(f"{value!r} is no split algorithm", place)


def _set(node: Any, path: list[str], value: Any) -> Any:
    head, *rest = path
    inner = _set(getattr(node, head), rest, value) if rest else value
    return replace(node, **{head: tuple(inner) if isinstance(inner, list) else inner})
