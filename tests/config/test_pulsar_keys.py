from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.config import as_tables, load_config
from controller.config.pulsar.classes import (
    PLACEMENTS,
    SHEDDERS,
    SPLITS,
    UnknownClassError,
    placement_of,
    shedder_of,
    split_of,
)
from controller.config.pulsar.keys import ALIASES, KEYS
from controller.config.pulsar.targets import is_target, range_problem, value_at
from controller.config.pulsar.units import (
    mebibytes,
    minutes,
    namespaces,
    one_more,
    positive_or_off,
    seconds,
)
from controller.config.pulsar.values import TextError, text_of, value_of
from controller.strategies.registry import PLACE, SHED, SPLIT

GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "golden/pulsar/defaults.json").read_text()
)
TARGETED = {name: key for name, key in KEYS.items() if key.targets}


def test_defaults_are_those_of_pulsars_code() -> None:
    ours = {name: key.default for name, key in KEYS.items()}
    ours |= {twin: KEYS[proper].default for twin, proper in ALIASES.items()}
    both = GOLDEN.keys() & ours.keys()
    assert {name: ours[name] for name in both} == {name: GOLDEN[name] for name in both}
    assert {name: type(ours[name]) for name in both} == {name: type(GOLDEN[name]) for name in both}


def test_every_key_that_pulsar_dumps_is_known() -> None:
    assert GOLDEN.keys() <= KEYS.keys() | ALIASES.keys()


def test_every_key_has_a_target_or_says_why_not() -> None:
    assert [name for name, key in KEYS.items() if not key.targets and not key.why] == []


def test_every_target_is_a_key_of_our_file_and_of_one_key_of_pulsars() -> None:
    targets = [target for key in KEYS.values() for target in key.targets]
    assert [one for one in targets if not is_target(one)] == []
    assert len(targets) == len(set(targets))


@pytest.mark.parametrize("name", TARGETED)
def test_pulsars_default_fits_and_says_why_if_ours_is_another(name: str) -> None:
    key, defaults = TARGETED[name], as_tables(load_config(None))
    converted = key.convert(key.default)
    assert [range_problem(target, converted) for target in key.targets] == [""] * len(key.targets)
    if any(value_at(defaults, target) != converted for target in key.targets):
        assert key.why


def test_a_table_or_a_word_is_no_target() -> None:
    assert not any(map(is_target, ("balance", "balance.avg", "agent.nothing", "balance.shed.x")))


@pytest.mark.parametrize("name", KEYS)
def test_defaults_survive_being_written_and_read(name: str) -> None:
    default = KEYS[name].default
    again = value_of(f" {text_of(default)}\t", default)
    assert again == default and type(again) is type(default)


def test_units() -> None:
    assert (minutes(15), seconds(180), mebibytes(10)) == (900_000, 180_000, 10_485_760.0)
    assert (one_more(3), positive_or_off(-1), positive_or_off(7)) == (4, 0, 7)
    assert namespaces(["a/b", "pulsar/system"]) == ["pulsar/system", "a/b"]


@given(st.integers(-1_000_000, 1_000_000))
def test_units_lose_nothing(value: int) -> None:
    assert (minutes(value) / 60_000, seconds(value) / 1_000) == (value, value)
    assert (mebibytes(value) / 1_048_576, one_more(value) - 1) == (value, value)
    assert value_of(text_of(value), 0) == value and value_of(text_of(value / 8), 0.0) == value / 8


def test_classes_lead_to_strategies_that_are_there() -> None:
    assert set(SHEDDERS.values()) <= SHED.keys()
    assert set(PLACEMENTS.values()) <= PLACE.keys()
    assert set(SPLITS.values()) == SPLIT.keys()
    assert shedder_of(" AvgShedder") == placement_of("com.example.AvgShedder") == "avg"
    with pytest.raises(UnknownClassError, match="SimpleLoadManagerImpl"):
        split_of("org.apache.pulsar.broker.loadbalance.impl.SimpleLoadManagerImpl")


@pytest.mark.parametrize(
    ("text", "default", "value"),
    [
        ("TRUE", False, True),
        (" false ", True, False),
        ("+7", 1, 7),
        ("-1", 1, -1),
        ("3", 0.5, 3.0),
        (".5", 1.0, 0.5),
        ("1e3", 1.0, 1000.0),
        ("0.2d", 1.0, 0.2),
        ("a, b ,,c", [], ["a", "b", "c"]),
        ("", [], []),
        ("", 5, None),
        (" ", None, None),
        ("2.5", None, 2.5),
        ("", "x", ""),
    ],
)
def test_texts_become_values_of_the_defaults_type(text: str, default: Any, value: Any) -> None:
    assert value_of(text, default) == value


@pytest.mark.parametrize(
    ("text", "default"),
    [("yes", True), ("1.5", 1), ("1_000", 1), ("ten", 1), ("NaN", 0.5), ("1e999", 0.5), ("$A", 1)],
)
def test_other_texts_are_refused_with_a_remedy(text: str, default: Any) -> None:
    with pytest.raises(TextError) as caught:
        value_of(text, default)
    assert caught.value.remedy.startswith("write ")
