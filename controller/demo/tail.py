"""Reads the brokers' own logs as they grow: new whole lines of every file of a directory."""

from __future__ import annotations

from pathlib import Path

from controller.agent.own_log import OwnLine, read_own_line


class OwnLogTail:
    """Remembers how far each `*.jsonl` file of a directory was read."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._read_bytes: dict[Path, int] = {}

    def new_lines(self) -> list[OwnLine]:
        """Lines since the last call, file by file; a line without its end waits for it."""
        found: list[OwnLine] = []
        for path in sorted(self._directory.glob("*.jsonl")):
            start = self._read_bytes.get(path, 0)
            with path.open("rb") as file:
                file.seek(start)
                chunk = file.read()
            whole = chunk[: chunk.rfind(b"\n") + 1]
            self._read_bytes[path] = start + len(whole)
            lines = (read_own_line(line) for line in whole.splitlines())
            found += [line for line in lines if line is not None]
        return found
