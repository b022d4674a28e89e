"""`bundlectl decide`: recorded scenarios through the strategies, without Spark or a log."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Annotated

import typer

from controller.cli.errors import CliError
from controller.decide.run import RUNNERS, Outcome, decide_lines


def decide(
    scenarios: Annotated[
        Path | None,
        typer.Argument(help="JSON lines, also gzipped (.gz); without a file, standard input."),
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option("--strategy", help="Class of Pulsar's, instead of what the lines name."),
    ] = None,
    parity: Annotated[
        bool,
        typer.Option("--parity", help="Decide as Pulsar 4.2 does, its known defects included."),
    ] = False,
    show_strategies: Annotated[
        bool, typer.Option("--list", help="Print the names that --strategy takes.")
    ] = False,
) -> None:
    """Decide recorded scenarios: one JSON line in, one answer out, in order.

    The forms are described in docs/decide.md. A bad line gets {"id", "error"} as its answer and a
    sentence on stderr; the others are still decided, and the exit status is 1.
    """
    if show_strategies:
        typer.echo("\n".join(RUNNERS))
        return
    if strategy is not None and strategy not in RUNNERS:
        raise typer.BadParameter(
            f"{strategy!r} is unknown; known are {', '.join(RUNNERS)}", param_hint="--strategy"
        )
    bad = 0
    with _opened(scenarios) as lines:
        for outcome in decide_lines(lines, strategy, parity=parity):
            sys.stdout.buffer.write(outcome.answer + b"\n")
            sys.stdout.buffer.flush()
            bad += _told(outcome)
    if bad:
        raise typer.Exit(1)


def _told(outcome: Outcome) -> bool:
    """Says on stderr what is wrong with a line; True if anything is."""
    if outcome.error is None:
        return False
    typer.echo(f"bundlectl: line {outcome.number}: {outcome.error}", err=True)
    return True


@contextmanager
def _opened(path: Path | None) -> Iterator[IO[bytes]]:
    if path is None:
        yield sys.stdin.buffer
        return
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines:
            yield lines  # type: ignore[misc]
    except (EOFError, gzip.BadGzipFile) as error:
        raise CliError(f"{path} cannot be unpacked: {error}") from error
