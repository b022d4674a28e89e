"""The example broker of the documentation, as a class and as a process."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

EXAMPLE = Path(__file__).parents[2] / "docs" / "example_broker.py"


def example_broker() -> Any:
    """The class."""
    spec = importlib.util.spec_from_file_location("example_broker", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.ExampleBroker
