"""Pydantic models of the file's tables, made from the frozen classes that the program reads.

One source for names, types and defaults (the dataclasses) and one for ranges
(`controller.config.ranges`): a new field is settable, checked and shown without another line.
Used by `controller.config.load`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, cast, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, create_model
from pydantic import Field as ModelField
from pydantic_settings import BaseSettings, SettingsConfigDict

from controller.config.ranges import rule_of
from controller.config.sections import JobConfig
from controller.core.settings import Settings

ENV_PREFIX = "BUNDLECTL_"
ENV_DELIMITER = "__"

DERIVED = frozenset(
    {"limits", "reports_topic", "commands_topic", "channel_topic", "is_paced_by_ticks"}
)
"""Fields of the core's settings that do not stand under [balance]."""

_STRICT = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class _Table(BaseModel):
    model_config = _STRICT


class _Root(BaseSettings):
    model_config = SettingsConfigDict(
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        env_prefix=ENV_PREFIX,
        env_nested_delimiter=ENV_DELIMITER,
        nested_model_default_partial_update=True,
    )


def table_model(kind: type, table: str) -> type[BaseModel]:
    """The model of one table; nested dataclasses are nested tables."""
    hints = get_type_hints(kind)
    members = {
        one.name: _member(one, hints[one.name], table)
        for one in fields(kind)
        if not (kind is Settings and one.name in DERIVED)
    }
    model = create_model(f"{kind.__name__}Table", __base__=_Table, **cast(Any, members))
    return cast("type[BaseModel]", model)


def document_model() -> type[BaseSettings]:
    """The model of a whole file."""
    hints = get_type_hints(JobConfig)
    members: dict[str, Any] = {}
    for one in fields(JobConfig):
        if one.name == "source":
            continue
        members[one.name] = _member(one, hints[one.name], "")
        if one.name == "balance":
            limits = table_model(get_type_hints(Settings)["limits"], "limits")
            members["limits"] = (limits, ModelField(default_factory=limits))
    model = create_model("Document", __base__=_Root, **members)
    return cast("type[BaseSettings]", model)


def config_of(document: BaseModel, source: str) -> JobConfig:
    """The frozen configuration of a valid document."""
    values: dict[str, Any] = document.model_dump()
    values["balance"]["limits"] = values.pop("limits")
    return cast(JobConfig, _frozen(JobConfig, {**values, "source": source}))


def _member(one: Field[Any], kind: Any, table: str) -> tuple[Any, Any]:
    """Type and default of one key, as `create_model` wants them."""
    name = f"{table}.{one.name}".removeprefix(".")
    if is_dataclass(kind):
        model = table_model(cast(type, kind), name)
        return model, ModelField(default_factory=model)
    if get_origin(kind) is Mapping and is_dataclass(get_args(kind)[1]):
        model = table_model(get_args(kind)[1], name)
        return dict[str, model], ModelField(default_factory=lambda: _named_defaults(one, model))  # type: ignore[valid-type]
    rule = rule_of(table, one.name, kind)
    if one.default is not MISSING:
        return kind, ModelField(default=one.default, **rule)
    return kind, ModelField(default_factory=one.default_factory, **rule)  # type: ignore[arg-type]


def _named_defaults(one: Field[Any], model: type[BaseModel]) -> dict[str, BaseModel]:
    """The default of a table of named tables."""
    return {name: model() for name in cast(Any, one.default_factory)()}


def _frozen(kind: type, values: Mapping[str, Any]) -> Any:
    hints = get_type_hints(kind)
    return kind(**{name: _value(hints[name], value) for name, value in values.items()})


def _value(kind: Any, value: Any) -> Any:
    if is_dataclass(kind):
        return _frozen(cast(type, kind), value)
    if get_origin(kind) is Mapping and is_dataclass(get_args(kind)[1]):
        return {name: _frozen(get_args(kind)[1], one) for name, one in value.items()}
    return value
