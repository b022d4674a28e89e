"""What a strategy remembers between rounds: small tables of numbers and texts by name.

It travels in the state of the cluster, so it is replayed exactly. A table is written anew, never
changed in place. Brokers that left the cluster are dropped by `only`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

Scalar = int | float | str
Memory = Mapping[str, Mapping[str, Scalar]]
"""By kind ("low", "history", ...) and by the name of a broker or bundle."""

BROKER_KINDS = frozenset({"low", "high", "history"})
"""Kinds whose names are brokers'."""


def counts(memory: Memory, kind: str) -> dict[str, int]:
    """A table of counts, to be changed freely."""
    return {name: int(value) for name, value in memory.get(kind, {}).items()}


def numbers(memory: Memory, kind: str) -> dict[str, float]:
    """A table of figures, to be changed freely."""
    return {name: float(value) for name, value in memory.get(kind, {}).items()}


def texts(memory: Memory, kind: str) -> dict[str, str]:
    """A table of names, to be changed freely."""
    return {name: str(value) for name, value in memory.get(kind, {}).items()}


def only(memory: Memory, brokers: Collection[str]) -> Memory:
    """The memory of the brokers that are left (Pulsar's onActiveBrokersChange)."""
    return {
        kind: {n: v for n, v in table.items() if n in brokers} if kind in BROKER_KINDS else table
        for kind, table in memory.items()
    }
