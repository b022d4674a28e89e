"""What the job is doing, as one page of JSON: `/status`, read by `bundlectl status` and people.

Built from what the core said last (snapshots) and where the process is in its life; nothing is
decided from it. States: `standby` (waits for checkpoint and lease), `rebuilding` (reads the log
up to now), `warming_up` (only watches), `acting`, `observing`, `paused`, `safe_mode`, `stopping`.
With several clusters the job's state is the first of these that any cluster is in, in the order of
`ORDER`. Fed by `streaming.job`, served by `streaming.web`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from controller.core.inputs import Snapshot
from controller.core.settings import RoundSettings
from controller.transport.port import LeaseState, Marker
from streaming.lease import LeaseKeeper
from streaming.metrics import Metrics
from streaming.plan import JobPlan

ORDER = ("rebuilding", "warming_up", "safe_mode", "paused", "observing", "acting")
MODES = {"warm_up": "warming_up", "safe_mode": "safe_mode", "paused": "paused"}
"""Names of the core's modes here; in mode `act` the job acts or observes."""

SLACK_MS = 2_000
"""Triggers and publishing take their time; a job that is so far behind its ticks is on time."""


class Status:
    """The page. Thread safe: the web server asks while the job's thread moves on."""

    def __init__(
        self, plan: JobPlan, metrics: Metrics, keeper: LeaseKeeper, clock: Callable[[], int]
    ) -> None:
        self._plan, self._metrics, self._keeper, self._clock = plan, metrics, keeper, clock
        self._lock = threading.Lock()
        self._since: dict[str, tuple[str, int]] = {}  # of the job ("") and of each cluster
        self._phase = "standby"  # then "leading", then "stopping"
        self._adopted: Marker | None = None
        self.query_id: str | None = None

    def lead(self, adopted: Marker | None) -> None:
        """The lease is held; `adopted` is the last batch of another checkpoint on this log."""
        self._phase, self._adopted = "leading", adopted

    def stop(self) -> None:
        """The end begins."""
        self._phase = "stopping"

    def page(self) -> dict[str, Any]:
        """All facts, as `/status` shows them."""
        now_ms = self._clock()
        clusters = {name: self._cluster(name, now_ms) for name in sorted(self._plan.clusters)}
        states = [one["state"] for one in clusters.values()]
        state = self._phase if self._phase != "leading" else min(states, key=ORDER.index)
        behind = [one["behind_ms"] for one in clusters.values() if one["behind_ms"] is not None]
        return {
            **self._state_since("", state, now_ms),
            "name": self._plan.name,
            "act": "channel" if self._plan.is_acting else "observe",
            "checkpoint": self._plan.checkpoint,
            "query_id": self.query_id,
            "lease": self._lease(now_ms),
            "adopted": None if self._adopted is None else msgspec.to_builtins(self._adopted),
            "last_batch": self._batch(),
            "behind_ms": max(behind, default=None),
            "clusters": clusters,
        }

    @property
    def state(self) -> str:
        """The job's state alone."""
        return str(self.page()["state"])

    def _cluster(self, name: str, now_ms: int) -> dict[str, Any]:
        snapshot = self._metrics.snapshots.get(name)
        behind_ms = None if snapshot is None else max(0, now_ms - snapshot.clock_ms)
        state = self._phase
        if state == "leading":
            rounds = self._plan.clusters[name].rounds
            state = cluster_state(snapshot, now_ms, rounds, self._plan.is_acting)
        return {
            **self._state_since(name, state, now_ms),
            "behind_ms": behind_ms,
            "snapshot": None if snapshot is None else msgspec.to_builtins(snapshot),
        }

    def _state_since(self, name: str, state: str, now_ms: int) -> dict[str, Any]:
        with self._lock:
            before = self._since.get(name)
            if before is None or before[0] != state:
                self._since[name] = (state, now_ms)
            since_ms = self._since[name][1]
        return {"state": state, "since_ms": since_ms, "since": _iso(since_ms)}

    def _lease(self, now_ms: int) -> dict[str, Any] | None:
        own, found = self._keeper.held, self._keeper.seen
        if own is not None:
            found = LeaseState(own.holder, own.epoch, max(0, own.expires_ms - now_ms))
        if found is None:
            return None
        return {"is_held": own is not None, **msgspec.to_builtins(found)}

    def _batch(self) -> dict[str, Any] | None:
        found = self._metrics.last_batch
        return None if found is None else {"id": found[0], "at_ms": found[1], "at": _iso(found[1])}


def cluster_state(
    snapshot: Snapshot | None, now_ms: int, rounds: RoundSettings, is_acting: bool
) -> str:
    """What a job that leads does with one cluster.

    A tick comes once in an upkeep interval, so a clock that is two of them behind was not read up.
    """
    late_ms = 2 * rounds.upkeep_interval_ms + rounds.settle_ms + SLACK_MS
    if snapshot is None or now_ms - snapshot.clock_ms > late_ms:
        return "rebuilding"
    return MODES.get(snapshot.mode, "acting" if is_acting else "observing")


def _iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1_000, UTC).isoformat("T", "seconds")
