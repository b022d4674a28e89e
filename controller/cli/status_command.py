"""`bundlectl status`: asks a controller's web server what it is doing, and prints it to be read."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Annotated, Any

import typer

from controller.cli.errors import CliError
from controller.cli.options import ConfigOption, JsonOption, SetOption, loaded
from controller.config import JobConfig

TIMEOUT_S = 5.0
ANY_ADDRESS = ("0.0.0.0", "::", "")  # what a server may listen on, but nobody can connect to

MEANINGS = {
    "standby": "waits for the checkpoint and the writer lease",
    "rebuilding": "reads the log up to now; decides nothing that is done",
    "warming_up": "watches until it knows the brokers; decides nothing yet",
    "acting": "decides, and its decisions are published",
    "observing": "decides and logs, publishes nothing (job.act)",
    "paused": "an operator paused balancing; bundles without an owner still get one",
    "safe_mode": "too many brokers are late: suspects the pipeline, moves nothing",
    "stopping": "is ending",
}


def status(
    config: ConfigOption = None,
    set_: SetOption = None,
    url: Annotated[
        str | None,
        typer.Option(
            "--url", help="Of the controller, as http://127.0.0.1:8080; wins over --config."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Say what the controller is doing: leading or standing by, since when, how far behind."""
    page = _page(url or _url(loaded(config, set_)))
    typer.echo(json.dumps(page, indent=2) if as_json else _text(page))


def _url(config: JobConfig) -> str:
    host, port = config.metrics.host, config.metrics.port
    if not port:
        raise CliError(
            f"{config.source} lets the system choose the port (metrics.port = 0): the controller "
            "logs it at its start (event=ready); name it with --url http://127.0.0.1:PORT"
        )
    return f"http://{'127.0.0.1' if host in ANY_ADDRESS else host}:{port}"


def _page(url: str) -> dict[str, Any]:
    address = f"{url.rstrip('/')}/status"
    try:
        with urllib.request.urlopen(address, timeout=TIMEOUT_S) as answer:
            page = json.load(answer)
    except (urllib.error.HTTPError, ValueError) as error:
        raise CliError(f"{address} does not answer as a controller ({error}): check it") from error
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise CliError(f"no controller answers at {address} ({reason}): is it running?") from error
    if not isinstance(page, dict) or "state" not in page:
        raise CliError(f"{address} does not answer as a controller: check the address")
    return page


def _text(page: dict[str, Any]) -> str:
    state = page["state"]
    lines = [
        f"{page['name']}: {state} since {page['since']}: {MEANINGS.get(state, '')}",
        f"  lease       {_lease(page['lease'])}",
        f"  checkpoint  {page['checkpoint']}",
    ]
    if page["query_id"] is not None:
        lines.append(f"  query       {page['query_id']}")
    if page["adopted"] is not None:
        adopted = page["adopted"]
        lines.append(
            f"  adopted     the log of query {adopted['query_id']}, published up to its batch "
            f"{adopted['batch_id']}"
        )
    if page["last_batch"] is not None:
        lines.append(f"  last batch  {page['last_batch']['id']} at {page['last_batch']['at']}")
    for name, one in page["clusters"].items():
        lines += _cluster(name, one)
    return "\n".join(lines)


def _lease(lease: dict[str, Any] | None) -> str:
    if lease is None:
        return "nobody's"
    whose = "held by this controller" if lease["is_held"] else f"held by {lease['holder']}"
    return f"{whose}, epoch {lease['epoch']}, for another {lease['remaining_ms'] / 1_000:.1f} s"


def _cluster(name: str, one: dict[str, Any]) -> list[str]:
    """The cluster's line, and its figures if it has any."""
    figures = one["snapshot"]
    if figures is None:
        return [f"  cluster {name}: {one['state']} since {one['since']}"]
    health = f", health {figures['health']}" if "health" in figures else ""
    return [
        f"  cluster {name}: {one['state']} since {one['since']}{health}, "
        f"{one['behind_ms'] / 1_000:.1f} s behind",
        f"    round {figures['round_number']}; brokers: {figures['brokers_live']} live, "
        f"{figures['brokers_silent']} silent, {figures.get('brokers_draining', 0)} draining",
        f"    bundles: {figures['bundles_owned']} of {figures['bundles']} owned, "
        f"{figures['in_flight']} in flight, {figures['requests']} waiting, "
        f"{figures.get('pins', 0)} pinned",
    ]
