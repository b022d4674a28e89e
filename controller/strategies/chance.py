"""Draws that can be replayed: a splitmix64 generator whose state is part of the memory.

Where Pulsar draws at random among brokers that it cannot tell apart, so do the strategies that
stand for its own, from this generator: the same memory gives the same draws.
Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

MASK = 0xFFFFFFFFFFFFFFFF
SEED = 0x9E3779B97F4A7C15
KIND = "chance"
"""Of the memory; its one entry is the state."""


class Chance:
    """One generator; `state` goes into the memory after the draws."""

    def __init__(self, state: int = SEED) -> None:
        self.state = state & MASK

    def below(self, n: int) -> int:
        """A number from 0 to n - 1; n at least 1. Biased by less than n / 2^64."""
        self.state = (self.state + SEED) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return ((z ^ (z >> 31)) * n) >> 64

    def one_of(self, some: Sequence[T]) -> T:
        """One of them; nothing is drawn where there is no choice."""
        return some[0] if len(some) == 1 else some[self.below(len(some))]
