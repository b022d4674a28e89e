from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.config import ConfigError
from controller.config.pulsar.properties import Entry, parse_properties, read_properties

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
BLANKS = st.text(" \t\f", max_size=3)
SEPARATORS = st.sampled_from(["=", ":", " ", "\t", " = ", "\f:  ", "=\\\n   "])
NOISE = st.sampled_from(["", "# a = 1\\\n", "   ! b\n", "\n", " \t\n", "#\r", "\r\n"])
NAMED = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}


def _entries(text: str) -> dict[str, str]:
    found = parse_properties(text, "broker.conf").entries
    return {key: entry.value for key, entry in found.items()}


def _escaped(text: str) -> str:
    """As `Properties.store` writes it; every blank escaped, which it may be anywhere."""
    written = []
    for one in text:
        if one in NAMED:
            written.append(NAMED[one])
        elif one in " \\=:#!":
            written.append("\\" + one)
        elif " " < one <= "~":
            written.append(one)
        else:
            units = one.encode("utf-16-be").hex()
            written.append("".join(f"\\u{units[n : n + 4]}" for n in range(0, len(units), 4)))
    return "".join(written)


@settings(deadline=None)
@given(st.dictionaries(TEXT.filter(bool), TEXT), st.data())
def test_what_is_written_is_read(pairs: dict[str, str], data: st.DataObject) -> None:
    text = ""
    for key, value in pairs.items():
        cut = data.draw(st.integers(0, len(value)))
        halves = _escaped(value[:cut]) + "\\\n" + data.draw(BLANKS) + _escaped(value[cut:])
        separator = data.draw(SEPARATORS)
        ending = data.draw(st.sampled_from(["\n", "\r", "\r\n"]))
        text += data.draw(NOISE) + data.draw(BLANKS) + _escaped(key) + separator + halves + ending
    assert _entries(text) == pairs


@settings(deadline=None)
@given(st.text())
def test_any_text_is_read_or_refused_with_its_line(text: str) -> None:
    try:
        parse_properties(text, "broker.conf")
    except ConfigError as error:
        assert str(error).startswith("broker.conf: line ")


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("a=1", {"a": "1"}),
        ("a : 1", {"a": "1"}),
        ("a\t1 2 ", {"a": "1 2 "}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("a==b", {"a": "=b"}),
        ("  a = b:c", {"a": "b:c"}),
        ("#a=1\n!b=1\nc=#1", {"c": "#1"}),
        ("a=1\\\n  ,2\\\n#,3", {"a": "1,2#,3"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=1\\", {"a": "1"}),
        ("a=1\\\n\nb=2", {"a": "1", "b": "2"}),
        ("a\\ b\\=c=\\x", {"a b=c": "x"}),
        ("a=\\u00e9\\uD83D\\uDE00", {"a": "\u00e9\U0001f600"}),
        ("a=\\\\u00", {"a": "\\u00"}),
        ("=1", {"": "1"}),
    ],
)
def test_forms_of_a_line(text: str, entries: dict[str, str]) -> None:
    assert _entries(text) == entries


def test_the_last_of_several_wins_and_the_others_are_told() -> None:
    found = parse_properties("a=1\n\na=2\nb=\\\n 3\nc=4", "broker.conf")
    assert found.entries["a"] == Entry(3, "a", "2")
    assert found.repeated == (Entry(1, "a", "1"),)
    assert (found.entries["b"].line, found.entries["c"].line) == (4, 6)


def test_a_bad_escape_names_file_and_line() -> None:
    with pytest.raises(ConfigError, match=r"broker\.conf: line 2: '\\\\u12g4' is no character"):
        parse_properties("a=1\nb=x\\u12g4", "broker.conf")


def test_files_are_latin_1(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_bytes(b"a=\xe9\n")
    assert read_properties(path).entries["a"].value == "\u00e9"
    with pytest.raises(ConfigError, match="there is no such file"):
        read_properties(tmp_path / "none.conf")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_properties(tmp_path)
