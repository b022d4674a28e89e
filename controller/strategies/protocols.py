"""What a strategy is: three small protocols and the plain values that they return.

Contract for all: same arguments, same answer; views and memories are never changed (a new
memory is returned); every sort ends in a name or a bundle's order; at most the stated limits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from controller.strategies.memory import Memory
from controller.strategies.verdicts import Verdict
from controller.strategies.view import ClusterView, Ints

PLACED = -1
"""Destination of a transfer for which the place strategy is asked."""
UNNAMED = -2
"""Destination of an unload: the owner is chosen when the bundle is free."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """Move `bundle` from broker `source` to `destination` (indices of the view), or as named."""

    bundle: int
    source: int
    destination: int  # or PLACED, or UNNAMED
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Split:
    """Replace `bundle` by children cut at `boundaries` (ascending, strictly inside)."""

    bundle: int
    boundaries: tuple[int, ...]
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class ShedPlan:
    """Transfers in the order of their importance, the new memory, and all refusals.

    `skip` is the one reason why nothing was done at all, in Pulsar's words (`Skip/HitCount`),
    for strategies that have one; `figures` are statistics for the log.
    """

    transfers: tuple[Transfer, ...]
    memory: Memory
    verdicts: tuple[Verdict, ...] = ()
    skip: str | None = None
    figures: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class SplitPlan:
    """Splits, the new memory, and all refusals; `failures` are those that Pulsar counts as such."""

    splits: tuple[Split, ...]
    memory: Memory
    verdicts: tuple[Verdict, ...] = ()
    failures: int = 0


@dataclass(frozen=True, slots=True)
class Unowned:
    """A bundle that needs an owner."""

    name: str
    topics: int  # 0 = unknown
    load: float  # load ratio it had on its last owner, 0 = unknown
    avoid: int  # broker index it must not return to now, -1 = none
    pinned: int = -1  # broker index that it must go to, and that can take it; -1 = any
    at: int = -1  # its index in the view, -1 = it is new since the view was made
    candidates: Ints | None = None  # brokers to choose from, in order; None = all that are live


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen broker (view index, -1 = none) and the load ratio expected to come with it.

    `best` are the brokers that the strategy cannot tell apart; the choice is one of them.
    """

    broker: int
    load: float
    verdict: Verdict | None = None
    best: Sequence[int] = ()


class ShedStrategy(Protocol):
    """Chooses load to take off brokers, and where it goes."""

    def shed(self, view: ClusterView, memory: Memory) -> ShedPlan:
        """Called once per round that may act or count; returns at most what helps."""
        ...


class Placement(Protocol):
    """Placing several bundles on one view; each choice counts what was given away before."""

    @property
    def memory(self) -> Memory:
        """What to remember after the choices made so far."""
        ...

    def choose(self, bundle: Unowned) -> Choice:
        """Chooses an owner and books the bundle's expected load, count and topics on it.

        A pinned bundle goes to its broker, whatever speaks against that one.
        Booking k bundles must leave what beginning anew on a view with these k pending leaves,
        with the memory that they left.
        """
        ...


class PlaceStrategy(Protocol):
    """Chooses owners for bundles that have none."""

    def begin(self, view: ClusterView, memory: Memory) -> Placement:
        """Called when requests or orphans wait, and again whenever the view changed."""
        ...

    def after_shed(self, view: ClusterView, plan: ShedPlan, memory: Memory) -> Memory:
        """Called after each round with what was shed; returns what to remember of it."""
        ...


class SplitStrategy(Protocol):
    """Chooses bundles to split, and their boundaries."""

    def split(self, view: ClusterView, memory: Memory) -> SplitPlan:
        """Called once per round, before shedding."""
        ...
