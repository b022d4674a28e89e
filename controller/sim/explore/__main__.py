"""`python -m controller.sim.explore`: all reachable states of the small system, within bounds.

Exit status: 0 no violation, 1 a violation (its path and the command that replays it are printed),
130 interrupted.
"""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from controller.sim.explore.bounds import ALL_FAULTS, FULL, QUICK, Bounds
from controller.sim.explore.search import Facts, Search
from controller.sim.explore.tell import tell


def main(
    full: Annotated[bool, typer.Option("--full", help="All scopes of the full bound.")] = False,
    transfers: Annotated[int | None, typer.Option(min=0, help="One scope: orders.")] = None,
    splits: Annotated[int, typer.Option(min=0, max=1, help="One scope: orders.")] = 0,
    faults: Annotated[int, typer.Option(min=0, help="One scope: faults in total.")] = 2,
    kinds: Annotated[str, typer.Option(help="Kinds of faults, by comma; default all.")] = "",
    follow: Annotated[str | None, typer.Option("--replay", help="Path of a violation.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Explore production `step` and agents exhaustively: 2 brokers, 1 controller, 1 bundle."""
    scopes: tuple[Bounds, ...] = FULL if full else QUICK
    if transfers is not None:
        scopes = (_scope(transfers, splits, faults, kinds),)
    if follow is not None:
        path = tuple(int(part) for part in follow.split(".") if part)
        for line in tell(scopes[0], path):
            typer.echo(line)
        return
    found: list[Facts] = []
    try:
        for bounds in scopes:
            found.append(_explore(bounds, is_shown=not as_json))
            if found[-1].violation is not None:
                break
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        raise typer.Exit(130) from None
    if as_json:
        typer.echo(json.dumps([_plain(facts) for facts in found]))
    else:
        _summary(found)
    raise typer.Exit(1 if any(facts.violation for facts in found) else 0)


def _scope(transfers: int, splits: int, faults: int, kinds: str) -> Bounds:
    chosen = frozenset(kind.strip() for kind in kinds.split(",")) if kinds else ALL_FAULTS
    if not chosen <= ALL_FAULTS:
        names = ", ".join(sorted(ALL_FAULTS))
        raise typer.BadParameter(f"no kinds of faults: {sorted(chosen - ALL_FAULTS)}; try {names}")
    return Bounds("chosen", transfers, splits, faults, chosen)


def _explore(bounds: Bounds, *, is_shown: bool) -> Facts:
    console = Console(stderr=True)
    if is_shown:
        typer.echo(f"{bounds.name}: {bounds.text()}")
    with Live("", console=console, transient=True, refresh_per_second=2) as live:
        facts = Search(
            bounds, progress=lambda facts: live.update(_line(facts)) if is_shown else None
        ).run()
    if is_shown:
        typer.echo(f"  {_line(facts)}")
        if facts.violation is not None:
            _show_violation(facts)
    return facts


def _line(facts: Facts) -> str:
    line = (
        f"{facts.states:,} states, {facts.transitions:,} transitions, depth {facts.depth}, "
        f"frontier {facts.frontier:,}, {facts.seconds:,.0f} s, {facts.states_per_s:,.0f} states/s"
    )
    if facts.is_complete:
        line += f"; from {facts.settled:,} of them all gets settled"
        line += f", within {facts.units_max} units" if facts.settled == facts.states else ""
    return line


def _show_violation(facts: Facts) -> None:
    bounds = facts.bounds
    typer.echo(f"VIOLATION: {facts.violation}")
    for line in tell(bounds, facts.path):
        typer.echo(line)
    kinds = f" --kinds '{','.join(sorted(bounds.kinds))}'" if bounds.kinds != ALL_FAULTS else ""
    typer.echo(
        f"python -m controller.sim.explore --transfers {bounds.transfers} --splits "
        f"{bounds.splits} --faults {bounds.faults}{kinds} "
        f"--replay {'.'.join(map(str, facts.path))}"
    )


def _summary(found: list[Facts]) -> None:
    violations = sum(facts.violation is not None for facts in found)
    typer.echo(
        f"{sum(facts.states for facts in found):,} states in {len(found)} scopes, "
        f"{sum(facts.transitions for facts in found):,} transitions, "
        f"{sum(facts.seconds for facts in found):,.0f} s, {violations} violations"
    )


def _plain(facts: Facts) -> dict[str, object]:
    bounds = facts.bounds
    return {
        "scope": bounds.name,
        "bounds": bounds.text(),
        "states": facts.states,
        "transitions": facts.transitions,
        "depth": facts.depth,
        "settled": facts.settled,
        "units_max": facts.units_max,
        "step_calls": facts.step_calls,
        "handle_calls": facts.handle_calls,
        "seconds": round(facts.seconds, 1),
        "is_complete": facts.is_complete,
        "violation": facts.violation,
        "path": ".".join(map(str, facts.path)),
    }


if __name__ == "__main__":
    typer.run(main)
