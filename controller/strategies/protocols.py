"""What a strategy is: three small protocols and the plain values that they return.

Contract for all: same arguments, same answer; views and memories are never changed (a new
memory is returned); every sort ends in a name or a bundle's order; at most the stated limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from controller.strategies.verdicts import Verdict
from controller.strategies.view import ClusterView

Memory = Mapping[str, Mapping[str, int]]
"""Hit counts by kind ("low", "high", ...) and by broker or bundle name; kept between rounds."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """Move `bundle` from broker `source` to `destination` (indices of the view)."""

    bundle: int
    source: int
    destination: int
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
    """Transfers in the order of their importance, the new memory, and all refusals."""

    transfers: tuple[Transfer, ...]
    memory: Memory
    verdicts: tuple[Verdict, ...] = ()


@dataclass(frozen=True, slots=True)
class SplitPlan:
    """Splits, the new memory, and all refusals."""

    splits: tuple[Split, ...]
    memory: Memory
    verdicts: tuple[Verdict, ...] = ()


@dataclass(frozen=True, slots=True)
class Unowned:
    """A bundle that needs an owner."""

    name: str
    topics: int  # 0 = unknown
    load: float  # load ratio it had on its last owner, 0 = unknown
    avoid: int  # broker index it must not return to now, -1 = none
    pinned: int = -1  # broker index that it must go to, and that can take it; -1 = any


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen broker (view index, -1 = none) and the load ratio expected to come with it."""

    broker: int
    load: float
    verdict: Verdict | None = None


class ShedStrategy(Protocol):
    """Chooses load to take off brokers, and where it goes."""

    def shed(self, view: ClusterView, memory: Memory) -> ShedPlan:
        """Called once per round that may act or count; returns at most what helps."""
        ...


class Placement(Protocol):
    """Placing several bundles on one view; each choice counts what was given away before."""

    def choose(self, bundle: Unowned) -> Choice:
        """Chooses an owner and books the bundle's expected load, count and topics on it.

        A pinned bundle goes to its broker, whatever speaks against that one.
        Booking k bundles must leave what beginning anew on a view with these k pending leaves.
        """
        ...


class PlaceStrategy(Protocol):
    """Chooses owners for bundles that have none."""

    def begin(self, view: ClusterView) -> Placement:
        """Called when requests or orphans wait, and again whenever the view changed."""
        ...


class SplitStrategy(Protocol):
    """Chooses bundles to split, and their boundaries."""

    def split(self, view: ClusterView, memory: Memory) -> SplitPlan:
        """Called once per round, before shedding."""
        ...
