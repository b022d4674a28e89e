"""`bundlectl dev-kafka`: a Kafka broker on this machine, for as long as the command runs."""

from __future__ import annotations

import signal
import socket
import threading
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from controller.cli.errors import CliError
from controller.cli.jars_command import RepositoryOption, repository_of
from controller.cli.java import require_java
from controller.cli.options import ConfigOption

PORT = 9092
POLL_S = 0.2

TEXT = """\
Kafka for development runs at {bootstrap} until Ctrl-C; {data}.
In the configuration:

  [transport]
  kind = "kafka"

  [transport.kafka]
  bootstrap_servers = "{bootstrap}"
"""


def dev_kafka(
    directory: Annotated[
        Path | None,
        typer.Option(
            "--directory",
            metavar="FOLDER",
            help="Where its data stay for the next time; without one they go at the end.",
        ),
    ] = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65_535, help="On 127.0.0.1; 0 takes a free one.")
    ] = PORT,
    repository: RepositoryOption = None,
    config: ConfigOption = None,
) -> None:
    """Run a Kafka broker of one node in the foreground: for development only."""
    require_java(who="Kafka")
    place = repository_of(repository, config)
    if port:
        _check_free(port)
    from controller.devkafka import Broker

    is_ending = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        is_ending.set()

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # until it runs: clears up, and ends
    with Broker(directory, port=port or None, repository=place) as broker:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, end)
        kept = "its data go with it" if directory is None else f"its data are in {directory}"
        typer.echo(TEXT.format(bootstrap=broker.bootstrap, data=kept))
        while not is_ending.wait(POLL_S):
            if not broker.is_running:
                raise CliError(f"the broker ended by itself; its last lines:\n{broker.tail()}")


def _check_free(port: int) -> None:
    """Says at once what the broker would say in a page."""
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as Kafka does
        try:
            one.bind(("127.0.0.1", port))
        except OSError as error:
            raise CliError(
                f"port {port} of 127.0.0.1 cannot be used ({error.strerror}): if that is Kafka, "
                "use it; else name another with --port, or 0 for a free one"
            ) from error
