from __future__ import annotations

from pathlib import Path

import pytest

from controller.cli.errors import CliError
from controller.cli.java import major_version, require_java


def _java(folder: Path, first_line: str) -> dict[str, str]:
    """A PATH with nothing but a program `java` that prints a version."""
    program = folder / "java"
    program.write_text(f"#!/bin/sh\necho '{first_line}' >&2\n")
    program.chmod(0o755)
    return {"PATH": str(folder)}


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ("no java here", None),
    ],
)
def test_versions_are_read(line: str, version: int | None) -> None:
    assert major_version(line) == version


def test_new_enough_java_is_found(tmp_path: Path) -> None:
    assert require_java(_java(tmp_path, 'openjdk version "21.0.1"')) == 21


@pytest.mark.parametrize("line", ['openjdk version "11.0.2"', "stub: please install Java"])
def test_old_or_broken_java_is_one_sentence_with_remedy(tmp_path: Path, line: str) -> None:
    with pytest.raises(CliError, match="JAVA_HOME") as caught:
        require_java(_java(tmp_path, line))
    assert "\n" not in str(caught.value)


def test_missing_java_is_one_sentence_with_remedy(tmp_path: Path) -> None:
    with pytest.raises(CliError, match=r"there is no java.*apt-get.*brew.*JAVA_HOME"):
        require_java({"PATH": str(tmp_path)})


def test_java_home_wins_over_path_and_is_checked(tmp_path: Path) -> None:
    environment = _java(tmp_path, 'openjdk version "21.0.1"')
    with pytest.raises(CliError, match="unset JAVA_HOME"):
        require_java({**environment, "JAVA_HOME": str(tmp_path / "none")})
