"""`bundlectl send set` and `unset`: keys under [balance] that change while the job runs."""

from __future__ import annotations

from typing import Annotated

import typer

from controller.cli.send_commands import Sender, command
from controller.config import parse_override
from controller.config.pulsar.keys import KEYS
from controller.core.dynamic import ROOT, KeyRefusedError, checked, dynamic_keys
from controller.wire.commands import Command, SetKey, UnsetKey

KeyArgument = Annotated[
    str,
    typer.Argument(help="Key as in the file (balance.shed), or Pulsar's name of a dynamic key."),
]


def set_key(
    to: Sender,
    key: KeyArgument,
    value: Annotated[
        str, typer.Argument(help="Value, as in the file; in Pulsar's unit for its keys.")
    ],
) -> Command:
    """Set a balance key while the job runs, until unset.

    Rounds that begin after it use it; a strategy that is switched to begins with no hit counts.
    """
    ours, given = _named(key, parse_override(f"key={value}")[1])
    try:
        fitting = checked(to.config.balance, ours, given)  # type: ignore[arg-type]
    except KeyRefusedError as error:
        raise typer.BadParameter(str(error)) from error
    return SetKey(key=ours, value=fitting)


def unset_key(to: Sender, key: KeyArgument) -> Command:
    """Give a key the value of the configuration again."""
    return UnsetKey(key=_named(key, None)[0])


def register() -> None:
    """Adds both to `bundlectl send`."""
    command(set_key, "set")
    command(unset_key, "unset")


def _named(key: str, value: object) -> tuple[str, object]:
    """Our key and value for one of Pulsar's; others come back as they are."""
    theirs = KEYS.get(key)
    if theirs is None:
        return key, value
    if not theirs.is_dynamic:
        raise typer.BadParameter(f"{key} is not dynamic in Pulsar; name our key")
    dynamic = set(dynamic_keys())
    targets = [one for one in theirs.targets if one.startswith(ROOT) and one in dynamic]
    if len(targets) != 1:
        ours = " and ".join(targets) or "no key that can be set while the job runs"
        raise typer.BadParameter(f"{key} is {ours} here; name the one that is meant")
    try:
        return targets[0], None if value is None else theirs.convert(value)
    except (TypeError, ValueError) as error:
        raise typer.BadParameter(f"{key} = {value!r}: {error}") from error
