"""What a strategy is: three small protocols and the plain values that they return.

Contract for all: same arguments, same answer; views and memories are never changed (a new
memory is returned); every sort ends in a name or a bundle's order; at most the stated limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from controller.strategies.verdicts import Verdict
from controller.strategies.view import ClusterView, Ints

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
class PlacePlan:
    """`chosen[i]` is the broker index for the i-th bundle asked for, -1 = none."""

    chosen: tuple[int, ...]
    verdicts: tuple[Verdict, ...] = field(default=())


class ShedStrategy(Protocol):
    """Chooses load to take off brokers, and where it goes."""

    def shed(self, view: ClusterView, memory: Memory) -> ShedPlan:
        """Called once per round that may act or count; returns at most what helps."""
        ...


class PlaceStrategy(Protocol):
    """Chooses an owner for bundles that have none."""

    def place(self, view: ClusterView, bundles: Ints) -> PlacePlan:
        """Called for assignment requests and orphans; `bundles` are indices, in order."""
        ...


class SplitStrategy(Protocol):
    """Chooses bundles to split, and their boundaries."""

    def split(self, view: ClusterView, memory: Memory) -> SplitPlan:
        """Called once per round, before shedding."""
        ...
