"""Golden stories of one bundle's records; `bug_NN` files are faults that were found once.

Commands: `record STATE VERSION DST|- SRC|- [force]` appends; `compact N` shows what a late reader
holds after a compaction that keeps the last of the first N records, winner or not, and the rest.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.channel.table import ChannelTable
from controller.wire.channel import ServiceUnitState, ServiceUnitStateData
from tests.golden_text import run_golden

SCENARIOS = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))
BUNDLE = "t/ns/0x00000000_0xffffffff"


class Story:
    """Interprets the lines of one file."""

    def __init__(self) -> None:
        self.table = ChannelTable()
        self.log: list[ServiceUnitStateData] = []

    def interpret(self, line: str) -> str:
        command, *words = line.split()
        if command == "compact":
            return self._compact(int(words[0]))
        assert command == "record", line
        state, version, dst, src = (None if word == "-" else word for word in words[:4])
        new = ServiceUnitStateData(
            state=ServiceUnitState(str(state)),
            versionId=int(version or 0),
            dstBroker=dst,
            sourceBroker=src,
            force="force" in words,
            timestamp=0,
        )
        self.log.append(new)
        outcome = self.table.apply(BUNDLE, new, 0)
        end = "accepted" if outcome.losing is None else f"loses: {outcome.losing}"
        return end + (", tainted" if BUNDLE in self.table.tainted else "")

    def _compact(self, cleaned: int) -> str:
        late = ChannelTable()
        for new in self.log[:cleaned][-1:] + self.log[cleaned:]:
            late.apply(BUNDLE, new, 0)
        seen, stands = late.records[BUNDLE], self.table.records[BUNDLE]
        is_same = "as everybody" if seen == stands else "UNLIKE THE OTHERS"
        return f"{seen.state} v{seen.versionId} -> {seen.dstBroker}: {is_same}"


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_story(path: Path) -> None:
    run_golden(path, Story().interpret)
