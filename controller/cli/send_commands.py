"""`bundlectl send`: an operator's commands, through the log, with the controller's answer.

What can be checked here is checked here (names, ranges, brokers that were heard); what depends on
the cluster's state is judged by the controller, whose answer is printed.
"""

from __future__ import annotations

import getpass
import inspect
import json
import secrets
import socket
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from controller.cli.amounts import boundaries_in, bundle_of, duration_ms, moment_ms
from controller.cli.errors import CliError
from controller.cli.opening import existing_log
from controller.cli.options import ConfigOption, JsonOption, SetOption, loaded
from controller.cli.sending import EXIT_STATUS, NO_ANSWER, Answer, Places, send
from controller.config import JobConfig
from controller.config.errors import nearest
from controller.transport.port import Transport
from controller.transport.recent import recent_keys
from controller.wire.commands import (
    Command,
    Drain,
    Pause,
    Pin,
    Resume,
    SplitBundle,
    Transfer,
    Undrain,
    Unload,
    Unpin,
)

app = typer.Typer(
    no_args_is_help=True,
    help="Send a command to the controller and print its answer.",
    epilog="Exit status: 0 accepted (or sent, with --no-wait), 1 refused or error, 2 wrong usage, "
    "3 no answer in time.",
)

RECENT_REPORTS = 5_000  # per partition: a broker that reports was heard among the last so many
HELP_WHY = (
    "Kept in the decision log beside what is done. Not asked for, because a command must not wait "
    "for words at night; without it the log says: no reason given."
)

BundleArgument = Annotated[
    str, typer.Argument(help="Bundle, as in tenant/namespace/0x00000000_0x80000000.")
]
BrokerArgument = Annotated[str, typer.Argument(help="Broker id, as in its load reports.")]


@dataclass(frozen=True, slots=True)
class Sender:
    """What all commands of one call share."""

    config: JobConfig
    log: Transport
    cluster: str
    is_forced: bool
    who: str

    def need_broker(self, broker: str) -> str:
        """Refuses a broker that was not heard lately: most likely it is mistyped."""
        section = self.config.clusters[self.cluster]
        keys = recent_keys(self.log, self.config.topics.load_reports, RECENT_REPORTS)
        prefix = f"{self.cluster}/"
        known = {key.removeprefix(prefix) for key in keys if key.startswith(prefix)}
        for topic in section.reports_topics:
            known |= recent_keys(self.log, topic, RECENT_REPORTS)
        if broker not in known and not self.is_forced:
            hint = nearest(broker, known) if known else "no broker reports"
            raise CliError(
                f"broker {broker!r} of {self.cluster} was not heard lately ({hint}); "
                "--force sends it all the same"
            )
        return broker


