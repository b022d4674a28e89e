"""One seed is one run; many seeds are a bench. Called by `__main__`, tests and the bench."""

from __future__ import annotations

import json
from dataclasses import dataclass

from controller.sim.chaos.judge import Violation
from controller.sim.chaos.kernel import Kernel
from controller.sim.chaos.nemesis import Nemesis
from controller.sim.chaos.people import People
from controller.sim.chaos.world import CHANNEL, Scale, World
from controller.transport.port import LogRecord

SCALE = Scale()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one seed; `violation` None means that all invariants held."""

    seed: int
    steps: int
    accepted: int
    losing: int
    unreadable: int
    violation: str | None
    trace: tuple[str, ...] = ()


def run_seed(seed: int, scale: Scale = SCALE, *, is_tracing: bool = False) -> Outcome:
    """Runs one seed: faults, then quiet, then a last look."""
    kernel = Kernel(seed, is_tracing=is_tracing)
    world = World(kernel, scale)
    if is_tracing:
        world.log.watchers.insert(0, lambda record: _tell_record(kernel, record))
    violation = None
    try:
        _run(kernel, world, scale)
    except Violation as error:
        violation = f"at {kernel.now_ms / 1_000:.3f} s: {error}"
    except Exception as error:
        if is_tracing:
            raise
        violation = f"at {kernel.now_ms / 1_000:.3f} s: {type(error).__name__}: {error}"
    judge = world.judge
    return Outcome(
        seed,
        kernel.steps,
        judge.accepted,
        judge.losing,
        judge.unreadable,
        violation,
        tuple(kernel.trace or ()),
    )


def _run(kernel: Kernel, world: World, scale: Scale) -> None:
    people, nemesis = People(world), Nemesis(world)
    world.start()
    people.start()
    kernel.later(kernel.random.randint(0, 3_000), nemesis.start)
    kernel.run(scale.faults_ms)
    kernel.tell("nemesis", "faults end")
    people.stop()
    nemesis.stop()
    kernel.run(scale.faults_ms + scale.quiet_ms)
    world.judge.ended()
    kernel.run(scale.faults_ms + scale.quiet_ms + scale.watched_ms)
    world.judge.ended()


def _tell_record(kernel: Kernel, record: LogRecord) -> None:
    if record.topic != CHANNEL:
        return
    try:
        fields = json.loads(record.value or b"null")
        text = (
            "tombstone" if fields is None else " ".join(f"{k}={fields[k]}" for k in _shown(fields))
        )
    except (ValueError, AttributeError, TypeError, KeyError):
        text = repr(record.value)
    kernel.tell("channel", f"{record.partition}@{record.offset} {record.key} {text}")


def _shown(fields: dict[str, object]) -> list[str]:
    """Fields of a record that a reader of the trace wants to see."""
    names = ("state", "versionId", "sourceBroker", "dstBroker", "force", "reason")
    return [name for name in names if name in fields]
