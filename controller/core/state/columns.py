"""Growable columns of numpy arrays with a slot per name: the store of bundles and brokers.

Rules: a slot is given to a name at first sight (the lowest free one) and keeps it until
`remove`; which slot a name gets depends only on the order of records, so any cut of a log into
batches gives the same slots. Only the first `size` rows of a column mean anything.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

MIN_ROWS = 64


@dataclass(frozen=True, slots=True)
class Column:
    """Type and empty value of one column; `width` > 0 makes rows of several numbers."""

    name: str
    dtype: str
    empty: float = 0
    width: int = 0

    def shape(self, rows: int) -> tuple[int, ...]:
        """Shape of the array that holds `rows` rows."""
        return (rows, self.width) if self.width else (rows,)


class Columns:
    """Names in slots, one numpy array per column. Mutable; `copy` before changing a kept one."""

    def __init__(self, layout: tuple[Column, ...]) -> None:
        self.layout = layout
        self.names: list[str] = []
        self.slots: dict[str, int] = {}
        self.free: list[int] = []
        self.arrays: dict[str, Array] = {c.name: _empty(c, MIN_ROWS) for c in layout}

    @property
    def size(self) -> int:
        """Number of slots in use or free; rows beyond it are empty."""
        return len(self.names)

    def __getitem__(self, column: str) -> Array:
        """The first `size` rows of a column, as a view that writes through."""
        return self.arrays[column][: len(self.names)]

    def __len__(self) -> int:
        return len(self.slots)

    def add(self, name: str) -> int:
        """Gives `name` the lowest free slot, with empty values."""
        if self.free:
            slot = heapq.heappop(self.free)
            self.names[slot] = name
        else:
            slot = len(self.names)
            self.names.append(name)
            self._grow(slot + 1)
        self.slots[name] = slot
        for column in self.layout:
            self.arrays[column.name][slot] = column.empty
        return slot

    def remove(self, name: str) -> None:
        """Frees the slot of `name`; its row becomes empty."""
        slot = self.slots.pop(name)
        self.names[slot] = ""
        for column in self.layout:
            self.arrays[column.name][slot] = column.empty
        heapq.heappush(self.free, slot)

    def copy(self) -> Columns:
        """An independent copy."""
        other = type(self)(self.layout)
        other.names = self.names.copy()
        other.slots = self.slots.copy()
        other.free = self.free.copy()
        other.arrays = {name: array.copy() for name, array in self.arrays.items()}
        return other

    def dump(self) -> Iterator[tuple[Column, Array]]:
        """Columns with their meaningful rows, for the state's encoder."""
        for column in self.layout:
            yield column, self[column.name]

    def restore(self, names: list[str], slots: dict[str, int], arrays: dict[str, Array]) -> None:
        """Takes over names ("" = free slot), their slots, and arrays.

        Columns that are missing become empty.
        """
        self.names = names
        self.slots = slots
        self.free = [slot for slot, name in enumerate(names) if not name]
        for column in self.layout:
            array = _empty(column, max(MIN_ROWS, len(names)))
            if column.name in arrays:
                array[: len(names)] = arrays[column.name]
            self.arrays[column.name] = array

    def _grow(self, rows: int) -> None:
        have = len(self.arrays[self.layout[0].name])
        if rows <= have:
            return
        for column in self.layout:
            array = _empty(column, max(rows, 2 * have))
            array[:have] = self.arrays[column.name]
            self.arrays[column.name] = array


def _empty(column: Column, rows: int) -> Array:
    return np.full(column.shape(rows), column.empty, dtype=column.dtype)
