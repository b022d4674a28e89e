"""`bundlectl`: run the job, an agent or the demo; steer it, ask it; look into file and log.

Spark, agents and the demo are imported inside their commands, so that the others start quickly.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer

from controller.cli import (
    config_commands,
    decide_command,
    dev_kafka_command,
    doctor_command,
    jars_command,
    log_commands,
    policies_command,
    run_command,
    send_commands,
    set_commands,
    status_command,
    topics_commands,
)
from controller.cli.errors import CliError, SentenceGroup
from controller.cli.java import require_java
from controller.cli.options import ConfigOption, SetOption, loaded
from controller.config.errors import nearest
from controller.transport.kafka.client_log import be_silent

app = typer.Typer(
    name="bundlectl",
    cls=SentenceGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Load-balance controller for Apache Pulsar-style brokers.",
    epilog="Exit status: 0 done, 1 error, 2 wrong usage; send: 3 no answer; demo: 4 not balanced, "
    "130 interrupted; run: 75 hung and was ended, 78 a restart cannot help.",
)
app.add_typer(config_commands.app, name="config")
app.add_typer(log_commands.app, name="log")
app.add_typer(topics_commands.app, name="topics")
set_commands.register()
policies_command.register()
app.add_typer(send_commands.app, name="send")
app.command("run")(run_command.run)
app.command("status")(status_command.status)
app.command("decide")(decide_command.decide)
app.command("doctor")(doctor_command.doctor)
app.command("jars")(jars_command.jars)
app.command("dev-kafka")(dev_kafka_command.dev_kafka)


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
) -> None:
    """Options of all commands; `--debug` is read by `SentenceGroup` too."""
    if not debug:
        be_silent()


@app.command("version")
def show_version() -> None:
    """Print the version."""
    try:
        typer.echo(version("bundle-controller"))
    except PackageNotFoundError as error:
        raise CliError("bundle-controller is not installed; run make setup") from error


@app.command("java", hidden=True)
def check_java() -> None:
    """Say which Java Spark will use, or what to do about it; the Makefile asks."""
    typer.echo(f"Java {require_java()}")


@app.command()
def agent(
    cluster: Annotated[str, typer.Option("--cluster", help="Cluster of the configuration.")],
    broker: Annotated[str, typer.Option("--broker", help="Broker id, as in channel records.")],
    config: ConfigOption = None,
    simulated: Annotated[
        bool, typer.Option("--simulated", help="Serve bundles in name only, with made-up load.")
    ] = False,
    own_log: Annotated[
        Path | None,
        typer.Option("--own-log", help="Where to record what is served (JSON lines)."),
    ] = None,
    set_: SetOption = None,
) -> None:
    """Run the agent of one broker, until SIGTERM or Ctrl-C."""
    if not simulated:
        raise typer.BadParameter(
            "only simulated brokers can be run from here; add --simulated", param_hint="--simulated"
        )
    found = loaded(config, set_)
    if cluster not in found.clusters:
        hint = nearest(cluster, found.clusters)
        raise CliError(f"{found.source} names no cluster {cluster!r}; {hint}")
    from controller.logs import configure_logs
    from controller.sim.process import run_agent

    configure_logs()
    raise typer.Exit(run_agent(found, cluster, broker, own_log))


@app.command()
def demo(
    seconds: Annotated[int, typer.Option("--seconds", min=1, help="Length after start-up.")] = 120,
    forever: Annotated[bool, typer.Option("--forever", help="Go on until Ctrl-C.")] = False,
    summary: Annotated[
        Path | None, typer.Option("--summary", help="File for the summary as JSON.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="TOML file; by default conf/demo.toml.")
    ] = None,
    kafka: Annotated[
        bool,
        typer.Option("--kafka", help="On a real Kafka broker, started for it and stopped again."),
    ] = False,
) -> None:
    """Show the controller at work: the real job, simulated brokers, a join, a death, a split."""
    require_java()
    from controller.demo.run import run_demo

    raise typer.Exit(
        run_demo(seconds, forever=forever, summary=summary, config=config, is_on_kafka=kafka)
    )


if __name__ == "__main__":
    app(prog_name="bundlectl")
