"""A broker of one's own: `python docs/example_broker.py LOG CLUSTER BROKER`; see broker-sdk.md."""

# ruff: noqa: D101, D102, D103
import signal
import sys
import threading
from pathlib import Path

from controller.agent.port import BrokerError, BrokerLoad, TopicLoad
from controller.agent.runtime import AgentRuntime, RuntimeSettings
from controller.agent.state import AgentSettings
from controller.sim.boundaries import Boundaries, FileBoundaries, put_children
from controller.transport.embedded import EmbeddedLog
from controller.wire.reports import BundleStats, ResourceUsage

IDLE = ResourceUsage(0.0, 100.0)
QUIET = BundleStats(msgRateIn=0, msgRateOut=0, msgThroughputIn=0, msgThroughputOut=0, topics=0)


class ExampleBroker:  # Serves names; a real broker opens and closes topics where `served` changes.
    def __init__(self, boundaries: Boundaries) -> None:
        self.boundaries, self.lock = boundaries, threading.Lock()
        self.served: set[str] = set()
        self.is_fenced = self.is_closed = False

    def load_report(self) -> BrokerLoad:
        return BrokerLoad(IDLE, IDLE, IDLE, IDLE, IDLE, dict.fromkeys(sorted(self.served), QUIET))

    def topic_loads(self, bundle: str) -> list[TopicLoad]:
        return []  # asked for only where a report says that a bundle has many topics or messages

    def acquire(self, bundle: str) -> None:
        self._replace(None, {bundle})

    def release(self, bundle: str, destination: str | None) -> None:
        self.drop(bundle)  # a real broker lets its clients finish first, without holding the lock

    def drop(self, bundle: str) -> None:
        with self.lock:
            self.served = self.served - {bundle}

    def redirect(self, bundle: str, owner: str | None) -> None:
        print(f"clients of {bundle}: go to {owner or 'a lookup'}", file=sys.stderr)

    def split(self, bundle: str, children: tuple[str, ...]) -> None:
        self._replace(None, set())  # raises while fenced
        put_children(self.boundaries, bundle, children)
        self._replace(bundle, set(children))

    def fence(self) -> None:
        with self.lock:
            self.is_fenced, self.served = True, set()

    def unfence(self) -> None:
        self.is_fenced = self.is_closed

    def close(self) -> None:
        self.is_closed = True
        self.fence()

    def _replace(self, old: str | None, new: set[str]) -> None:
        with self.lock:
            if self.is_fenced:
                raise BrokerError("fenced")
            if old is None or old in self.served:
                self.served = (self.served - {old}) | new


def main(log: str, cluster: str, name: str) -> None:
    stop, hurry = threading.Event(), threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: hurry.set() if stop.is_set() else stop.set())
    broker = ExampleBroker(FileBoundaries(Path(f"{log}.boundaries")))
    settings = RuntimeSettings(channel_topic=f"bundle-state-{cluster}")
    agent = AgentSettings()
    AgentRuntime(cluster, name, broker, EmbeddedLog(log), agent, settings).run(stop, hurry)


if __name__ == "__main__":
    main(*sys.argv[1:])
