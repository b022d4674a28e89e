"""Golden scenarios as text: `command args`, a line `----`, the expected output, a blank line.

`run_golden(path, interpret)` feeds each command (comments kept as they are) to `interpret` and
compares its answer with the text; with the environment variable REWRITE=1 it writes the answers
into the file instead. Commit only differences that you understand.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

RULE = "----"


def run_golden(path: Path, interpret: Callable[[str], str]) -> None:
    before = path.read_text(encoding="utf-8")
    after = _replay(before, interpret)
    if os.environ.get("REWRITE"):
        path.write_text(after, encoding="utf-8")
        return

    assert before == after, f"{path.name} differs; REWRITE=1 rewrites it, then read the diff"


def _replay(text: str, interpret: Callable[[str], str]) -> str:
    out: list[str] = []
    lines = iter(text.splitlines())
    for line in lines:
        if not line.strip() or line.startswith("#"):
            out.append(line)
            continue
        out.append(line)
        for expected in lines:  # skips the old answer
            if not expected.strip():
                break
        answer = interpret(line).rstrip()
        out += [RULE, *([answer] if answer else []), ""]
    return "\n".join(out).rstrip("\n") + "\n"
