"""Where each value in force comes from; for `bundlectl config show --origin`.

Read from the very layers that `load_config` puts together: the first that names a key gave its
value, and what none of them names is the default.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from controller.config.load import Layers, config_of_layers, layers_of, source_of
from controller.config.models import ENV_DELIMITER, ENV_PREFIX
from controller.config.sections import JobConfig
from controller.config.text import as_tables, dotted, leaves

Kind = Literal["default", "file", "environment", "--set"]


@dataclass(frozen=True, slots=True)
class Origin:
    """The layer of a value, and its name there: the path of the file, or the variable."""

    kind: Kind
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}".rstrip()


@dataclass(frozen=True, slots=True)
class Sourced:
    """A value in force with its origin."""

    value: Any
    origin: Origin


def load_with_origins(
    path: str | Path | None, overrides: Mapping[str, object] | None = None
) -> tuple[JobConfig, dict[str, Sourced]]:
    """What `load_config` returns, and each of its keys by dotted name; raises `ConfigError`."""
    layers = layers_of(path, overrides)
    config = config_of_layers(layers, source_of(path))
    sourced = {
        dotted(keys): Sourced(value, _origin(keys, layers, source_of(path)))
        for keys, value in leaves(as_tables(config))
    }
    return config, sourced


def _origin(keys: tuple[str, ...], layers: Layers, source: str) -> Origin:
    if _names(layers.overrides, keys):
        return Origin("--set")
    if _names(layers.environment, keys):
        return Origin("environment", _variable(keys))
    if _names(layers.file, keys):
        return Origin("file", source)
    return Origin("default")


def _names(tables: Any, keys: tuple[str, ...]) -> bool:
    for key in keys:
        if not isinstance(tables, Mapping) or key not in tables:
            return False
        tables = tables[key]
    return True


def _variable(keys: tuple[str, ...]) -> str:
    """The variable as it is spelt: of the key itself, or of the nearest table that it is in."""
    spelt = {name.upper(): name for name in os.environ}
    for length in range(len(keys), 0, -1):
        name = f"{ENV_PREFIX}{ENV_DELIMITER.join(keys[:length])}".upper()
        if name in spelt:
            return spelt[name]
    return ""
