"""Averages of samples: Pulsar's short- and long-term windows.

One sample of a window of `max_samples`: n <- min(n + 1, max); value <- ((n - 1) * value + new) / n
(TimeAverageMessageData, pulsar.md §2.2). Samples count once per new report, not once per read
as in Pulsar. Arithmetic is done in float64 and stored in the column's own type.
"""

from __future__ import annotations

import numpy as np

from controller.core.state.columns import Columns
from controller.strategies.view import Floats, Ints

Sample = tuple[Ints, Floats, int]
"""(slots k, values k x 7 as `wire.reports.Report.bundle_stats`, ingest time in ms)"""


def add_samples(
    bundles: Columns, samples: list[Sample], short_samples: int, long_samples: int
) -> None:
    """Applies samples in order. A bundle that occurs k times is averaged k times, in waves."""
    if not samples:
        return
    slots = np.concatenate([s[0] for s in samples])
    values = np.concatenate([s[1] for s in samples])
    times = np.repeat([s[2] for s in samples], [len(s[0]) for s in samples])
    for wave in _waves(slots, bundles.size):
        _add_wave(bundles, slots[wave], values[wave], short_samples, long_samples)
        bundles["sampled_ms"][slots[wave]] = times[wave]


def _waves(slots: Ints, size: int) -> list[Ints]:
    """Splits positions so that no slot occurs twice in a wave and order is kept per slot."""
    counts = np.bincount(slots, minlength=size)
    if not len(slots) or counts.max() == 1:
        return [np.arange(len(slots))]
    by_slot = np.argsort(slots, kind="stable")
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    occurrence = np.empty(len(slots), np.int64)
    occurrence[by_slot] = np.arange(len(slots)) - starts
    return [np.flatnonzero(occurrence == k) for k in range(int(counts.max()))]


def _add_wave(
    bundles: Columns, slots: Ints, values: Floats, short_samples: int, long_samples: int
) -> None:
    new = values[:, :4]
    count = bundles["samples"][slots].astype(np.int64)
    for column, window in (("short", short_samples), ("long", long_samples)):
        n = np.minimum(count + 1, window).astype(np.float64)[:, None]
        old = bundles[column][slots].astype(np.float64)
        bundles[column][slots] = ((n - 1.0) * old + new) / n
    bundles["samples"][slots] = np.minimum(count + 1, long_samples)
    bundles["raw"][slots] = new
    bundles["sessions"][slots] = values[:, 4]
    bundles["topics"][slots] = values[:, 5]
