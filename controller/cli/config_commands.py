"""`bundlectl config`: shows and checks a configuration, and takes over Pulsar's."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from controller.cli.import_command import import_conf
from controller.cli.options import ConfigOption, JsonOption, SetOption, loaded
from controller.config import as_tables, as_toml, parse_override
from controller.config.origins import Sourced, load_with_origins

app = typer.Typer(no_args_is_help=True, help="Show, check or import a configuration.")
app.command("import")(import_conf)


@app.command()
def show(
    config: ConfigOption = None,
    set_: SetOption = None,
    as_json: JsonOption = False,
    origin: Annotated[
        bool,
        typer.Option(
            "--origin", help="Say where each value comes from: default, file, environment, --set."
        ),
    ] = False,
) -> None:
    """Print every key with the value in force: defaults, file, environment and --set."""
    if origin:
        _show_origins(config, set_, as_json)
        return
    tables = as_tables(loaded(config, set_))
    typer.echo(json.dumps(tables, indent=2) if as_json else as_toml(tables), nl=as_json)


@app.command()
def check(config: ConfigOption = None, set_: SetOption = None) -> None:
    """Say whether a configuration can be used, and if not, all that is wrong with it."""
    found = loaded(config, set_)
    clusters = ", ".join(sorted(found.clusters))
    typer.echo(f"{found.source}: good (clusters: {clusters}; log: {found.transport.path})")


def _show_origins(config: ConfigOption, set_: SetOption, as_json: bool) -> None:
    """Every key with its origin: a comment behind each TOML line, or an object of JSON."""
    found, sourced = load_with_origins(config, dict(parse_override(text) for text in set_ or ()))
    if as_json:
        typer.echo(json.dumps({name: _as_json(one) for name, one in sourced.items()}, indent=2))
        return
    remarks = {name: str(one.origin) for name, one in sourced.items()}
    typer.echo(as_toml(as_tables(found), remarks), nl=False)


def _as_json(one: Sourced) -> dict[str, object]:
    """`name` is the path of a file or a variable, and left out where there is neither."""
    shown: dict[str, object] = {"value": one.value, "origin": one.origin.kind}
    return {**shown, "name": one.origin.name} if one.origin.name else shown
