"""Builders of channel records, and what the tests of this room draw at random."""

from __future__ import annotations

from hypothesis import strategies as st

from controller.wire.channel import (
    LONG_MAX,
    LONG_MIN,
    ServiceUnitState,
    ServiceUnitStateData,
)

S = ServiceUnitState
BUNDLE = "t/ns/0x00000000_0x80000000"
OTHER = "t/ns/0x80000000_0xffffffff"
LOWER, UPPER = "0x00000000_0x40000000", "0x40000000_0x80000000"  # children of BUNDLE
BROKERS = (None, "", " ", "b1", "b2")


def record(
    state: ServiceUnitState,
    version: int,
    dst: str | None = None,
    src: str | None = None,
    force: bool = False,
    children: tuple[str, ...] = (),
) -> ServiceUnitStateData:
    return ServiceUnitStateData(
        state=state,
        dstBroker=dst,
        sourceBroker=src,
        force=force,
        timestamp=1,
        versionId=version,
        splitServiceUnitToDestBroker=dict.fromkeys(children) if children else None,
    )


versions = st.one_of(
    st.integers(1, 6),
    st.sampled_from([LONG_MIN, LONG_MIN + 1, LONG_MAX - 1, LONG_MAX]),
)
brokers = st.sampled_from(BROKERS)
forces = st.sampled_from([False, False, False, True])
records = st.builds(record, st.sampled_from(list(S)), versions, brokers, brokers, forces)
