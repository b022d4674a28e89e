"""The table of Pulsar's keys: it stands in a document, and it says what the program does."""

from __future__ import annotations

import os
import re
from pathlib import Path

from typer.main import get_command

from controller.cli.config_commands import app
from controller.config.pulsar.keys import KEYS
from controller.config.pulsar.table import BEGIN, END, block

DOCUMENT = Path(__file__).parents[2] / "docs/configuration-from-pulsar.md"
COMMAND = "REWRITE=1 .venv/bin/python -m pytest tests/config/test_pulsar_table.py"


def test_the_document_shows_the_table_of_the_keys() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert text.count(BEGIN) == text.count(END) == 1
    begin, end = text.index(BEGIN), text.index(END) + len(END)
    if os.environ.get("REWRITE"):
        DOCUMENT.write_text(text[:begin] + block() + text[end:], encoding="utf-8")
        return

    assert text[begin:end] == block(), (
        f"The table in {DOCUMENT.name} is not that of the keys: {COMMAND} rewrites it"
    )


def test_every_key_has_one_row() -> None:
    assert re.findall(r"^\| `(\w+)`", block(), re.MULTILINE) == [
        *(name for name, key in KEYS.items() if key.targets),
        *(name for name, key in KEYS.items() if not key.targets),
    ]


def test_the_document_names_options_that_are_there() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    commands = get_command(app).commands  # type: ignore[attr-defined]
    known = {option for one in commands.values() for way in one.params for option in way.opts}
    assert set(re.findall(r"--[a-z-]+\b", text.replace(BEGIN, "").replace(END, ""))) <= known
