"""The share of a broker's load ratio that each of its bundles accounts for."""

from __future__ import annotations

import numpy as np

from controller.core.state.columns import Columns
from controller.strategies.view import Floats, Ints


def attributed_load(bundles: Columns, brokers: Columns, serving: Ints) -> Floats:
    """Load ratio that each bundle accounts for on its broker: n floats, 0 where unserved.

    Proportional: half by its share of the broker's message rate, half by its share of the
    throughput, of what the broker's bundles report. The broker's background load is spread over
    its bundles with that, which errs on the side of moving less.
    """
    rate = bundles["short"][:, 0].astype(np.float64) + bundles["short"][:, 1]
    throughput = bundles["short"][:, 2].astype(np.float64) + bundles["short"][:, 3]
    served = serving >= 0
    at = serving[served]
    share = np.zeros(len(serving), np.float64)
    parts = np.zeros(len(serving), np.float64)
    for values in (rate, throughput):
        totals = np.bincount(at, values[served], minlength=brokers.size)[at]
        known = totals > 0.0
        share[np.flatnonzero(served)[known]] += values[served][known] / totals[known]
        parts[np.flatnonzero(served)[known]] += 1.0
    share = np.divide(share, parts, out=share, where=parts > 0.0)
    load = np.zeros(len(serving), np.float64)
    load[served] = share[served] * brokers["load"][at]
    return load
