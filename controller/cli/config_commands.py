"""`bundlectl config`: shows and checks a configuration."""

from __future__ import annotations

import json

import typer

from controller.cli.options import ConfigOption, JsonOption, SetOption, loaded
from controller.config import as_tables, as_toml

app = typer.Typer(no_args_is_help=True, help="Show or check a configuration.")


@app.command()
def show(config: ConfigOption = None, set_: SetOption = None, as_json: JsonOption = False) -> None:
    """Print every key with the value in force: defaults, file, environment and --set."""
    tables = as_tables(loaded(config, set_))
    typer.echo(json.dumps(tables, indent=2) if as_json else as_toml(tables), nl=as_json)


@app.command()
def check(config: ConfigOption = None, set_: SetOption = None) -> None:
    """Say whether a configuration can be used, and if not, all that is wrong with it."""
    found = loaded(config, set_)
    clusters = ", ".join(sorted(found.clusters))
    typer.echo(f"{found.source}: good (clusters: {clusters}; log: {found.transport.path})")
