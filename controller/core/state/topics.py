"""Loads of single topics, as agents report them for some bundles: packed, and bounded in all.

The memory holds them as bytes, 12 a topic: hashes (u4, ascending), then rates and throughputs
(f4). They are replaced by each report of the bundle and are read only where a split asks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from controller.wire.topics import TopicLoads

TOPIC_BYTES = 12


def packed(loads: TopicLoads) -> bytes:
    """Topics in the order of their hashes; equal hashes in the order of the report."""
    order = np.argsort(loads.hashes, kind="stable")
    return b"".join(
        (
            loads.hashes[order].astype("<u4").tobytes(),
            loads.rates[order].astype("<f4").tobytes(),
            loads.throughputs[order].astype("<f4").tobytes(),
        )
    )


def unpacked(data: bytes) -> TopicLoads:
    """The reverse of `packed`."""
    count = len(data) // TOPIC_BYTES
    hashes = np.frombuffer(data, "<u4", count)
    rates, throughputs = np.frombuffer(data, "<f4", 2 * count, 4 * count).reshape(2, count)
    return TopicLoads(
        hashes.astype(np.int64), rates.astype(np.float64), throughputs.astype(np.float64)
    )


def count_of(data: bytes) -> int:
    """How many topics are packed."""
    return len(data) // TOPIC_BYTES


class KnownTopics(Mapping[int, TopicLoads]):
    """Topics by bundle slot, unpacked when they are asked for."""

    def __init__(self, packed_by_name: Mapping[str, bytes], slots: Mapping[str, int]) -> None:
        self._packed = {slots[name]: data for name, data in packed_by_name.items() if name in slots}

    def __getitem__(self, bundle: int) -> TopicLoads:
        return unpacked(self._packed[bundle])

    def __iter__(self) -> Iterator[int]:
        return iter(self._packed)

    def __len__(self) -> int:
        return len(self._packed)
