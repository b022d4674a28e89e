"""What an exploration covers: how many orders and faults of which kinds a path may hold.

Times are those of `times`, which also bound how long a leader may be paused, a close may hang and
a copy of a record may be on its way; how long an agent is in trouble, the length of a path and the
time that passes on it are not bounded.
"""

from __future__ import annotations

from dataclasses import dataclass

from controller.sim.explore.parts import Budget

CRASH_AGENT = "crash of an agent"
CRASH_LEADER = "crash of the leader"  # between publishing and knowing it
STANDBY = "take-over by the standby"  # the leader is dead or cut off; counts as a crash
DUPLICATE = "duplicate"  # lost acknowledgement, or a copy that arrives later
REORDER = "reorder"  # a record that arrives later than newer ones, a batch that misses some
DELAY = "delay"  # a process that does nothing, or little, for as long as it likes

ALL_FAULTS = frozenset({CRASH_AGENT, CRASH_LEADER, STANDBY, DUPLICATE, REORDER, DELAY})


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of one scope."""

    name: str
    transfers: int
    splits: int
    faults: int  # in total, of any of the kinds
    kinds: frozenset[str] = ALL_FAULTS

    @property
    def budget(self) -> Budget:
        """At the beginning of each path."""
        return Budget(self.transfers, self.splits, self.faults, STANDBY in self.kinds)

    def text(self) -> str:
        """One line for reports."""
        kinds = ", ".join(sorted(self.kinds)) if self.kinds != ALL_FAULTS else "all kinds"
        return (
            f"2 brokers, 1 bundle, {self.transfers} transfers, {self.splits} splits, "
            f"{self.faults} faults ({kinds})"
        )


CRASHES = frozenset({CRASH_AGENT, CRASH_LEADER, STANDBY})
MESSAGES = frozenset({CRASH_AGENT, DUPLICATE, REORDER})

QUICK = (
    Bounds("transfer", 1, 0, 1),
    Bounds("split", 0, 1, 1),
    Bounds("transfer, messages", 1, 0, 2, frozenset({DUPLICATE, REORDER})),
)
FULL = (
    *QUICK,
    Bounds("all orders", 2, 1, 1),
    Bounds("transfer, two faults", 1, 0, 2),
    Bounds("split, two faults", 0, 1, 2),
    Bounds("transfers, messages", 2, 0, 2, MESSAGES),
    Bounds("transfer and split, crashes", 1, 1, 2, CRASHES),
)
