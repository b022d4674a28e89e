"""The processes of this machine, as Linux tells of them; elsewhere there seem to be none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Process:
    """One process; see proc(5) for the states: R, S, T (stopped), Z (ended, not yet collected)."""

    pid: int
    name: str
    state: str
    parent: int
    group: int


def process_of(pid: int) -> Process | None:
    """The process; None if it is gone."""
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    named, _, rest = text.rpartition(")")  # a name may hold anything, brackets too
    state, parent, group = rest.split()[:3]
    return Process(pid, named.partition("(")[2], state, int(parent), int(group))


def processes() -> Iterator[Process]:
    """All there are; those that end meanwhile are left out."""
    for folder in PROC.glob("[0-9]*"):
        found = process_of(int(folder.name))
        if found is not None:
            yield found


def is_alive(pid: int) -> bool:
    """False also for one that has ended and was not collected."""
    found = process_of(pid)
    return found is not None and found.state != "Z"
