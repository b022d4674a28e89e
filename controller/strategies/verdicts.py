"""Reasons and verdicts: why a candidate was not chosen.

Bands (house rule): 100 balanced, 200 waiting, 300 policy, 400 data, 500 capacity. `pulsar` is
the label of Pulsar's UnloadDecision.Reason that comes nearest; it feeds the metric
`pulsar_lb_unload_broker_breakdown_total`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class Reason(Enum):
    """One reason for a no: (band code, name in logs and metrics, Pulsar's label)."""

    BALANCED = (100, "balanced", "HitCount")
    HIT_COUNT = (200, "hit_count", "HitCount")
    COOL_DOWN = (210, "cool_down", "CoolDown")
    WARM_UP = (230, "warm_up", "CoolDown")
    PAUSED = (240, "paused", "CoolDown")
    ROUND_LIMIT = (250, "round_limit", "CoolDown")
    LOST_RACE = (260, "lost_race", "Unknown")
    SWITCHED_OFF = (300, "switched_off", "HitCount")
    NO_RETURN = (310, "no_return", "NoBundles")
    PINNED = (320, "pinned", "NoBundles")
    DRAINING = (330, "draining", "NoBrokers")
    OVERLAP = (340, "overlap", "Unknown")
    ISOLATION = (350, "isolation", "NoBrokers")
    FILTERED = (360, "filtered", "NoBrokers")
    STALE_LOAD = (400, "stale_load", "OutDatedData")
    SAFE_MODE = (420, "safe_mode", "OutDatedData")
    INVALID_COMMAND = (430, "invalid_command", "Unknown")
    UNKNOWN_NAMESPACE = (440, "unknown_namespace", "Unknown")
    NO_BROKERS = (500, "no_brokers", "NoBrokers")
    NO_BUNDLES = (510, "no_bundles", "NoBundles")
    SOLE_BUNDLE = (515, "sole_bundle", "NoBundles")
    TOO_SMALL = (520, "too_small", "NoBundles")
    DOES_NOT_FIT = (530, "does_not_fit", "NoBundles")
    SAME_BROKER = (534, "same_broker", "NoBrokers")
    WORSENS = (536, "worsens", "NoBrokers")
    BROKERS_FULL = (540, "brokers_full", "NoBrokers")
    NAMESPACE_FULL = (550, "namespace_full", "NoBundles")
    NOT_SPLITTABLE = (560, "not_splittable", "NoBundles")
    NO_BOUNDARY = (570, "no_boundary", "NoBundles")
    HOT_TOPIC = (580, "hot_topic", "NoBundles")

    @property
    def code(self) -> int:
        """The number of the reason; its hundreds are the band."""
        return self.value[0]

    @property
    def label(self) -> str:
        """The name used in logs and metrics."""
        return self.value[1]

    @property
    def pulsar_label(self) -> str:
        """The nearest label of Pulsar's own metric."""
        return self.value[2]


@dataclass(frozen=True, slots=True)
class Verdict:
    """One no: about whom, why, and what would turn it into a yes."""

    subject: str  # a broker or bundle name
    reason: Reason
    inputs: tuple[tuple[str, float | str], ...] = ()
    threshold: float | None = None
    hits: int | None = None
    flips_if: str = ""


@dataclass(slots=True)
class VerdictTally:
    """Counts per reason, and the first few verdicts in full. Bounded by `top_max`."""

    top_max: int
    counts: dict[str, int] = field(default_factory=dict)
    top: list[Verdict] = field(default_factory=list)

    def add(self, verdict: Verdict) -> None:
        """Counts one verdict and keeps it in full while there is room."""
        self.count(verdict.reason, 1)
        if len(self.top) < self.top_max:
            self.top.append(verdict)

    def extend(self, verdicts: tuple[Verdict, ...]) -> None:
        """Adds several, in order."""
        for verdict in verdicts:
            self.add(verdict)

    def count(self, reason: Reason, number: int) -> None:
        """Counts refusals that are not written in full."""
        if number:
            self.counts[reason.label] = self.counts.get(reason.label, 0) + int(number)
