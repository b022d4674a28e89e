from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from controller.config import as_tables, load_config

CONF = Path(__file__).parents[2] / "conf"


def test_embedded_toml_holds_every_key_with_its_default() -> None:
    written = tomllib.loads((CONF / "embedded.toml").read_text())
    assert written == as_tables(load_config(None))


def test_every_key_of_embedded_toml_is_explained_near_it() -> None:
    blank = re.compile(r"\n\n")
    for block in blank.split((CONF / "embedded.toml").read_text()):
        assert "#" in block or block.startswith(("[topics]", "[balance.weights]")), block


@pytest.mark.parametrize("path", sorted(CONF.glob("*.toml")), ids=lambda path: path.name)
def test_shipped_files_are_valid(path: Path) -> None:
    assert load_config(path).clusters


def test_demo_toml_says_only_what_differs() -> None:
    defaults = as_tables(load_config(None))
    for table, key, value in _leaves(tomllib.loads((CONF / "demo.toml").read_text()), ()):
        at = defaults
        for name in table:
            at = at[name]
        assert at[key] != value, f"{'.'.join(table)}.{key} is the default"


def _leaves(table: dict, path: tuple[str, ...]):  # type: ignore[no-untyped-def, type-arg]
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*path, key))
        else:
            yield path, key, value


def test_the_readme_names_a_cluster_of_the_file_that_it_uses() -> None:
    readme = (CONF.parent / "README.md").read_text()
    commands = re.findall(r"--config (conf/\S+) --cluster (\S+)", readme)
    assert commands
    for path, cluster in commands:
        assert cluster in load_config(CONF.parent / path).clusters
