"""The channel's flows as stories: see `story.py`; REWRITE=1 rewrites the answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.core.story import Story
from tests.golden_text import run_golden

SCENARIOS = Path(__file__).parent / "scenarios"


@pytest.mark.parametrize("path", sorted(SCENARIOS.glob("*.txt")), ids=lambda path: path.stem)
def test_the_story_goes_as_written(path: Path) -> None:
    run_golden(path, Story().interpret)
