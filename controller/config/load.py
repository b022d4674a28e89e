"""Loads a configuration: overrides over environment over file over defaults.

Environment: `BUNDLECTL_<TABLE>__<KEY>`, for example `BUNDLECTL_JOB__TRIGGER_MS=500` or
`BUNDLECTL_BALANCE__ROUNDS__INTERVAL_MS=30000`; names are not case-sensitive. Called by the CLI,
`streaming.main` and the demo; raises `ConfigError` and nothing else.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsError,
)
from pydantic_settings.sources import InitSettingsSource

from controller.config.checks import problems_in
from controller.config.errors import ConfigError, nearest, problems_of
from controller.config.models import ENV_DELIMITER, ENV_PREFIX, config_of, document_model
from controller.config.sections import JobConfig

OTHER_VARIABLES = frozenset({"BUNDLECTL_CACHE", "BUNDLECTL_CONFIG", "BUNDLECTL_FAULT"})
"""Variables of the same prefix that are not keys of the file."""

DOCUMENT = document_model()


@dataclass(frozen=True, slots=True)
class Layers:
    """What each layer says, as nested tables; the first that names a key wins, then defaults."""

    overrides: dict[str, Any]
    environment: dict[str, Any]
    file: dict[str, Any]


def load_config(
    path: str | Path | None, overrides: Mapping[str, object] | None = None
) -> JobConfig:
    """The checked configuration of a TOML file; None = defaults and environment only.

    `overrides` win over all; keys are nested tables or dotted names (`"job.trigger_ms"`).
    Raises `ConfigError` with every problem that was found.
    """
    return config_of_layers(layers_of(path, overrides), source_of(path))


def source_of(path: str | Path | None) -> str:
    """How messages name a file."""
    return "defaults" if path is None else str(path)


def layers_of(path: str | Path | None, overrides: Mapping[str, object] | None = None) -> Layers:
    """The layers of `load_config`, not yet validated; raises `ConfigError`."""
    source = source_of(path)
    _check_environment(source)
    table = {} if path is None else read_tables(path)
    try:
        environment = EnvSettingsSource(DOCUMENT)()
    except SettingsError as error:
        raise ConfigError(source, [f"environment: {error}"]) from error
    return Layers(_with_flat_spark_conf(_nested(overrides or {})), environment, table)


def read_tables(path: str | Path) -> dict[str, Any]:
    """The tables of a TOML file, not yet validated; raises `ConfigError`."""
    return _with_flat_spark_conf(_read(Path(path)))


def config_of_layers(layers: Layers, source: str) -> JobConfig:
    """The checked configuration of layers; raises `ConfigError`."""
    config = unchecked(layers, source)
    problems = problems_in(config)
    if problems:
        raise ConfigError(source, problems)
    return config


def unchecked(layers: Layers, source: str) -> JobConfig:
    """The configuration with every key in its range; relations between keys may not hold."""
    try:
        document = _layered(layers, source)()
    except ValidationError as error:
        raise ConfigError(source, problems_of(error, DOCUMENT)) from error
    return config_of(document, source)


def parse_override(text: str) -> tuple[str, object]:
    """`key=value` as given on a command line; the value as TOML, else as plain text."""
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise ConfigError("--set", [f"{text!r} must be table.key=value"])
    try:
        parsed: object = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value
    return key.strip(), parsed


def _layered(layers: Layers, source: str) -> type[BaseSettings]:
    """The document with the layers as its only sources."""
    tables = (layers.overrides, layers.environment, layers.file)

    class Layered(DOCUMENT):  # type: ignore[misc, valid-type]
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return tuple(InitSettingsSource(settings_cls, table) for table in tables)

    Layered.__name__ = source
    return Layered


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(str(path), ["there is no such file; see conf/embedded.toml"]) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), [f"cannot be read: {error}"]) from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(str(path), [f"is not valid TOML: {error}"]) from error


def _nested(overrides: Mapping[str, object]) -> dict[str, Any]:
    """Dotted names as nested tables."""
    tables: dict[str, Any] = {}
    for name, value in overrides.items():
        at = tables
        *parents, key = name.split(".")
        for part in parents:
            at = at.setdefault(part, {})
            if not isinstance(at, dict):
                raise ConfigError("--set", [f"{name}: {part} was given a value of its own before"])
        known = at.get(key)
        if isinstance(value, Mapping):
            nested = _nested(cast("Mapping[str, object]", value))
            at[key] = {**known, **nested} if isinstance(known, dict) else nested
        else:
            at[key] = value
    return tables


def _with_flat_spark_conf(tables: dict[str, Any]) -> dict[str, Any]:
    """`[job.spark_conf]` with `spark.a.b = 1` means the key "spark.a.b", quoted or not."""
    job = tables.get("job")
    if not isinstance(job, dict) or not isinstance(job.get("spark_conf"), dict):
        return tables
    return {**tables, "job": {**job, "spark_conf": dict(_flat(job["spark_conf"], ""))}}


def _flat(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, str(value).lower() if isinstance(value, bool) else str(value)


def _check_environment(source: str) -> None:
    """A misspelt variable would be ignored in silence; pydantic checks only nested ones."""
    tables = DOCUMENT.model_fields
    for name in sorted(os.environ):
        upper = name.upper()
        if not upper.startswith(ENV_PREFIX) or upper in OTHER_VARIABLES:
            continue
        first, delimiter, rest = upper.removeprefix(ENV_PREFIX).partition(ENV_DELIMITER)
        if first.lower() in tables and delimiter and rest:
            continue
        words = [f"{ENV_PREFIX}{table.upper()}{ENV_DELIMITER}<KEY>" for table in tables]
        hint = nearest(name, words)
        raise ConfigError(source, [f"environment: {name} is no setting; {hint}"])
