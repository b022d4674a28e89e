"""Windows against Pulsar's BundleData, and against a loop over single samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.state.columns import Columns
from controller.core.state.tables import bundle_table
from controller.core.state.windows import Sample, add_samples
from controller.load.averages import smooth
from tests.golden_scenarios import load, ticks

RATES = ("msgRateIn", "msgRateOut", "msgThroughputIn", "msgThroughputOut")


def table(bundles: int, precision: str = "float64") -> Columns:
    columns = bundle_table(precision)
    for i in range(bundles):
        columns.add(f"t/n/{i}")
    return columns


@pytest.mark.parametrize("row", load("BundleData"), ids=lambda row: row["in"]["id"])
def test_averages_equal_those_of_pulsars_class(row: dict[str, Any]) -> None:
    """Defaults of a bundle never seen do not matter: the first sample overwrites them."""
    columns = table(1)
    for tick, golden in zip(ticks(row["in"]), row["out"]["ticks"], strict=True):
        sample = tick["sample"]
        values = np.array([[*(sample.get(r, 0.0) for r in RATES), 0.0, sample["topics"], 0.0]])
        slots = np.zeros(1, np.int64)
        short, long = tick.get("shortSamples", 10), tick.get("longSamples", 1_000)
        add_samples(columns, [(slots, values, 1)], short, long)
        for column, name in (("short", "shortTerm"), ("long", "longTerm")):
            expected = [golden[name][r] for r in RATES]
            np.testing.assert_allclose(columns[column][0], expected, rtol=1e-9, atol=1e-9)
        assert int(columns["samples"][0]) == golden["longTerm"]["numSamples"]
        assert int(columns["topics"][0]) == golden["topics"]


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 5), st.floats(0, 1e9)), min_size=1, max_size=8),
        max_size=6,
    ),
    st.sampled_from(["float32", "float64"]),
)
def test_many_samples_at_once_equal_one_after_the_other(
    batches: list[list[tuple[int, float]]], precision: str
) -> None:
    """A bundle may occur several times in what is applied at once."""
    samples: list[Sample] = [
        (np.array([s for s, _ in b]), np.array([[v] * 7 for _, v in b]), i)
        for i, b in enumerate(batches)
    ]
    at_once, one_by_one = table(6, precision), table(6, precision)
    add_samples(at_once, samples, 3, 5)
    for slots, values, ms in samples:
        for i in range(len(slots)):
            add_samples(one_by_one, [(slots[i : i + 1], values[i : i + 1], ms)], 3, 5)

    for column in ("raw", "short", "long", "samples", "sampled_ms"):
        np.testing.assert_array_equal(at_once[column], one_by_one[column])


def test_the_first_sample_of_an_average_is_taken_as_it_is() -> None:
    assert smooth(0.0, 0.7, 0, 0.9) == 0.7
    assert smooth(0.5, 0.7, 1, 0.9) == pytest.approx(0.52)
