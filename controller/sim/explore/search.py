"""Breadth-first search through all reachable states, and what follows from each if all goes well.

States are packed into one integer each. The first violation found is one of the shortest; its
path is kept as the ordinals of the successors taken, which `replay` follows again. Called by
`__main__` and the tests.
"""

from __future__ import annotations

import gc
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass

from controller.sim.chaos.judge import Violation
from controller.sim.explore.bounds import Bounds
from controller.sim.explore.effects import State
from controller.sim.explore.world import Event, World

# Bits of each part in a packed state; `_pack` raises when one does not suffice.
WIDTHS = (26, 22, 22, 22, 18, 18, 10)
UNKNOWN = 255  # no number of units until the system is settled
Progress = Callable[["Facts"], None]


@dataclass(slots=True)
class Facts:
    """What one exploration has come to; also while it runs."""

    bounds: Bounds
    states: int = 0
    transitions: int = 0
    depth: int = 0
    frontier: int = 0
    settled: int = 0  # states from which the end was looked at
    units_max: int = 0  # until all is settled when nothing goes wrong any more
    step_calls: int = 0
    handle_calls: int = 0
    seconds: float = 0.0
    is_complete: bool = False
    violation: str | None = None
    path: tuple[int, ...] = ()  # ordinals of successors, from the start to the violation

    @property
    def states_per_s(self) -> float:
        """Pace so far."""
        return self.states / self.seconds if self.seconds else 0.0


class Search:
    """One exploration. `seen` and its columns have an entry for each state, in the order found."""

    def __init__(
        self,
        bounds: Bounds,
        *,
        states_max: int | None = None,
        is_checking_purity: bool = False,
        progress: Progress = lambda facts: None,
    ) -> None:
        self.world = World(bounds, is_checking_purity=is_checking_purity)
        self.facts = Facts(bounds)
        self.seen: dict[int, int] = {}
        self._packed: list[int] = []
        self._parents = array("L")
        self._ordinals = array("B")
        self._states_max = states_max
        self._progress = progress
        self._started = time.monotonic()

    def run(self) -> Facts:
        """Explores everything, then looks at the ends; stops at the first violation."""
        was_collecting = gc.isenabled()
        gc.disable()  # millions of objects, none of them garbage in a cycle
        try:
            if self._explore():
                self._settle()
        finally:
            self._tell()
            if was_collecting:
                gc.enable()
        return self.facts

    # ------------------------------------------------------------------------- all states

    def _explore(self) -> bool:
        """False if it ended before its time."""
        facts = self.facts
        try:
            self._add(self.world.start(), 0, 0)
        except Exception as error:
            self._fail(error, -1, 0)
            return False
        first = 0
        while first < len(self._packed):
            last = len(self._packed)
            facts.frontier, facts.depth = last - first, facts.depth + 1
            for number in range(first, last):
                if number % 4_096 == 0:
                    self._tell()
                if self._states_max is not None and len(self._packed) > self._states_max:
                    return False
                if not self._expand(number):
                    return False
            first = last
        facts.is_complete = True
        return True

    def _expand(self, number: int) -> bool:
        state, ordinal = unpack(self._packed[number]), 0
        seen, facts = self.seen, self.facts
        try:
            for _, following in self.world.successors(state):
                facts.transitions += 1
                packed = pack(following)
                if packed not in seen:
                    seen[packed] = len(self._packed)
                    self._packed.append(packed)
                    self._parents.append(number)
                    self._ordinals.append(ordinal)
                ordinal += 1
        except Exception as error:
            self._fail(error, number, ordinal)
            return False
        return True

    def _add(self, state: State, parent: int, ordinal: int) -> None:
        packed = pack(state)
        self.seen[packed] = len(self._packed)
        self._packed.append(packed)
        self._parents.append(parent)
        self._ordinals.append(ordinal)

    # ------------------------------------------------------------------------- their ends

    def _settle(self) -> None:
        """From each state follows what comes when nothing goes wrong; it ends in a cycle.

        All states of the cycle must be settled: the end is reached, and kept.
        """
        units = bytearray([UNKNOWN]) * len(self._packed)
        for number in range(len(self._packed)):
            if units[number] == UNKNOWN and not self._walk(number, units):
                return
            if number % 65_536 == 0:
                self.facts.settled = number
                self._tell()
        self.facts.settled = len(self._packed)
        self.facts.units_max = max(units, default=0)

    def _walk(self, number: int, units: bytearray) -> bool:
        """Walks on until a state whose end is known; false if the end is not as it must be."""
        path: list[tuple[int, int]] = []  # number, units that its fair event takes
        places: dict[int, int] = {}
        while units[number] == UNKNOWN:
            if number in places:
                cycle = [at for at, _ in path[places[number] :]]
                if not self._is_good(cycle):
                    return False
                for at in cycle:
                    units[at] = 0
                break
            places[number] = len(path)
            event, following = self.world.fair(unpack(self._packed[number]))
            path.append((number, int(event.what == "time")))
            number = self.seen[pack(following)]
        left = units[number]
        for at, takes in reversed(path):
            if units[at] == UNKNOWN:
                left = min(left + takes, UNKNOWN - 1)
                units[at] = left
        return True

    def _is_good(self, cycle: list[int]) -> bool:
        for number in cycle:
            if not self.world.is_settled(unpack(self._packed[number])):
                error = Violation("when nothing goes wrong any more, this never gets settled")
                self._fail(error, number, None)
                return False
        return True

    # ------------------------------------------------------------------------------ facts

    def _fail(self, error: Exception, number: int, ordinal: int | None) -> None:
        name = "" if isinstance(error, Violation) else f"{type(error).__name__}: "
        self.facts.violation = f"{name}{error}"
        path = [] if ordinal is None else [ordinal]
        while number > 0:
            path.append(self._ordinals[number])
            number = self._parents[number]
        self.facts.path = tuple(reversed(path))

    def _tell(self) -> None:
        facts, parts = self.facts, self.world.parts
        facts.states = len(self._packed)
        facts.step_calls, facts.handle_calls = parts.step_calls, parts.handle_calls
        facts.seconds = time.monotonic() - self._started
        self._progress(facts)


def pack(state: State) -> int:
    """One number for a state."""
    log, b1, b2, leader, inbox, late, budget = state
    if (
        log >> WIDTHS[0]
        or (b1 | b2) >> WIDTHS[1]
        or leader >> WIDTHS[3]
        or (inbox | late) >> WIDTHS[4]
        or budget >> WIDTHS[6]
    ):
        raise OverflowError(f"more parts than the packed form holds: {state}")
    packed = log
    for part, width in zip(state[1:], WIDTHS[1:], strict=True):
        packed = packed << width | part
    return packed


def unpack(packed: int) -> State:
    """The state of a number."""
    found = []
    for width in reversed(WIDTHS[1:]):
        found.append(packed & ((1 << width) - 1))
        packed >>= width
    return State(packed, *reversed(found))


def replay(bounds: Bounds, path: tuple[int, ...]) -> tuple[list[tuple[Event, State]], World, str]:
    """Follows a path again: its events with the states they lead to, and how it ended."""
    world = World(bounds)
    state, steps = world.start(), []
    for ordinal in path:
        try:
            for at, (event, following) in enumerate(world.successors(state)):
                if at == ordinal:
                    steps.append((event, following))
                    state = following
                    break
            else:
                raise LookupError(f"there is no successor {ordinal} after {len(steps)} steps")
        except (Violation, AssertionError) as error:
            return steps, world, str(error)
    return steps, world, ""
