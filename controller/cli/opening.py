"""Opens the log of a configuration for commands that look at it or write to it."""

from __future__ import annotations

from pathlib import Path

from controller.cli.errors import CliError
from controller.transport.place import TransportPlace, open_transport
from controller.transport.port import Transport


def existing_log(place: TransportPlace) -> Transport:
    """The log; a file that does not exist is an error, because opening would create it."""
    if place.kind == "embedded":
        path = Path(place.path)
        if not path.is_file() or not path.stat().st_size:
            raise CliError(
                f"there is no log {path}: name it with --path or --config, or start the controller"
            )
    return open_transport(place)
