"""The port behind which a broker stands: implement this to let a broker be balanced.

The agent's runtime is the only caller. Methods must be safe to call from several threads at
once: `release` runs in a small pool, `fence` may come from the watchdog of the lease, all
others come from the agent's loop. Errors are raised as `BrokerError` (or any exception): they
are counted and the operation is tried again after `retry_ms`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from controller.wire.reports import BundleStats, ResourceUsage


class BrokerError(Exception):
    """An operation of the broker failed; the bundle is as it was before."""


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """What one load report says: five usages and the statistics of every bundle served.

    Usages as Pulsar's: cpu in points (limit = 100 x cores), memory in MB, bandwidth in Kbit/s.
    `topic_hashes` is asked for only where the agent wants it (see `Broker.topic_hashes`).
    """

    cpu: ResourceUsage
    memory: ResourceUsage
    direct_memory: ResourceUsage
    bandwidth_in: ResourceUsage
    bandwidth_out: ResourceUsage
    bundles: Mapping[str, BundleStats] = field(default_factory=dict)
    zone: str | None = None
    version: str | None = None


class Broker(Protocol):
    """One broker as its agent sees it."""

    def load_report(self) -> BrokerLoad:
        """Load at this moment; called once per report interval.

        Lists every bundle that is served, also idle ones, and no other. Must return well
        within the lease (aim: 100 ms), without talking to the channel.
        """

    def topic_hashes(self, bundle: str) -> list[int]:
        """CRC-32 hashes of the bundle's topics, any order; called only for big bundles."""

    def acquire(self, bundle: str) -> None:
        """Start serving the bundle; called when the channel says that this broker owns it.

        Idempotent. Must return quickly (open topics lazily or in the background): the loop that
        keeps the lease waits for it. Must raise, and serve nothing, while fenced.
        """

    def release(self, bundle: str) -> None:
        """Close the bundle; when this returns, no client is served from it by this broker.

        Idempotent, also for a bundle never acquired. May take as long as a graceful close needs;
        the agent goes on meanwhile. If it raises, the bundle counts as still served and the
        channel is not told anything: the controller repairs what stays in flight for too long.
        """

    def split(self, bundle: str, children: tuple[str, ...]) -> None:
        """Serve the children instead of the bundle, in one step: no topic is closed.

        Idempotent: children that are served already stay. Must return quickly. Until it
        returns, the parent is served; if it raises, the parent still is. Must raise while fenced.
        """

    def fence(self) -> None:
        """Stop serving everything at once, ungracefully: the lease has run out.

        Must return quickly and must not fail. An `acquire` or `split` that runs at the same time
        must end without serving. Idempotent.
        """

    def unfence(self) -> None:
        """Allow serving again; nothing is served until the next `acquire`. Idempotent."""

    def close(self) -> None:
        """Stop serving everything, gracefully, before the process ends. Idempotent."""
