"""Reads Java .properties, the form of broker.conf, as `java.util.Properties.load` does.

Rules: comments begin with # or !; `key=value`, `key: value` and `key value` mean the same; an odd
number of backslashes at a line's end joins the next line to it, less its leading white space; the
last of several values wins. The bytes are Latin-1; other characters are written as Unicode escapes.
Called by `bundlectl config import`; raises `ConfigError` with file and line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from controller.config.errors import ConfigError

BLANKS = " \t\f"
_PAIR = re.compile(
    rf"(?P<key>(?:\\.|[^\\=:{BLANKS}])*)[{BLANKS}]*[=:]?[{BLANKS}]*(?P<value>.*)", re.DOTALL
)
_ESCAPE = re.compile(r"\\(?:u(?P<code>[0-9a-fA-F]{4})|(?P<char>.))", re.DOTALL)
_BAD_CODE = re.compile(r"(?<!\\)(?:\\\\)*\\u(?![0-9a-fA-F]{4})")
_NAMED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


@dataclass(frozen=True, slots=True)
class Entry:
    """One key with its text, and the line (from 1) on which it begins; 0 = on no line."""

    line: int
    key: str
    value: str


@dataclass(frozen=True, slots=True)
class Properties:
    """What a file says: the last entry of each key, and the entries that lost to it."""

    source: str
    entries: Mapping[str, Entry]
    repeated: tuple[Entry, ...] = ()


def read_properties(path: Path) -> Properties:
    """The properties of a file; raises `ConfigError` if it cannot be read."""
    try:
        return parse_properties(path.read_bytes().decode("latin-1"), str(path))
    except FileNotFoundError as error:
        raise ConfigError(str(path), ["there is no such file; name a broker.conf"]) from error
    except OSError as error:
        raise ConfigError(str(path), [f"cannot be read: {error}"]) from error


def parse_properties(text: str, source: str) -> Properties:
    """The properties of a text; `source` names it in errors."""
    entries: dict[str, Entry] = {}
    repeated = []
    for number, line in _logical_lines(text):
        if bad := _BAD_CODE.search(line):
            found = line[bad.end() - 2 : bad.end() + 4]
            raise ConfigError(
                source, [f"line {number}: {found!r} is no character; write \\u and four hex digits"]
            )
        pair = _PAIR.fullmatch(line)
        assert pair is not None  # every line without a backslash at its end matches
        entry = Entry(number, _unescaped(pair["key"]), _unescaped(pair["value"]))
        if entry.key in entries:
            repeated.append(entries[entry.key])
        entries[entry.key] = entry
    return Properties(source, entries, tuple(repeated))


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines that are neither blank nor comments, continuations joined, with their numbers."""
    lines = iter(enumerate(re.split(r"\r\n|\r|\n", text), start=1))
    for number, natural in lines:
        line = natural.lstrip(BLANKS)
        if not line or line[0] in "#!":
            continue
        while _is_continued(line):
            _, following = next(lines, (0, ""))
            line = line[:-1] + following.lstrip(BLANKS)
        yield number, line


def _is_continued(line: str) -> bool:
    """Two backslashes are one that is meant; an odd one joins the next line."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    plain = _ESCAPE.sub(_meant, text)
    # Two escapes of a surrogate pair are one character; half a pair is none.
    return plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _meant(escape: re.Match[str]) -> str:
    if escape["code"]:
        return chr(int(escape["code"], 16))
    return _NAMED.get(escape["char"], escape["char"])
