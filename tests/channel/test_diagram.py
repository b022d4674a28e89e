"""The drawing of the transitions: it stands in ARCHITECTURE.md, and it says what the tables say."""

from __future__ import annotations

import os
import re
from pathlib import Path

from controller.channel.diagram import BEGIN, END, MIDDLE, block, diagram
from controller.channel.states import LOG_TRANSITIONS, METADATA_TRANSITIONS, WRITERS
from tests.channel.records import S

ARCHITECTURE = Path(__file__).parents[2] / "ARCHITECTURE.md"
COMMAND = "REWRITE=1 .venv/bin/python -m pytest tests/channel/test_diagram.py"
EDGE = re.compile(r"^    (\w+) --> (\w+) : (.+)$", re.MULTILINE)


def test_the_architecture_shows_the_diagram_of_the_tables() -> None:
    text = ARCHITECTURE.read_text(encoding="utf-8")
    assert text.count(BEGIN) == text.count(END) == 1
    begin, end = text.index(BEGIN), text.index(END) + len(END)
    if os.environ.get("REWRITE"):
        ARCHITECTURE.write_text(text[:begin] + block() + text[end:], encoding="utf-8")
        return

    assert text[begin:end] == block(), (
        f"The diagram of states in ARCHITECTURE.md is not that of the tables: {COMMAND} rewrites it"
    )


def test_the_diagram_has_every_transition_once_and_no_other() -> None:
    edges = [(S(before), S(after)) for before, after, _ in EDGE.findall(diagram())]
    table = {(before, after) for before, row in LOG_TRANSITIONS.items() for after in row}
    assert set(edges) == table
    assert len(edges) == len(table)


def test_only_the_generous_transitions_are_marked() -> None:
    """The generous Init row exists because a reader may begin from a compacted middle (6.3)."""
    marked = {(S(a), S(b)) for a, b, label in EDGE.findall(diagram()) if MIDDLE in label}
    generous = LOG_TRANSITIONS[S.Init] - METADATA_TRANSITIONS[S.Init]
    assert marked == {(S.Init, after) for after in generous}
    assert len(marked) == 5


def test_every_other_transition_has_a_writer() -> None:
    table = {(before, after) for before, row in LOG_TRANSITIONS.items() for after in row}
    assert set(WRITERS) <= table
    assert all(before is S.Init for before, _ in table - set(WRITERS))
