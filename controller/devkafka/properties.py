"""The broker's properties: our template, what a caller changes in it, and the ports.

Values are meant as they stand, with line breaks and all; Java's escapes are put in here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

LOGGING = "log4j2.properties"
PLACE = re.compile(r"\{(port|controller_port|port2|directory)\}")


@dataclass(frozen=True, slots=True)
class Ports:
    """The three ports of a broker; the third is for a listener that a caller adds."""

    port: int
    controller_port: int
    port2: int


def template_text(name: str) -> str:
    """A file of this package."""
    return (files("controller.devkafka") / name).read_text(encoding="utf-8")


def properties_text(extra: Mapping[str, str], ports: Ports, directory: Path) -> str:
    """The whole file. `{port}`, `{controller_port}`, `{port2}` and `{directory}` are filled in."""
    fillings = {
        "port": ports.port,
        "controller_port": ports.controller_port,
        "port2": ports.port2,
        "directory": directory,
    }

    def filled(value: str) -> str:
        return PLACE.sub(lambda found: str(fillings[found[1]]), value)

    both = {**_template(), **extra}
    return "".join(f"{key}={escaped(filled(value))}\n" for key, value in both.items())


def escaped(value: str) -> str:
    """As Java reads it back out of a properties file: ASCII, in one line."""
    text = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    if text.startswith(" "):
        text = f"\\{text}"
    return "".join(one if one.isascii() else _units(one) for one in text)


def _units(character: str) -> str:
    raw = character.encode("utf-16-be")
    return "".join(f"\\u{raw[at : at + 2].hex()}" for at in range(0, len(raw), 2))


def _template() -> dict[str, str]:
    rows = template_text("server.properties").splitlines()
    pairs = (row.partition("=") for row in rows if row and not row.startswith("#"))
    return {key: value for key, _, value in pairs}
