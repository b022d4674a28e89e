"""When a broker sends a load report: the rule of both reporters of Pulsar.

A report is compared with the last one that was sent, not with the last that was made. Sent if
forced (the broker's bundles moved, or it changed its role), or the last is too old, or something
changed by more than a threshold. The agents' reporter calls this.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reported:
    """Of one report, what decides whether the next one is worth sending; in + out."""

    rate: float  # msg/s
    throughput: float  # byte/s
    bundles: int
    usage: float  # fraction: `load_ratio` (modular) or `max_usage` (extensible)


def max_change(last: Reported, now: Reported) -> float:
    """Greatest change in percentage points; infinite if one of the amounts was 0 and is not."""
    return max(
        _change(last.rate, now.rate),
        _change(last.throughput, now.throughput),
        _change(last.bundles, now.bundles),
        100.0 * abs(now.usage - last.usage),
    )


def must_publish(
    *,
    is_forced: bool,
    age_ms: int,
    max_interval_ms: int,
    change_points: float,
    threshold_points: float,
) -> bool:
    """True if a report is to be sent; `age_ms` is that of the last one sent.

    Pulsar's names: loadBalancerReportUpdateMaxIntervalMinutes (15 there) and
    loadBalancerReportUpdateThresholdPercentage (10); both strictly greater.
    """
    return is_forced or age_ms > max_interval_ms or change_points > threshold_points


def _change(last: float, now: float) -> float:
    """Change in percent of the last; 0 stays 0, and anything else than 0 is infinitely more."""
    if last == 0.0:
        return 0.0 if now == 0.0 else math.inf
    return 100.0 * abs((last - now) / last)
