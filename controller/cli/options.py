"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from controller.config import JobConfig, load_config, parse_override

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        envvar="BUNDLECTL_CONFIG",
        help="TOML file; conf/embedded.toml explains every key. Without one, defaults.",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", "-s", help="A key that wins over file and environment: job.trigger_ms=500."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def loaded(config: Path | None, overrides: list[str] | None = None) -> JobConfig:
    """The configuration that the options ask for; raises `ConfigError`."""
    return load_config(config, dict(parse_override(text) for text in overrides or ()))
