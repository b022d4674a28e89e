"""One sentence for what an operator can put right; a traceback only with --debug.

Exit status: 0 done, 1 error, 2 usage. Called by `controller.cli.main`.
"""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from controller.config import ConfigError
from controller.devkafka import BrokerError
from controller.jars import JarsError
from controller.transport.errors import TransportError


class CliError(Exception):
    """The command cannot be carried out; the text is a sentence with the remedy."""


EXPECTED = (CliError, ConfigError, TransportError, JarsError, BrokerError, OSError)


class SentenceGroup(TyperGroup):
    """A group of commands whose expected errors end as a sentence on stderr and status 1."""

    def invoke(self, ctx: Any) -> Any:
        """Runs the command; see the class text."""
        try:
            return super().invoke(ctx)
        except EXPECTED as error:
            # A reader that has seen enough (`| head`) is no error; typer ends quietly.
            if ctx.params.get("debug") or isinstance(error, BrokenPipeError):
                raise
            typer.echo(f"bundlectl: {error}", err=True)
            raise typer.Exit(1) from error
