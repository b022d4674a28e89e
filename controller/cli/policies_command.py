"""`bundlectl send policies`: a file that replaces all policies of a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from controller.cli.errors import CliError
from controller.cli.send_commands import Sender, command
from controller.wire.commands import Command, SetPolicies, encode_command
from controller.wire.policies import PolicySet, problem_of


def policies(
    to: Sender,
    file: Annotated[
        Path,
        typer.Argument(help="JSON file with all policies; {} ends them.", exists=True),
    ],
) -> Command:
    """Replace all policies: isolation, anti-affinity groups, failure domains.

    Bundles that are placed or moved from now on obey them; nothing is moved because of them.
    """
    order = SetPolicies(policies=_read(file))
    size, allowed = len(encode_command(order)), to.config.balance.limits.record_bytes_max
    if size > allowed:
        raise CliError(f"{file} makes a command of {size} bytes; allowed are {allowed}")
    return order


def register() -> None:
    """Adds it to `bundlectl send`."""
    command(policies)


def _read(file: Path) -> PolicySet:
    try:
        found = msgspec.json.decode(file.read_bytes(), type=PolicySet)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError, OSError) as error:
        raise CliError(f"{file} holds no policies: {error}") from error
    problem = problem_of(found)
    if problem is not None:
        raise CliError(f"{file}: {problem}")
    return found
