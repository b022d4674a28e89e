"""`python -m controller.sim.chaos`: many seeds on all cores, or one seed with its trace.

Exit status: 0 no violation, 1 a violation (its seed and the command that replays it are printed),
130 interrupted.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from typing import Annotated

import structlog
import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from controller.sim.chaos.run import Outcome, run_seed

CHUNK = 20  # seeds that one process runs before it tells of them
VIOLATIONS_SHOWN = 10


def main(
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="How many seeds to run.")] = 10_000,
    first: Annotated[int, typer.Option("--first", min=0, help="The first of them.")] = 0,
    seed: Annotated[int | None, typer.Option("--seed", help="Run this one alone.")] = None,
    trace: Annotated[bool, typer.Option("--trace", help="Print what happened (--seed).")] = False,
    jobs: Annotated[int, typer.Option("--jobs", min=1)] = os.cpu_count() or 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Run the production core and agents against faults, on simulated time."""
    be_quiet()
    if seed is not None:
        raise typer.Exit(_one(seed, trace))
    started = time.monotonic()
    try:
        outcomes = _many(range(first, first + seeds), jobs, is_shown=not as_json)
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        raise typer.Exit(130) from None
    bad = [outcome for outcome in outcomes if outcome.violation is not None]
    facts = {
        "seeds": len(outcomes),
        "steps": sum(o.steps for o in outcomes),
        "accepted_records": sum(o.accepted for o in outcomes),
        "losing_records": sum(o.losing for o in outcomes),
        "unreadable_records": sum(o.unreadable for o in outcomes),
        "violations": len(bad),
        "seconds": round(time.monotonic() - started, 1),
    }
    if as_json:
        typer.echo(json.dumps({**facts, "failed_seeds": {o.seed: o.violation for o in bad}}))
    else:
        typer.echo("  ".join(f"{name}={facts[name]:,}" for name in facts))
        for outcome in bad[:VIOLATIONS_SHOWN]:
            typer.echo(f"seed {outcome.seed}: {outcome.violation}")
            typer.echo(f"  python -m controller.sim.chaos --seed {outcome.seed} --trace")
    raise typer.Exit(1 if bad else 0)


def be_quiet() -> None:
    """Agents log what happens to them; a thousand simulated ones need not."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


def run_chunk(seeds: range) -> list[Outcome]:
    """Some seeds one after the other, in a process of their own."""
    be_quiet()
    return [run_seed(seed) for seed in seeds]


def _one(seed: int, is_tracing: bool) -> int:
    outcome = run_seed(seed, is_tracing=is_tracing)
    for line in outcome.trace:
        typer.echo(line)
    typer.echo(
        f"seed {seed}: {outcome.steps} steps, {outcome.accepted} records accepted, "
        f"{outcome.losing} lost: {outcome.violation or 'all invariants held'}"
    )
    return 0 if outcome.violation is None else 1


def _many(seeds: range, jobs: int, *, is_shown: bool) -> list[Outcome]:
    outcomes: list[Outcome] = []
    columns = (TextColumn("chaos"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, disable=not is_shown) as progress:
        task = progress.add_task("chaos", total=len(seeds))
        for found in _chunks(seeds, jobs):
            outcomes += found
            progress.update(task, advance=len(found))
    return sorted(outcomes, key=lambda outcome: outcome.seed)


def _chunks(seeds: range, jobs: int) -> Iterator[list[Outcome]]:
    parts = [seeds[at : at + CHUNK] for at in range(0, len(seeds), CHUNK)]
    with ProcessPoolExecutor(jobs) as pool:
        waiting: set[Future[list[Outcome]]] = {pool.submit(run_chunk, part) for part in parts}
        try:
            while waiting:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


if __name__ == "__main__":
    typer.run(main)
