"""The k largest bundles of a broker, in the coarse order of Pulsar's TopKBundles.

Bundles are compared by buckets, one after the other (NamespaceBundleStats.compareTo): throughput
in, throughput out and total rate rounded half up to a unit, then entities and cache size divided
down. Many bundles tie; the caller's order decides between them, so that a report does not depend
on the order of a map. Bundles without throughput have no place, whatever their rate. The
reporter calls this. Bundle figures are rows of seven as in `wire.reports.Report.bundle_stats`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

RATE_IN, RATE_OUT, BYTES_IN, BYTES_OUT, SESSIONS, TOPICS, CACHE = range(7)

THROUGHPUT_UNIT = 1e5  # byte/s
RATE_UNIT = 100.0  # msg/s
ENTITIES_UNIT = 500.0  # topics + consumers + producers
CACHE_UNIT = 1e5  # bytes


def buckets(stats: Floats) -> Floats:
    """[n, 5] whole numbers that decide the order, the weightiest first, of [n, 7] figures >= 0.

    Floats hold them exactly up to 2^53; figures beyond that have no neighbours to mix up.
    """
    return np.column_stack(
        (
            _half_up(stats[:, BYTES_IN] / THROUGHPUT_UNIT),
            _half_up(stats[:, BYTES_OUT] / THROUGHPUT_UNIT),
            _half_up((stats[:, RATE_IN] + stats[:, RATE_OUT]) / RATE_UNIT),
            (stats[:, SESSIONS] + stats[:, TOPICS]) // ENTITIES_UNIT,
            stats[:, CACHE] // CACHE_UNIT,
        )
    )


def top_k(stats: Floats, k: int, order: Ints, is_excluded: Bools | None = None) -> Ints:
    """Indices of the k largest of n bundles, the smallest of them first; fewer if there are fewer.

    stats: [n, 7] figures; order: n different numbers, of equal bundles the one with the greater
    counts as larger (ranks of their names); is_excluded: n, bundles that have no place (see
    `controller.load.namespaces.left_out`). k = 0 gives none; Pulsar may fail there. `ValueError`
    for a negative k.
    """
    if k < 0:
        raise ValueError(f"the {k} largest bundles")
    may = stats[:, BYTES_IN] + stats[:, BYTES_OUT] > 0.0
    if is_excluded is not None:
        may &= ~is_excluded
    candidates = np.flatnonzero(may)
    keys = buckets(stats[candidates]).T[::-1]  # lexsort wants the weightiest last
    ascending = candidates[np.lexsort((order[candidates], *keys))]
    return ascending[max(0, len(ascending) - k) :]


def _half_up(values: Floats) -> Floats:
    """Math.round of Java. floor(x + 0.5) is not the same: the sum may round up to a whole."""
    floor = np.floor(values)
    return floor + (values - floor >= 0.5)
