"""The blob: round trip, versions, damage, growth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from controller.core.settings import WindowSettings
from controller.core.state import StateBlobError, decode_state, encode_state, new_state
from controller.core.state.cluster import migrate
from controller.core.state.columns import Column, Columns
from tests.world import CLUSTER, SETTINGS, world


def test_a_lived_in_state_survives_its_blob() -> None:
    w = world(brokers=3, bundles=12).run(1_500)
    w.ask(list(w.bundles))
    w.run(8_000)
    blob = encode_state(w.state)
    back = decode_state(blob, w.settings)

    assert encode_state(back) == blob
    assert back.memory == w.state.memory
    assert back.bundles.slots == w.state.bundles.slots
    np.testing.assert_array_equal(back.bundles["long"], w.state.bundles["long"])


def test_an_empty_state_survives_its_blob() -> None:
    blob = encode_state(new_state(CLUSTER, SETTINGS))

    assert encode_state(decode_state(blob, SETTINGS)) == blob


def test_freed_slots_are_reused_lowest_first_also_after_a_blob() -> None:
    w = world(brokers=2, bundles=8).run(1_500)
    w.ask(list(w.bundles))
    w.run(500)
    names = sorted(w.bundles)
    for name in (names[5], names[2]):
        w.channel(name, None)
    slots = [w.state.bundles.slots.get(n) for n in names]
    back = decode_state(encode_state(w.state), w.settings)

    assert slots[5] is None
    assert sorted(back.bundles.free) == sorted(w.state.bundles.free)
    assert back.bundles.add("t/n/0x00000000_0x00000001") == min(w.state.bundles.free)


@pytest.mark.parametrize("blob", [b"", b"BC", b"NOPE" + bytes(20), b"BCST\x63\x00" + bytes(4)])
def test_what_is_not_a_state_is_refused(blob: bytes) -> None:
    with pytest.raises(StateBlobError):
        decode_state(blob, SETTINGS)


def test_a_truncated_blob_is_refused() -> None:
    blob = encode_state(world(brokers=2, bundles=4).run(2_000).state)
    with pytest.raises(StateBlobError, match="truncated"):
        decode_state(blob[:-1], SETTINGS)


def test_migrations_run_one_after_the_other() -> None:
    steps = {
        1: lambda header: {**header, "seen": [1]},
        2: lambda header: {**header, "seen": [*header["seen"], 2]},
    }

    assert migrate({"memory": {}}, 1, 3, steps) == {"memory": {}, "seen": [1, 2]}
    assert migrate({"memory": {}}, 3, 3, steps) == {"memory": {}}


def test_the_precision_of_a_kept_state_follows_the_settings() -> None:
    w = world(brokers=2, bundles=4).run(3_000)
    exact = replace(SETTINGS, windows=WindowSettings(precision="float64"))
    back = decode_state(encode_state(w.state), exact)

    assert back.bundles["long"].dtype == np.float64


def test_columns_keep_their_values_when_they_grow() -> None:
    columns = Columns((Column("a", "i8", -1), Column("b", "f4", 0, 3)))
    for i in range(200):
        slot = columns.add(f"n{i}")
        columns["a"][slot] = i
    columns.remove("n7")

    assert columns["a"].tolist() == [-1 if i == 7 else i for i in range(200)]
    assert columns.add("other") == 7
    assert len(columns) == 200
