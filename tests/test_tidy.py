from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.tidy import FILE_LINES_MAX, FUNCTION_LINES_MAX, Breach, breaches, word_breaches

ROOT = Path(__file__).parents[1]
TEXT_SUFFIXES = {".md", ".toml", ".txt", ".yaml", ".yml", ""}
LONG_FUNCTION = "def f():\n" + "    a = 1\n" * FUNCTION_LINES_MAX

PURE, ADAPTER = "controller/core/x.py", "controller/agent/x.py"
BAD = [
    (PURE, "import time\nnow = time.time()\n", "now_ms"),
    (PURE, "from datetime import datetime\nd = datetime.now()\n", "now_ms"),
    (PURE, "import uuid\ni = uuid.uuid4()\n", "derive ids"),
    (PURE, "import random\n", "ties by id"),
    (PURE, "from random import choice\n", "ties by id"),
    (PURE, "import os\nx = os.environ['A']\n", "controller/config"),
    (PURE, "x = open('a')\n", "adapter"),
    (PURE, "import structlog\n", "adapters write logs"),
    (ADAPTER, "print('hello')\n", "structlog"),
    ("tests/x.py", "from unittest.mock import Mock\n", "fake"),
    ("tests/x.py", "from unittest import mock\n", "fake"),
    (ADAPTER, "a = 1  # TO" + "DO later\n", "issue"),
    (ADAPTER, "path = '/" + "work/main'\n", "outside"),
    (ADAPTER, LONG_FUNCTION, "divide it"),
    (ADAPTER, "a = 1\n" * (FILE_LINES_MAX + 1), "two files"),
]
GOOD = [
    (ADAPTER, "import time\nnow = time.time()\n"),
    (PURE, "def f(now_ms: int) -> int:\n    return now_ms\n"),
    ("controller/cli/x.py", "print('hello')\n"),
    (ADAPTER, "import sys\nprint('bad', file=sys.stderr)\n"),
    (PURE, "from datetime import timedelta\n"),
]


@pytest.mark.parametrize(("path", "text", "remedy"), BAD)
def test_a_breach_is_found_and_names_its_remedy(path: str, text: str, remedy: str) -> None:
    found = breaches(path, text)
    assert len(found) == 1 or "mock" in text, found
    assert all(remedy in one.text for one in found) and found


@pytest.mark.parametrize(("path", "text"), GOOD)
def test_what_is_allowed_is_no_breach(path: str, text: str) -> None:
    assert breaches(path, text) == []


def test_python_files_keep_the_house_rules() -> None:
    found = [
        one
        for path in _files()
        if path.suffix == ".py"
        for one in breaches(_name(path), path.read_text(encoding="utf-8"))
        if not _is_of_a_test(one)
    ]
    assert not found, "\n" + "\n".join(map(str, found))


def test_other_text_files_keep_the_house_rules() -> None:
    found = [
        one
        for path in _files()
        if path.suffix in TEXT_SUFFIXES
        for one in word_breaches(_name(path), path.read_text(encoding="utf-8"))
    ]
    assert not found, "\n" + "\n".join(map(str, found))


def _is_of_a_test(one: Breach) -> bool:
    """A file of many small tests may be longer; its functions may not."""
    return one.path.startswith("tests/") and "two files" in one.text


def _files() -> list[Path]:
    """Files of the project: those git knows, or all beside it in an unpacked archive."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
        names = [name for name in listed.decode().split("\0") if name]
        paths = [ROOT / name for name in names]
    except (OSError, subprocess.CalledProcessError):
        rooms = ("controller", "streaming", "tests", "bench", "conf", "docker")
        paths = [path for room in rooms for path in (ROOT / room).rglob("*")]
    return sorted(path for path in paths if path.is_file() and "__pycache__" not in path.parts)


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()
