from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.config import as_tables, load_config
from controller.config.pulsar.imported import import_properties
from controller.config.pulsar.keys import KEYS, PulsarKey
from controller.config.pulsar.outcome import Imported
from controller.config.pulsar.properties import parse_properties, read_properties
from controller.config.pulsar.targets import value_at
from controller.config.pulsar.values import text_of
from controller.config.text import leaves

CONF = Path(__file__).with_name("broker.conf")
MANAGER = "loadManagerClassName=org.apache.pulsar.broker.loadbalance.%sLoadManagerImpl\n"
EXTENSIBLE = MANAGER % "extensions.Extensible"
ALL_DEFAULTS = "".join(f"{name}={text_of(key.default)}\n" for name, key in KEYS.items())


def _import(text: str, base: dict[str, Any] | None = None, **options: Any) -> Imported:
    return import_properties(parse_properties(text, "broker.conf"), base, **options)


def _tables(found: Imported) -> dict[str, Any]:
    assert found.toml is not None
    return tomllib.loads(found.toml)


def _in_force(found: Imported, folder: Path) -> dict[str, Any]:
    path = folder / "ours.toml"
    path.write_text(found.toml or "")
    return as_tables(load_config(path))


@pytest.fixture(scope="module")
def real() -> Imported:
    return import_properties(read_properties(CONF))


def test_a_real_file_is_taken_and_the_result_can_be_used(real: Imported, tmp_path: Path) -> None:
    tables = _in_force(real, tmp_path)
    assert {
        "balance.shed": "threshold",
        "balance.place": "least_usage_modular",
        "balance.split": "long_term",
        "balance.rounds.interval_ms": 120_000,
        "balance.actions.bundle_cooldown_ms": 900_000,
        "balance.actions.excluded_namespaces": ["pulsar/system", "tenant/quiet", "tenant/still"],
        "balance.overload.overloaded_points": 90.0,
        "balance.filters.overloaded_points": 90.0,
        "balance.threshold.margin_points": 20.0,
        "balance.threshold.min_unload_throughput": 20_971_520.0,
        "balance.windows.broker_history_ratio": 0.8,
        "balance.weights.bandwidth_in": 0.5,
        "balance.least_resource.broker_topics_max": 20_000,
        "balance.thresholds.topics_max": 2_000,
        "balance.thresholds.sessions_max": 0,
        "balance.thresholds.throughput_max": 209_715_200.0,
        "balance.thresholds.algorithm": "topic_count_equally_divide",
        "balance.thresholds.splits_per_round_max": 10,
        "agent.report_change_points": 10.0,
        "agent.report_max_interval_ms": 900_000,
        "balance.liveness.report_ttl_ms": 1_800_000,
    }.items() <= {".".join(path): value for path, value in leaves(tables)}.items()


def test_every_key_of_a_real_file_is_accounted_for(real: Imported) -> None:
    assert real.errors == ()
    assert [(one.entry.line, one.entry.key) for one in real.without_meaning] == [
        (17, "loadBalancerEnabled"),
        (25, "loadBalancerHostUsageCheckIntervalMinutes"),
        (26, "loadBalancerOverrideBrokerNicSpeedGbps"),
        (44, "supportedNamespaceBundleSplitAlgorithms"),
        (46, "defaultNumberOfNamespaceBundles"),
    ]
    told = len(real.taken) + len(real.without_meaning) + real.other_keys
    assert told == len(read_properties(CONF).entries) - 1  # one is empty, and said to be
    notes = "\n".join(real.notes)
    assert "line 39: loadBalancerNamespaceBundleMaxTopics = 500 is overridden by line 40" in notes
    assert "line 34: loadBalancerBandwithInResourceWeight is read as" in notes
    assert "line 43: loadBalancerMaxNumberOfBundlesToSplitPerCycle is empty" in notes
    assert "line 47: loadBalancerShedingEnabled is no key of Pulsar's; did you mean" in notes


def test_the_text_says_only_what_differs_and_where_it_is_from(real: Imported) -> None:
    defaults = as_tables(load_config(None))
    for path, value in leaves(_tables(real)):
        assert value_at(defaults, ".".join(path)) != value, path
    assert real.toml is not None
    assert "interval_ms = 120000  # loadBalancerSheddingIntervalMinutes = 2\n" in real.toml


