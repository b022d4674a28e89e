"""Builders for tests of the agent: channel records in one line, and an agent driven by hand."""

from __future__ import annotations

from controller.agent.core import handle
from controller.agent.events import (
    Acquired,
    Action,
    ChannelRecord,
    Event,
    Heard,
    Polled,
    Released,
    SendHeartbeat,
    SendReport,
)
from controller.agent.state import AgentSettings, AgentState, new_state
from controller.wire.channel import ServiceUnitState, ServiceUnitStateData, encode_channel

ME, OTHER = "b1", "b2"
PARENT = "t/ns/0x00000000_0x80000000"
LOW, HIGH = "t/ns/0x00000000_0x40000000", "t/ns/0x40000000_0x80000000"
CHILDREN = {"0x00000000_0x40000000": None, "0x40000000_0x80000000": None}
SETTINGS = AgentSettings(
    heartbeat_interval_ms=1_000,
    report_interval_ms=2_000,
    lease_ms=10_000,
    heard_settle_ms=200,
    takeover_grace_ms=500,
    retry_ms=1_000,
)


def data(
    state: str,
    version: int,
    dst: str | None = None,
    src: str | None = None,
    *,
    force: bool = False,
    children: dict[str, str | None] | None = None,
) -> ServiceUnitStateData:
    return ServiceUnitStateData(
        state=ServiceUnitState(state),
        versionId=version,
        dstBroker=dst,
        sourceBroker=src,
        force=force,
        splitServiceUnitToDestBroker=children,
        timestamp=0,
    )


class Driven:
    """One agent with its time; `read` feeds channel records as one poll that reached the end.

    It has read an empty channel and was heard, unless it is not `started`. Its signs of life get
    through at once while `is_heard`.
    """

    def __init__(
        self, broker: str = ME, settings: AgentSettings = SETTINGS, started: bool = True
    ) -> None:
        self.is_heard = True
        self.settings = settings
        self.state: AgentState = new_state("c", broker)
        self.now_ms = 1_000
        self.offset = 0
        while started and self.state.heard_ms is None:
            self.now_ms += 100
            self.read()

    def feed(self, event: Event) -> list[Action]:
        self.state, actions = handle(self.state, event, self.now_ms, self.settings)
        found = list(actions)
        if self.is_heard and any(isinstance(a, SendReport | SendHeartbeat) for a in found):
            found += self.feed(Heard(self.now_ms))
        return found

    def read(
        self,
        *records: tuple[str, ServiceUnitStateData | bytes | None],
        at_end: bool = True,
        started_ms: int | None = None,
    ) -> list[Action]:
        """Actions of one poll, signs of life left out."""
        rows = []
        for key, value in records:
            raw = encode_channel(value) if isinstance(value, ServiceUnitStateData) else value
            rows.append(ChannelRecord(key, raw, self.offset))
            self.offset += 1
        started = self.now_ms if started_ms is None else started_ms
        actions = self.feed(Polled(tuple(rows), started, at_end))
        return [a for a in actions if not isinstance(a, SendReport | SendHeartbeat)]

    def serve(self, bundle: str = PARENT, version: int = 2) -> None:
        """Makes the agent serve the bundle, by an assignment and its read-back."""
        self.read((bundle, data("Assigning", version - 1, self.state.broker)))
        self.read((bundle, data("Owned", version, self.state.broker)))
        self.feed(Acquired(bundle))
        assert bundle in self.state.phases

    def released(self, bundle: str = PARENT, error: str | None = None) -> list[Action]:
        return self.feed(Released(bundle, error))
