"""`bundlectl config import`: Pulsar's broker.conf into a TOML file of ours."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from controller.cli.errors import CliError
from controller.cli.import_report import print_report, report_json
from controller.config.load import Layers, config_of_layers, read_tables
from controller.config.pulsar.imported import import_properties
from controller.config.pulsar.properties import read_properties


def import_conf(
    broker_conf: Annotated[Path, typer.Argument(help="Pulsar's broker.conf.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File for the TOML, instead of standard output."),
    ] = None,
    base: Annotated[
        Path | None,
        typer.Option("--base", help="A TOML file of ours to which broker.conf is added."),
    ] = None,
    pulsar_defaults: Annotated[
        bool,
        typer.Option("--pulsar-defaults", help="Pulsar 4's defaults for keys that are left out."),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file of --output.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print TOML and report as one JSON document.")
    ] = False,
) -> None:
    """Turn a broker.conf into a configuration of ours, and account for every key of it.

    The TOML holds what differs from our defaults; the report is on stderr. A key that cannot be
    taken is an error in the report, and the exit status is 1; the others are taken. Values that do
    not fit together give no TOML.
    """
    if output is not None:
        _refuse(output, force)
    found = import_properties(
        read_properties(broker_conf), _base_tables(base), has_pulsar_defaults=pulsar_defaults
    )
    if output is not None and found.toml is not None:
        _write(output, found.toml)
    if as_json:
        typer.echo(report_json(found))
    else:
        print_report(found)
        _tell(output, found.toml)
    if found.errors:
        raise typer.Exit(1)


def _tell(output: Path | None, toml: str | None) -> None:
    """The TOML itself, or where it went."""
    if toml is None:
        typer.echo("bundlectl: no TOML is written, because values do not fit together", err=True)
    elif output is None:
        typer.echo(toml, nl=False)
    else:
        typer.echo(f"bundlectl: wrote {output}", err=True)


def _base_tables(base: Path | None) -> dict[str, Any]:
    """The tables of a file that is good by itself, without the environment."""
    if base is None:
        return {}
    tables = read_tables(base)
    config_of_layers(Layers({}, {}, tables), str(base))
    return tables


def _refuse(output: Path, force: bool) -> None:
    """Before any work: a file that is there stays, unless the operator says otherwise."""
    if output.exists() and not output.is_file():
        raise CliError(f"{output} is no file; name a file with --output")
    if output.exists() and not force:
        raise CliError(f"{output} exists; name another file, or overwrite it with --force")
    if not output.parent.is_dir():
        raise CliError(f"{output.parent} is no folder; make it first")


def _write(output: Path, toml: str) -> None:
    """Whole or not at all: a reader never sees half a file."""
    target = output.resolve()
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with part.open("x", encoding="utf-8") as file:
            file.write(toml)
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
