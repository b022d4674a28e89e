"""`bundlectl jars`: fetches and names the jars of Spark's Kafka reader and of the dev broker."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import typer

from controller.cli.errors import CliError
from controller.cli.options import ConfigOption, JsonOption, loaded
from controller.jars import (
    JarSet,
    broker_set,
    connector_set,
    coordinates,
    resolved,
)

RepositoryOption = Annotated[
    str | None,
    typer.Option(
        "--repository",
        metavar="URL",
        help="Maven repository (https, http or file); wins over transport.kafka.maven_repository.",
    ),
]


def jars(
    broker: Annotated[
        bool, typer.Option("--broker", help="Also those of the development broker.")
    ] = False,
    only_coordinates: Annotated[
        bool,
        typer.Option(
            "--coordinates", help="Fetch nothing; print what spark-submit --packages takes."
        ),
    ] = False,
    to: Annotated[
        Path | None,
        typer.Option(
            "--to",
            metavar="FOLDER",
            help="Copy them there: for images and offline machines, which name the folder in "
            "transport.kafka.connector.",
        ),
    ] = None,
    repository: RepositoryOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fetch the jars of Spark's Kafka reader, verify them, and print where they are."""
    if only_coordinates and (broker or to is not None):
        raise typer.BadParameter(
            "fetches nothing; omit --broker and --to", param_hint="--coordinates"
        )
    pyspark = installed_pyspark()
    connector, warning = connector_set(pyspark)
    if warning:
        typer.echo(f"bundlectl: {warning}", err=True)
    if only_coordinates:
        named = coordinates(pyspark)
        typer.echo(json.dumps(named, indent=2) if as_json else ",".join(named))
        return
    place = repository_of(repository, config)
    sets = {"connector": connector} | ({"broker": broker_set()} if broker else {})
    found = {name: _fetched(one, place, to) for name, one in sets.items()}
    if as_json:
        rows = {name: _rows(sets[name], paths) for name, paths in found.items()}
        typer.echo(json.dumps({"pyspark": pyspark, "warning": warning} | rows, indent=2))
        return
    for path in dict.fromkeys(path for paths in found.values() for path in paths):
        typer.echo(path)


def installed_pyspark() -> str:
    """Its version; raises `CliError` if there is none."""
    try:
        return version("pyspark")
    except PackageNotFoundError as error:
        raise CliError("PySpark is not installed: run make setup") from error


def repository_of(option: str | None, config: Path | None) -> str:
    """What the option says, else the configuration with its environment."""
    return option or loaded(config).transport.kafka.maven_repository


def _fetched(jar_set: JarSet, repository: str, to: Path | None) -> list[Path]:
    paths = resolved(jar_set, repository, is_thorough=True)
    return paths if to is None else [_copied(path, to.expanduser().absolute()) for path in paths]


def _copied(path: Path, folder: Path) -> Path:
    """Complete or not at all: somebody may be reading the one that is there."""
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f".{path.name}.{uuid4().hex}.part"
    try:
        shutil.copyfile(path, part)
        part.replace(folder / path.name)
    finally:
        part.unlink(missing_ok=True)
    return folder / path.name


def _rows(jar_set: JarSet, paths: Sequence[Path]) -> list[dict[str, Any]]:
    return [
        {"coordinate": jar.coordinate, "sha256": jar.sha256, "path": str(path)}
        for jar, path in zip(jar_set.jars, paths, strict=True)
    ]
