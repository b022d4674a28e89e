"""`bundlectl run`: the job in this process, or in a child that is started again when it ends."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from controller.cli.java import require_java
from controller.cli.options import ConfigOption, SetOption, loaded
from controller.config import ConfigError

StandbyOption = Annotated[
    bool,
    typer.Option(
        "--standby",
        help="Start Spark, wait without limit, and take over when the leader ends. With a "
        "job.checkpoint of its own also from one that hangs; metrics.port must be its own.",
    ),
]
SuperviseOption = Annotated[
    bool,
    typer.Option(
        "--supervise",
        help="Start it again when it ends, as systemd or Kubernetes would; not after a clean stop "
        "or when a restart cannot help (status 0, 78).",
    ),
]
AdoptOption = Annotated[
    bool | None,
    typer.Option(
        "--adopt/--no-adopt",
        help="Go on with a channel that another checkpoint published to, or refuse; wins over "
        "job.may_adopt.",
        show_default=False,
    ),
]


def run(
    config: ConfigOption = None,
    set_: SetOption = None,
    standby: StandbyOption = False,
    supervise: SuperviseOption = False,
    adopt: AdoptOption = None,
) -> None:
    """Run the controller: one Spark Structured Streaming job, until SIGTERM or Ctrl-C."""
    if config is None:
        raise typer.BadParameter("name a file with --config", param_hint="--config")
    overrides = list(set_ or ())
    if adopt is not None:
        overrides.append(f"job.may_adopt={str(adopt).lower()}")
    try:
        found = loaded(config, overrides)
    except ConfigError as error:
        typer.echo(f"bundlectl: {error}", err=True)
        raise typer.Exit(os.EX_CONFIG) from error
    require_java()
    if supervise:
        raise typer.Exit(_supervised(config, overrides, standby))
    from streaming.main import run_job

    raise typer.Exit(run_job(found, standby))


def _supervised(config: Path, overrides: list[str], is_standby: bool) -> int:
    from controller.logs import configure_logs
    from controller.supervise import Supervisor

    command = [sys.executable, "-m", "controller.cli.main", "run", "--config", str(config)]
    for override in overrides:
        command += ["--set", override]
    if is_standby:
        command.append("--standby")
    configure_logs()
    return Supervisor(command).run()
