"""The ownership table's rows as records of the channel, for the conflict rule and for versions."""

from __future__ import annotations

from controller.core.state.tables import INIT, STATES
from controller.core.work import Work
from controller.wire.channel import ServiceUnitState, ServiceUnitStateData

STATE_NUMBER = {name: number for number, name in enumerate(STATES)}


def channel_record(work: Work, slot: int) -> ServiceUnitStateData | None:
    """The accepted record of a bundle as the conflict rule wants it; None = Init."""
    bundles = work.state.bundles
    state = int(bundles["state"][slot])
    if state == INIT:
        return None
    names = work.state.brokers.names
    destination, source = int(bundles["destination"][slot]), int(bundles["source"][slot])
    return ServiceUnitStateData(
        state=ServiceUnitState(STATES[state]),
        dstBroker=names[destination] if destination >= 0 else None,
        sourceBroker=names[source] if source >= 0 else None,
        timestamp=int(bundles["since_ms"][slot]),
        versionId=int(bundles["version"][slot]),
    )