@pytest.mark.parametrize("text", ["", ALL_DEFAULTS])
def test_pulsars_defaults_give_pulsars_values(text: str, tmp_path: Path) -> None:
    found = _import(text, has_pulsar_defaults=True)
    assert (found.errors, found.other_defaults) == ((), ())
    tables = _in_force(found, tmp_path)
    for name, key in KEYS.items():
        for target in key.targets:
            assert value_at(tables, target) == key.convert(key.default), (name, target)
    touched = {target for key in KEYS.values() for target in key.targets}
    changed = {".".join(path) for path, _ in leaves(_tables(found))}
    assert changed - touched == {"balance.liveness.report_ttl_ms"}


def test_an_empty_file_changes_nothing_and_lists_other_defaults() -> None:
    found = _import("")
    assert _tables(found) == {} and found.taken == ()
    listed = {one.key: one for one in found.other_defaults}
    assert {"loadManagerClassName", "maxUnloadPercentage"} <= listed.keys()
    grace = listed["loadBalancerSheddingGracePeriodMinutes"]
    assert (grace.pulsar, grace.pulsar_here, grace.ours) == (
        30,
        {"balance.actions.bundle_cooldown_ms": 1_800_000},
        {"balance.actions.bundle_cooldown_ms": 300_000},
    )
    assert all(one.why for one in found.other_defaults)
    assert listed["maxUnloadPercentage"].ours == {"balance.avg.max_unload_ratio": 0.5}


def test_the_extensible_manager_has_its_own_strategies() -> None:
    found = _import(
        EXTENSIBLE + "loadBalancerLoadSheddingStrategy=x.ThresholdShedder\n"
        "loadBalancerLoadPlacementStrategy=x.LeastLongTermMessageRate\n"
    )
    assert _tables(found)["balance"] == {"shed": "transfer", "place": "least_usage_extensible"}
    keys = [one.entry.key for one in found.without_meaning]
    assert keys == ["loadBalancerLoadSheddingStrategy", "loadBalancerLoadPlacementStrategy"]
    assert found.errors == ()
    alone = _import(EXTENSIBLE, has_pulsar_defaults=True)
    assert _tables(alone)["balance"]["shed"] == "transfer"
    own = _import(EXTENSIBLE + "loadBalancerLoadSheddingStrategy=com.example.OurShedder\n")
    assert "'com.example.OurShedder' has no counterpart" in own.errors[0].problem


def test_the_modular_manager_splits_by_long_term_averages() -> None:
    text = MANAGER % "impl.Modular" + "loadBalancerLoadSheddingStrategy=x.TransferShedder\n"
    found = _import(text)
    assert _tables(found)["balance"] == {"shed": "transfer", "split": "long_term"}
    assert "cannot run TransferShedder" in found.notes[0]


@pytest.mark.parametrize(
    ("text", "weight"),
    [
        ("", 0.2),
        ("loadBalancerBandwidthOutResourceWeight=1", 0.2),
        ("loadBalancerBandwidthOutResourceWeight=", 0.2),
        ("loadBalancerBandwidthOutResourceWeight=3", 3.0),
    ],
)
def test_misspelt_twins_count_where_the_proper_key_has_its_default(
    text: str, weight: float
) -> None:
    found = _import(f"loadBalancerBandwithOutResourceWeight=0.2\n{text}\n")
    assert _tables(found)["balance"]["weights"] == {"bandwidth_out": weight}
    assert len(found.notes) == 1 and len(found.taken) == 1


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("maxUnloadPercentage=half", ["is no number", "write digits"]),
        ("maxUnloadPercentage=2", ["balance.uniform.max_unload_ratio = 2.0", "less than"]),
        ("loadBalancerSheddingEnabled=on", ["neither true nor false", "write true"]),
        ("loadBalancerSheddingIntervalMinutes=0", ["interval_ms = 0", "by hand"]),
        ("loadBalancerBrokerMaxTopics=$TOPICS", ["environment", "write the value itself"]),
        ("loadBalancerLoadSheddingStrategy=com.example.Mine", ["no counterpart", "avg"]),
        ("loadBalancerLoadSheddingStrategy=", ["no counterpart", "choose one of ours"]),
        ("loadManagerClassName=x.SimpleLoadManagerImpl", ["no counterpart", "Extensible"]),
        ("defaultNamespaceBundleSplitAlgorithm=specified_positions_divide", ["pattern"]),
    ],
)
def test_what_cannot_be_taken_is_an_error_and_the_rest_is_taken(
    line: str, words: list[str]
) -> None:
    found = _import(f"minUnloadMessage=7\n{line}\n")
    (error,) = found.errors
    key, _, value = line.partition("=")
    entry = error.entries[0]
    assert (entry.line, entry.key, entry.value) == (2, key, value)
    said = f"{error.problem}; {error.remedy}".replace("AvgShedder", "avg")
    assert all(word in said for word in words), said
    assert _tables(found)["balance"]["avg"] == {"min_unload_rate": 7.0}


