"""Golden stories of one agent; `bug_NN` files are faults that were found once.

Commands (ms): `serve` has a bundle assigned and served; `poll N` reads the channel to its end
every 100 ms for N ms; `silent` and `spoken` cut and mend its signs of life; `wait N` lets time
pass without reading; `record STATE VERSION DST|- SRC|- [force]` is read from the channel. Answers
show what the agent orders, and until when it may serve.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.agent.events import Acquire, Acquired, Release, SendHeartbeat, SendReport, Timer
from controller.agent.state import AgentSettings, deadline_ms, may_serve
from tests.agent.builders import PARENT, Driven, data
from tests.golden_text import run_golden

SCENARIOS = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))
SETTINGS = AgentSettings(heard_settle_ms=20_000)  # as a configuration: ttl and waiting of the sink


class Story:
    """Interprets the lines of one file."""

    def __init__(self) -> None:
        self.agent = Driven(settings=SETTINGS)
        self.start_ms = self.agent.now_ms

    def interpret(self, line: str) -> str:
        command, *words = line.split()
        said: list[object] = []
        match command:
            case "serve":
                self.agent.serve(PARENT)
            case "silent" | "spoken":
                self.agent.is_heard = command == "spoken"
            case "poll":
                for _ in range(int(words[0]) // 100):
                    self.agent.now_ms += 100
                    said += self._told(self.agent.read())
            case "wait":
                self.agent.now_ms += int(words[0])
                said += self._told(self.agent.feed(Timer()))
            case "record":
                state, version, dst, src = (None if word == "-" else word for word in words[:4])
                record = data(str(state), int(version or 0), dst, src, force="force" in words)
                said += self._told(self.agent.read((PARENT, record)))
            case _:
                raise ValueError(line)
        return "\n".join([*map(str, said), self._lease()])

    def _told(self, actions: list) -> list:
        told = [a for a in actions if not isinstance(a, SendHeartbeat | SendReport)]
        for action in told:
            if isinstance(action, Acquire):
                self.agent.feed(Acquired(action.bundle))
            assert not isinstance(action, Release), "a story without slow closes"
        return told

    def _lease(self) -> str:
        now_ms, until_ms = self.agent.now_ms, deadline_ms(self.agent.state, SETTINGS) or 0
        at = f"{(now_ms - self.start_ms) / 1_000:6.1f} s"
        if not may_serve(self.agent.state, now_ms, SETTINGS):
            return f"{at}: fenced"
        return f"{at}: may serve for {until_ms - now_ms} ms more"


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_story(path: Path) -> None:
    run_golden(path, Story().interpret)
