"""House rules that no linter knows, as functions over a file's text; used by test_tidy.py."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

FUNCTION_LINES_MAX = 60
FILE_LINES_MAX = 350

PURE_ROOMS = ("model", "wire", "load", "channel", "core", "strategies")
PRINTING_ROOMS = ("controller/cli/", "controller/demo/", "bench/", "tests/")

BANNED_IN_PURE = {
    "time.time": "take now_ms as an argument",
    "time.time_ns": "take now_ms as an argument",
    "time.monotonic": "take now_ms as an argument",
    "time.monotonic_ns": "take now_ms as an argument",
    "time.sleep": "return what is to happen; the adapter waits",
    "datetime.now": "take now_ms as an argument",
    "datetime.datetime.now": "take now_ms as an argument",
    "uuid.uuid4": "derive ids from content (cluster, bundle, version)",
    "uuid4": "derive ids from content (cluster, bundle, version)",
    "os.environ": "read it in controller/config",
    "os.getenv": "read it in controller/config",
    "open": "let an adapter read, and take the content as an argument",
    "print": "return it; adapters write logs",
}
BANNED_MODULES_IN_PURE = {
    "random": "break ties by id",
    "secrets": "break ties by id",
    "logging": "return it; adapters write logs",
    "structlog": "return it; adapters write logs",
    "sqlite3": "go through controller/transport",
    "socket": "go through controller/transport",
}
BANNED_EVERYWHERE = {"unittest.mock": "use a builder or a fake of the port"}

# Spelt in pieces, so that this file does not contain them.
BANNED_WORDS = {
    "TO" + "DO": "do it, or open an issue",
    "FIX" + "ME": "do it, or open an issue",
    "X" + "XX": "do it, or open an issue",
    "/" + "work/": "name nothing outside the project",
    "../" + "shared": "name nothing outside the project",
}


@dataclass(frozen=True, slots=True, order=True)
class Breach:
    """A rule that is broken, at a place, with what to do instead."""

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


def breaches(path: str, text: str) -> list[Breach]:
    """All breaches in a Python file; `path` is relative to the project's root, with slashes."""
    tree = ast.parse(text)
    found = [*_words(path, text), *_sizes(path, text, tree), *_imports(path, tree)]
    return sorted({*found, *_calls(path, tree)})


def word_breaches(path: str, text: str) -> list[Breach]:
    """Breaches that any text file can have."""
    return list(_words(path, text))


def _words(path: str, text: str) -> Iterator[Breach]:
    for number, line in enumerate(text.splitlines(), start=1):
        for word, instead in BANNED_WORDS.items():
            if word in line:
                yield Breach(path, number, f"{word!r} must not appear: {instead}")


def _sizes(path: str, text: str, tree: ast.Module) -> Iterator[Breach]:
    lines = len(text.splitlines())
    if lines > FILE_LINES_MAX:
        yield Breach(path, 1, f"{lines} lines, at most {FILE_LINES_MAX}: make two files")
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES_MAX:
                text_of = f"{node.name} has {length} lines, at most {FUNCTION_LINES_MAX}: divide it"
                yield Breach(path, node.lineno, text_of)


def _imports(path: str, tree: ast.Module) -> Iterator[Breach]:
    banned = dict(BANNED_EVERYWHERE)
    if _is_pure(path):
        banned |= BANNED_MODULES_IN_PURE
    for node in ast.walk(tree):
        for name in _imported(node):
            for module, instead in banned.items():
                if name == module or name.startswith(f"{module}."):
                    yield Breach(path, getattr(node, "lineno", 1), f"import {module}: {instead}")


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        return [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return []


def _calls(path: str, tree: ast.Module) -> Iterator[Breach]:
    banned = BANNED_IN_PURE if _is_pure(path) else {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = _dotted(node.func)
        elif isinstance(node, ast.Attribute) and _dotted(node) == "os.environ":
            name = "os.environ"
        else:
            continue
        if name in banned:
            yield Breach(path, node.lineno, f"{name}: {banned[name]}")
        elif name == "print" and not _prints(path, node):
            yield Breach(path, node.lineno, "print: use structlog, or stderr for a last sentence")


def _prints(path: str, node: ast.AST) -> bool:
    """Rooms that talk to a terminal may print; others only an error to stderr."""
    is_room = path.startswith(PRINTING_ROOMS)
    to = [word.value for word in getattr(node, "keywords", ()) if word.arg == "file"]
    return is_room or any(_dotted(one) == "sys.stderr" for one in to)


def _is_pure(path: str) -> bool:
    return path.startswith(tuple(f"controller/{room}/" for room in PURE_ROOMS))


def _dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""