def test_values_that_do_not_fit_together_name_their_keys() -> None:
    found = _import(
        "minUnloadMessage=7\nloadBalancerSheddingIntervalMinutes=1\n"
        "loadBalancerServiceUnitStateMonitorIntervalInSeconds=45\n"
    )
    (error,) = found.errors
    assert [one.line for one in error.entries] == [2, 3] and found.toml is None
    assert "must be a multiple of upkeep_interval_ms = 45000" in error.problem
    assert "set balance.rounds.interval_ms, balance.rounds.upkeep_interval_ms" in error.remedy


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("loadBalancerAvgShedderLowThreshold=50", [1]),
        ("loadBalancerInFlightServiceUnitStateWaitingTimeInMillis=9", [1]),
        ("loadBalancerServiceUnitStateTombstoneDelayTimeInSeconds=1", [1]),
        (
            "loadBalancerCPUResourceWeight=0\nloadBalancerBandwidthInResourceWeight=0\n"
            "minUnloadMessage=7\nloadBalancerBandwidthOutResourceWeight=0",
            [1, 2, 4],
        ),
    ],
)
def test_a_check_names_the_keys_that_it_speaks_of(text: str, lines: list[int]) -> None:
    (error,) = _import(text).errors
    assert [one.line for one in error.entries] == lines


def test_the_base_stays_and_the_file_wins_over_it() -> None:
    base = {
        "balance": {"shed": "uniform", "rounds": {"interval_ms": 30_000}},
        "clusters": {"east": {}, "west": {"channel": "w"}},
        "job": {"spark_conf": {"spark.a.b": "1"}},
        "agent": {"report_interval_ms": 3_000},
    }
    found = _import("loadBalancerSheddingIntervalMinutes=3", base, has_pulsar_defaults=True)
    tables = _tables(found)
    assert tables["balance"]["rounds"]["interval_ms"] == 180_000
    assert tables["balance"]["shed"] == "uniform"  # the base is no default
    assert tables["balance"]["place"] == "least_long_term_rate"
    assert tables["agent"]["report_interval_ms"] == 3_000
    assert tables["clusters"] == {"east": {}, "west": {"channel": "w"}}
    assert tables["job"]["spark_conf"] == {"spark.a.b": "1"}
    assert base["balance"]["rounds"] == {"interval_ms": 30_000}


def test_the_time_to_live_of_the_base_is_not_touched() -> None:
    base = {"balance": {"liveness": {"report_ttl_ms": 200_000}}}
    found = _import("loadBalancerReportUpdateThresholdPercentage=5", base)
    assert _tables(found)["balance"]["liveness"]["report_ttl_ms"] == 200_000
    text = ALL_DEFAULTS.replace("UpdateMaxIntervalMinutes=15", "UpdateMaxIntervalMinutes=5")
    (error,) = _import(text, base).errors
    assert "report_ttl_ms = 200000" in error.problem
    assert {one.key for one in error.entries} == {
        "loadBalancerReportUpdateMaxIntervalMinutes",
        "loadBalancerReportUpdateMinIntervalMillis",
    }


def test_a_target_that_this_version_lacks_is_said_and_skipped() -> None:
    keys = {"minUnloadMessage": PulsarKey(1_000, ("balance.avg.min_unload_rate", "agent.none"))}
    found = _import("minUnloadMessage=5", keys=keys)
    assert _tables(found) == {"balance": {"avg": {"min_unload_rate": 5}}}
    assert "also steers agent.none, which this version does not have" in found.notes[0]
    assert found.errors == ()


def test_the_environment_has_no_part_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUNDLECTL_BALANCE__SHED", "overload")
    assert _tables(_import("loadBalancerSheddingIntervalMinutes=1")) == {}


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(KEYS)), st.text(max_size=8)))
def test_no_text_stops_an_import(pairs: dict[str, str]) -> None:
    text = "".join(
        f"{key}=" + "".join(f"\\u{ord(one):04x}" for one in value if ord(one) < 0xD800) + "\n"
        for key, value in pairs.items()
    )
    found = _import(text)
    assert (found.toml is None) <= bool(found.errors)
