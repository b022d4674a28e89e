"""The port behind which a broker stands: implement this to let a broker be balanced.

`controller.agent.runtime` is the only caller. From which thread a call comes:

- The agent's loop, one call after the other: `load_report`, `topic_loads`, `acquire`, `split`,
  `drop`, `redirect`, `fence`, `unfence`, and `close` at the end. While one of them runs the loop
  does not read the channel, and a loop that does not read loses its lease. So each must return
  within `unheard_poll_ms` less a poll (150 ms by default), and must not wait for the channel.
- A pool of `release_threads`: `release`, several bundles at once, never twice the same.
- The watchdog of the lease: `fence`, at any moment, also while any other call runs.

So these overlap with a call that runs: `fence` with all, `release` with all, and every call of
the loop with `release`. One lock around what is served, that is not held while a release waits
for clients, is enough.

All operations are idempotent, because each may be repeated: after a failure, after a fence, and
after a restart of the agent. They may raise `BrokerError`, or anything: what that means is said
with each. `controller.agent.contract` tests these promises.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from controller.wire.reports import BundleStats, ResourceUsage


class BrokerError(Exception):
    """An operation of the broker failed; the bundle is as it was before."""


class BoundariesChangedError(BrokerError):
    """Somebody else changed the boundaries of the namespace at the same time; nothing was done."""


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """What one load report says: five usages and the statistics of every bundle served.

    Usages as Pulsar's: cpu in points (limit = 100 x cores), memory in MB, bandwidth in Kbit/s.
    Topics are asked for only where the agent wants them (see `Broker.topic_loads`).
    """

    cpu: ResourceUsage
    memory: ResourceUsage
    direct_memory: ResourceUsage
    bandwidth_in: ResourceUsage
    bandwidth_out: ResourceUsage
    bundles: Mapping[str, BundleStats] = field(default_factory=dict)
    zone: str | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class TopicLoad:
    """One topic of a bundle; its load is what a split by load goes by."""

    hash: int  # CRC-32 of the full name: controller.model.bundles.topic_hash
    rate: float = 0.0  # msg/s, in + out; 0.0 = none, or not known
    throughput: float = 0.0  # byte/s, in + out; 0.0 = none, or not known


class Broker(Protocol):
    """One broker as its agent sees it."""

    def load_report(self) -> BrokerLoad:
        """Load at this moment; called once per report interval, also if nothing is reported.

        Guarantee: lists every bundle that is served, also idle ones, and no other.
        Time: 100 ms. If it raises, a heartbeat is sent instead, and the next interval asks again.
        """

    def topic_loads(self, bundle: str) -> list[TopicLoad]:
        """The bundle's topics, any order; called only for bundles that may be split soon.

        Right after `load_report`, for bundles that it listed with many topics or a high rate.
        Time: 100 ms for all calls of one report. If it raises: as `load_report`.
        """

    def acquire(self, bundle: str) -> None:
        """Start serving the bundle; called when the channel says that this broker owns it.

        Guarantee: when it returns, clients are served (open topics lazily or in the background);
        also a bundle that is served already, or was released before. While fenced it must raise
        and serve nothing; one that a `fence` overtakes must end without serving.
        Time: the loop's. If it raises, the bundle is not served; tried again after `retry_ms`
        while the channel still says so.
        """

    def release(self, bundle: str, destination: str | None) -> None:
        """Close the bundle gracefully; called when the channel says Releasing.

        Guarantee: when it returns, no client is served from it by this broker; also one that was
        never acquired. Until then it is served, and reported. With a `destination` clients may
        stay connected, unserved, until `redirect` names the new owner (a transfer); without one
        they are disconnected and look the bundle up. A `fence` or a `drop` of the bundle ends
        its service at once; the release that still runs must notice, serve nothing more, and
        return soon.
        Time: as long as a graceful close needs; the agent goes on meanwhile. If the controller
        finds the bundle in flight for too long it takes it away, and `drop` comes.
        If it raises, the bundle counts as served as before; nothing is written to the channel,
        and it is tried again after `retry_ms`.
        """

    def drop(self, bundle: str) -> None:
        """Stop serving the bundle at once, ungracefully; called when it was taken away.

        The channel gave the bundle to somebody else without waiting for this broker; the other
        one begins to serve within `takeover_grace_ms`.
        Guarantee: when it returns, no client is served from it; also one never acquired. A
        `release` or `split` of the bundle that still runs must end without serving it or its
        children; children that such a split has put in its place are dropped by calls of their
        own. Clients are disconnected. Time: the loop's; must not wait for clients.
        Must not raise: if it does, the whole broker is fenced.
        """

    def redirect(self, bundle: str, owner: str | None) -> None:
        """Tell the clients that stayed connected after `release` who serves the bundle now.

        Called once after a release with a destination, when the new owner is known; `owner` None
        when the transfer ended otherwise (disconnect: they look the bundle up). Never called
        after a fence, a drop or a restart, which disconnect clients anyway; so forget who waits
        after some time. Serves nothing. If it raises, it is not tried again.
        """

    def split(self, bundle: str, children: tuple[str, ...]) -> None:
        """Put two or more children in the place of a bundle; they cover it exactly.

        Called when the channel says Splitting and holds a record of every child.
        Guarantee: first the boundaries of the namespace are changed by compare-and-set; if they
        hold the children already (it was done before, perhaps by another broker) it goes on; if
        they hold neither bundle nor children it raises. Then, if the bundle is served, its
        children are served instead, in one step: no topic is closed. If it is not served (the
        split of a broker that died, or a restart), nothing more happens: children that belong
        here follow as `acquire`. While fenced it must raise; one that a `fence` or a `drop` of
        the bundle overtakes must not serve the children.
        Time: the loop's. If it raises, the bundle is served as before. `BoundariesChangedError`
        is tried again after `split_retry_ms`, `split_tries_max` times in all, and then left to
        the controller; anything else is tried again after `retry_ms`.
        """

    def fence(self) -> None:
        """Stop serving everything at once, ungracefully: the lease has run out.

        Guarantee: when it returns nothing is served, and nothing will be until `unfence`:
        `acquire` and `split` raise, and those that run at the same time end without serving.
        Clients are disconnected, also those that wait for a `redirect`.
        Time: as short as possible; must wait for nothing that may hang.
        Must not raise: if it does, it is called again until it succeeds, and nothing else is.
        """

    def unfence(self) -> None:
        """Allow serving again; nothing is served until the next `acquire`.

        If it raises, the broker is fenced again, and asked again after the next read.
        """

    def close(self) -> None:
        """Stop serving everything, gracefully, before the process ends.

        Called once, when the agent stops; releases that run may not have ended. Guarantee: when
        it returns nothing is served, and never will be. `fence` may come meanwhile and must take
        effect at once. Time: may take long, the lease is watched; whoever stops the process may
        be less patient. If it raises, the process ends without telling the controller that it
        is gone, which then takes the bundles over when the broker has been silent for long
        enough.
        """
