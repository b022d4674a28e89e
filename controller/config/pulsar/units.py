"""From Pulsar's units to ours: each takes the value of a key and returns that of our target."""

from __future__ import annotations

from typing import Any

MIB = 1_048_576


def as_is(value: Any) -> Any:
    """Nothing to do."""
    return value


def minutes(value: float) -> int:
    """Milliseconds."""
    return round(value * 60_000)


def seconds(value: float) -> int:
    """Milliseconds."""
    return round(value * 1_000)


def in_points(value: float) -> float:
    """Percent, which are points here."""
    return float(value)


def mebibytes(value: float) -> float:
    """Bytes."""
    return float(value) * MIB


def one_more(value: int) -> int:
    """Pulsar acts when a count is above its threshold, ours when the count is reached."""
    return value + 1


def positive_or_off(value: int) -> int:
    """0 or less switches a limit off; ours is written 0."""
    return max(0, value)


def namespaces(value: list[str]) -> list[str]:
    """Excluded namespaces in addition to those that are never moved."""
    return ["pulsar/system", *(one for one in value if one != "pulsar/system")]