def _common(
    config: ConfigOption = None,
    set_: SetOption = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster", help="Cluster of the configuration; may be left out if it is the only one."
        ),
    ] = None,
    who: Annotated[
        str | None, typer.Option("--who", help="Who asks; by default user@host.")
    ] = None,
    why: Annotated[str | None, typer.Option("--why", "-m", help=HELP_WHY)] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Send it though the broker was not heard lately.")
    ] = False,
    wait: Annotated[
        str, typer.Option("--wait", help="How long to wait for the answer: 15s, 1m.")
    ] = "15s",
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Send and do not wait.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Options of every command."""


def command(body: Callable[..., Command], name: str | None = None) -> Callable[..., Command]:
    """Adds a command: its own arguments, then the common options; named as the function is.

    typer reads a function's signature, so the common ones stand in one place and are joined here.
    """
    own = list(inspect.signature(body, eval_str=True).parameters.values())[1:]
    common = list(inspect.signature(_common, eval_str=True).parameters.values())

    def run(**given: Any) -> None:
        options = {one.name: given.pop(one.name) for one in common}
        _run(body, given, **options)

    run.__doc__ = body.__doc__
    run.__signature__ = inspect.Signature([*own, *common])  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in [*own, *common]}
    app.command(name or body.__name__)(run)
    return body


def _run(
    body: Callable[..., Command],
    given: dict[str, Any],
    *,
    config: Path | None,
    set_: list[str] | None,
    cluster: str | None,
    who: str | None,
    why: str | None,
    force: bool,
    wait: str,
    no_wait: bool,
    as_json: bool,
) -> None:
    found = loaded(config, set_)
    wait_s = 0.0 if no_wait else duration_ms(wait) / 1_000
    name = _cluster(found, cluster)
    with closing(existing_log(found.transport)) as log:
        sender = Sender(
            found, log, name, force, who or f"{getpass.getuser()}@{socket.gethostname()}"
        )
        order = msgspec.structs.replace(
            body(sender, **given), who=sender.who, why=why, id=secrets.token_hex(8)
        )
        topics = found.topics
        places = Places(topics.commands, topics.decision_log, topics.dead_letters)
        if not as_json:
            typer.echo(f"{_tag(order)}: sent to {name} by {order.who}, id {order.id}")
        answer = send(log, places, name, order, wait_s)
    typer.echo(_as_json(name, order, answer) if as_json else _as_text(answer, wait, found))
    raise typer.Exit(EXIT_STATUS[answer.outcome])


@command
def transfer(to: Sender, bundle: BundleArgument, broker: BrokerArgument) -> Command:
    """Move a bundle to a broker: its owner closes it, then the broker serves it."""
    return Transfer(bundle=str(bundle_of(bundle)), destination=to.need_broker(broker))


@command
def unload(to: Sender, bundle: BundleArgument) -> Command:
    """Close a bundle on its owner; the controller chooses who serves it next."""
    return Unload(bundle=str(bundle_of(bundle)))


@command
def split(
    to: Sender,
    bundle: BundleArgument,
    at: Annotated[
        list[str] | None,
        typer.Option(
            "--at", help="Boundary, 0x… or decimal; may be repeated. Default: the middle."
        ),
    ] = None,
) -> Command:
    """Split a bundle in two, or at several boundaries."""
    found = bundle_of(bundle)
    if not found.range.splittable:
        raise typer.BadParameter(f"{found} is too narrow to be split")
    return SplitBundle(bundle=str(found), boundaries=boundaries_in(found.range, at or []))


@command
def drain(to: Sender, broker: BrokerArgument) -> Command:
    """Move all bundles off a broker and give it none, until undrain."""
    return Drain(broker=to.need_broker(broker))


@command
def undrain(to: Sender, broker: BrokerArgument) -> Command:
    """End a drain: the broker may be given bundles again."""
    return Undrain(broker=broker)


@command
def pin(
    to: Sender,
    bundle: BundleArgument,
    broker: Annotated[
        str | None, typer.Argument(help="Broker id; by default its present owner.")
    ] = None,
) -> Command:
    """Keep a bundle on a broker, until unpin; it comes back after a failure of the broker."""
    chosen = None if broker is None else to.need_broker(broker)
    return Pin(bundle=str(bundle_of(bundle)), broker=chosen)


@command
def unpin(to: Sender, bundle: BundleArgument) -> Command:
    """End a pin."""
    return Unpin(bundle=str(bundle_of(bundle)))


@command
def pause(
    to: Sender,
    for_: Annotated[
        str | None, typer.Option("--for", help="Resume by itself after so long: 10m, 1h30m.")
    ] = None,
    until: Annotated[
        str | None,
        typer.Option("--until", help="Resume by itself at an ISO time; UTC unless it says more."),
    ] = None,
) -> Command:
    """Stop balancing: no moves, no splits. Bundles without an owner still get one."""
    now_ms = time.time_ns() // 1_000_000
    if for_ is not None and until is not None:
        raise typer.BadParameter("give --for or --until, not both")
    if for_ is not None:
        return Pause(untilMs=now_ms + duration_ms(for_))
    return Pause(untilMs=None if until is None else moment_ms(until, now_ms))


@command
def resume(to: Sender) -> Command:
    """End a pause at once."""
    return Resume()


def _cluster(config: JobConfig, name: str | None) -> str:
    """The cluster that is meant; the only one need not be named."""
    known = sorted(config.clusters)
    if name is None and len(known) == 1:
        return known[0]
    if name is None:
        raise typer.BadParameter(
            f"{config.source} has several clusters, name one: {', '.join(known)}",
            param_hint="--cluster",
        )
    if name not in known:
        raise CliError(f"{config.source} names no cluster {name!r}; {nearest(name, known)}")
    return name


def _tag(command: Command) -> str:
    return str(type(command).__struct_config__.tag)


def _as_json(cluster: str, command: Command, answer: Answer) -> str:
    facts = {
        "id": command.id,
        "cluster": cluster,
        "outcome": answer.outcome,
        "command": msgspec.to_builtins(command),
        "decisions": [msgspec.to_builtins(one) for one in answer.decisions],
        "problems": list(answer.problems),
    }
    return json.dumps(facts, ensure_ascii=False)


def _as_text(answer: Answer, wait: str, config: JobConfig) -> str:
    if answer.outcome == NO_ANSWER:
        return (
            f"no answer within {wait}: is the controller running? Ask bundlectl status. The "
            "command stands in the log: a controller that comes back soon may still obey it"
        )
    lines = [": ".join([answer.outcome, *answer.problems])]
    for one in answer.decisions:
        way = " ".join(
            f"{word} {broker}"
            for word, broker in (("from", one.source), ("to", one.destination))
            if broker
        )
        children = f" into {', '.join(one.children)}" if one.children else ""
        lines.append(f"  {one.kind} {one.bundle} {way}{children} (version {one.version})")
    if answer.outcome == "unpublished":
        lines.append(_why_unpublished(answer.problems, config))
    return "\n".join(lines)


def _why_unpublished(problems: tuple[str, ...], config: JobConfig) -> str:
    if "observing" in problems:
        return "  decided, but not done: the controller only observes (job.act)"
    return (
        "  decided, but too late to be done (balance.actions.decision_ttl_ms = "
        f"{config.balance.actions.decision_ttl_ms}): send it again"
    )
