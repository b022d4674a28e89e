"""Which bundles are above a threshold for a split, why, and how far."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controller.strategies.params import ThresholdSplitParams
from controller.strategies.view import Bools, ClusterView, Floats, Ints

REASONS = ("topics", "sessions", "msg_rate", "bandwidth")
"""In the order in which they are looked at."""
PULSAR_REASONS = ("Topics", "Sessions", "MsgRate", "Bandwidth")
"""The same in Pulsar's metric."""
SESSIONS = 1


@dataclass(frozen=True, slots=True)
class Excess:
    """By bundle of the view, n each."""

    is_over: Bools
    reason: Ints  # index of REASONS: the first that holds
    times: Floats  # value / threshold of that reason; inf where the threshold is 0


def excess_of(view: ClusterView, params: ThresholdSplitParams, is_long_term: bool) -> Excess:
    """Compares topics, sessions, rate and throughput with their thresholds, strictly."""
    traffic = view.bundle_long if is_long_term else view.bundle_now
    values = (
        view.bundle_topics,
        view.bundle_sessions,
        traffic[:, 0] + traffic[:, 1],
        traffic[:, 2] + traffic[:, 3],
    )
    limits = (params.topics_max, params.sessions_max, params.rate_max, params.throughput_max)
    is_over = np.zeros(len(view.bundle_owner), np.bool_)
    reason = np.zeros(len(view.bundle_owner), np.int64)
    times = np.zeros(len(view.bundle_owner), np.float64)
    for index, (value, limit) in enumerate(zip(values, limits, strict=True)):
        if index == SESSIONS and limit <= 0:
            continue  # switched off
        first = ~is_over & (value > limit)
        reason[first] = index
        times[first] = value[first] / limit if limit > 0 else np.inf
        is_over |= first
    return Excess(is_over, reason, times)
