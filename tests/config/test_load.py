from __future__ import annotations

import dataclasses
import tomllib
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

from controller.agent.runtime import RuntimeSettings
from controller.agent.state import AgentSettings
from controller.config import ConfigError, as_tables, as_toml, load_config, parse_override
from controller.config.models import DERIVED
from controller.config.ranges import rule_of
from controller.core.settings import Settings


def _problems(path: Path | None = None, **overrides: object) -> str:
    given = {key.replace("__", "."): value for key, value in overrides.items()}
    with pytest.raises(ConfigError) as caught:
        load_config(path, given)
    return str(caught.value)


def _file(folder: Path, text: str) -> Path:
    path = folder / "job.toml"
    path.write_text(text)
    return path


def test_defaults_are_those_of_the_core_and_the_agent() -> None:
    config = load_config(None)
    assert config.balance == Settings()
    assert config.settings_for("local").channel_topic == "bundle-state-local"
    assert config.agent_settings() == AgentSettings()
    expected = RuntimeSettings(channel_topic="bundle-state-local")
    assert config.runtime_settings("local") == expected


def test_every_field_of_the_cores_settings_can_be_set() -> None:
    tables = as_tables(load_config(None))
    given = {**tables["balance"], "limits": tables["limits"]}
    for section in fields(Settings):
        if section.name in DERIVED:
            continue  # [topics], [clusters] and [transport] say them
        value = getattr(Settings(), section.name)
        if is_dataclass(value):
            assert set(given[section.name]) == {one.name for one in fields(value)}
        else:
            assert section.name in given


def test_a_value_from_the_file_reaches_the_core(tmp_path: Path) -> None:
    path = _file(tmp_path, "[balance.avg]\nhit_count_low = 3\n[limits]\ntext_max = 99\n")
    settings = load_config(path).settings_for("local")
    assert (settings.avg.hit_count_low, settings.limits.text_max) == (3, 99)


def test_overrides_beat_environment_beats_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _file(tmp_path, "[job]\ntrigger_ms = 100\nname = 'a'\nread_partitions = 2\n")
    monkeypatch.setenv("BUNDLECTL_JOB__TRIGGER_MS", "200")
    monkeypatch.setenv("BUNDLECTL_JOB__NAME", "b")
    job = load_config(path, {"job.trigger_ms": 300}).job
    assert (job.trigger_ms, job.name, job.read_partitions) == (300, "b", 2)


def test_clusters_have_topics_of_their_own(tmp_path: Path) -> None:
    text = "[clusters.east]\nreports_topics = ['east-loads']\n[clusters.west]\nchannel = 'w'\n"
    config = load_config(_file(tmp_path, text))
    assert config.settings_for("east").channel_topic == "bundle-state-east"
    assert config.settings_for("west").channel_topic == "w"
    assert config.report_topic_clusters == {"east-loads": "east"}


def test_the_configuration_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        load_config(None).job.trigger_ms = 5  # type: ignore[misc]


def test_shown_toml_means_the_same(tmp_path: Path) -> None:
    tables = as_tables(load_config(None, {"job.spark_conf": {"spark.a.b": "c \"d\" 'e'"}}))
    assert tomllib.loads(as_toml(tables)) == tables
    assert as_tables(load_config(_file(tmp_path, as_toml(tables)))) == tables


def test_spark_keys_need_no_quotes(tmp_path: Path) -> None:
    path = _file(tmp_path, "[job.spark_conf]\nspark.ui.enabled = true\nspark.x = 1\n")
    assert load_config(path).job.spark_conf == {"spark.ui.enabled": "true", "spark.x": "1"}


def test_unknown_keys_name_file_table_key_and_nearest(tmp_path: Path) -> None:
    path = _file(tmp_path, "[balance.rounds]\nintervall_ms = 5\n[clusters.a]\nchanel = 'x'\n")
    lines = _problems(path).splitlines()
    rounds = "[balance.rounds] unknown key 'intervall_ms'; did you mean 'interval_ms'?"
    assert f"{path}: {rounds}" in lines
    assert f"{path}: [clusters.a] unknown key 'chanel'; did you mean 'channel'?" in lines


@pytest.mark.parametrize("name", ["BUNDLECTL_JOB__TRIGER_MS", "BUNDLECTL_JOB_TRIGGER_MS"])
def test_misspelt_variables_are_errors(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "5")
    assert "did you mean" in _problems() and name in _problems()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("job.trigger_ms", 0),
        ("job.act", "publish"),
        ("job.driver_memory", "much"),
        ("balance.liveness.safe_mode_share", 1.5),
        ("balance.avg.high_threshold_points", 140.0),
        ("balance.windows.precision", "float16"),
        ("balance.weights.cpu", -1.0),
        ("balance.weights.cpu", float("nan")),
        ("balance.rounds.interval_ms", "soon"),
        ("metrics.port", 70_000),
        ("topics.commands", "a b"),
        ("transport.durability", "none"),
        ("agent.lease_ms", -1),
    ],
)
def test_values_out_of_range_are_errors(key: str, value: object) -> None:
    assert key.rpartition(".")[2] in _problems(**{key: value})


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"agent.lease_ms": 30_000}, ["takeover_after_ms = 20000", "at least 31500"]),
        ({"balance.liveness.late_after_ms": 1_500}, ["late_after_ms = 1500", "2000"]),
        ({"balance.liveness.late_after_ms": 19_000}, ["late_after_ms = 19000", "18000"]),
        ({"balance.liveness.report_ttl_ms": 3_000}, ["report_ttl_ms = 3000", "2000"]),
        (
            {"agent.report_change_points": 10.0, "agent.report_max_interval_ms": 178_000},
            ["report_ttl_ms = 180000", "report_max_interval_ms = 178000", "= 2000", "lower"],
        ),
        ({"balance.rounds.interval_ms": 7_000}, ["interval_ms = 7000", "multiple"]),
        ({"balance.rounds.settle_ms": 5_000}, ["settle_ms = 5000", "upkeep_interval_ms"]),
        ({"agent.takeover_grace_ms": 352}, ["takeover_grace_ms = 352", "at least 353"]),
        ({"agent.heard_settle_ms": 30_299}, ["heard_settle_ms = 30299", "at least 30300"]),
        ({"agent.unheard_poll_ms": 500}, ["unheard_poll_ms = 500", "at least 605", "raise it"]),
        ({"agent.unheard_poll_ms": 199}, ["unheard_poll_ms = 199", "poll_interval_ms = 100"]),
        (
            {"balance.actions.in_flight_timeout_ms": 11_299},
            ["in_flight_timeout_ms = 11299", "at least 11300", "lower agent.lease_ms"],
        ),
        ({"agent.busy_wait_ms": 9_000}, ["busy_wait_ms = 9000", "lease_ms"]),
        ({"agent.backoff_min_ms": 3_000}, ["backoff_min_ms = 3000", "backoff_max_ms"]),
        ({"balance.avg.low_threshold_points": 40.0}, ["low_threshold_points = 40", "less than"]),
        ({"balance.shed": "avgg"}, ["shed = 'avgg'", "did you mean 'avg'"]),
        ({"balance.windows.short_samples": 2_000}, ["short_samples = 2000", "long_samples"]),
        ({"balance.actions.in_flight_max": 5}, ["in_flight_max = 5", "lower it"]),
        ({"balance.actions.tombstone_delay_ms": 9}, ["tombstone_delay_ms = 9", "30000"]),
        ({"lease.wait_ms": 5_000}, ["wait_ms = 5000", "ttl_ms = 10000"]),
        ({"clusters": {"a/b": {}}}, ["'a/b'", "rename"]),
        ({"topics.commands": "load-reports"}, ["'load-reports'", "2 times"]),
        (
            {"balance.weights": dict.fromkeys(("cpu", "bandwidth_in", "bandwidth_out"), 0)},
            ["weights"],
        ),
    ],
)
def test_relations_name_keys_values_and_remedy(
    overrides: dict[str, object], words: list[str]
) -> None:
    text = _problems(**overrides)
    assert all(word in text for word in words), text


@pytest.mark.parametrize(
    ("key", "lowest", "others"),
    [
        ("agent.takeover_grace_ms", 353, {}),
        ("agent.heard_settle_ms", 30_300, {}),
        ("agent.takeover_grace_ms", 375, {"agent.clock_drift_max_ratio": 0.1}),
        ("agent.unheard_poll_ms", 200, {}),
        ("balance.liveness.takeover_after_ms", 12_300, {"agent.heartbeat_interval_ms": 2_000}),
        ("balance.actions.in_flight_timeout_ms", 11_300, {}),
        ("agent.split_tries_max", 1, {}),
        ("agent.shutdown_wait_ms", 0, {}),
    ],
)
def test_the_limits_of_the_protocol_hold_exactly(
    key: str, lowest: int, others: dict[str, object]
) -> None:
    late = {"balance.liveness.late_after_ms": 4_000}
    load_config(None, {**late, **others, key: lowest})
    assert key.rpartition(".")[2] in _problems(**{**late, **others, key: lowest - 1})


def test_settings_of_the_agent_come_from_the_file(tmp_path: Path) -> None:
    text = "unheard_poll_ms = 220\nsplit_tries_max = 3\nsplit_retry_ms = 9\nshutdown_wait_ms = 5\n"
    config = load_config(_file(tmp_path, f"[agent]\n{text}[topics]\ncommands = 'orders'\n"))
    agent, runtime = config.agent_settings(), config.runtime_settings("local")
    assert (agent.unheard_poll_ms, agent.split_tries_max, agent.split_retry_ms) == (220, 3, 9)
    assert (runtime.shutdown_wait_ms, runtime.commands_topic) == (5, "orders")


def test_what_agents_report_comes_from_the_file(tmp_path: Path) -> None:
    text = """[agent]
report_change_points = 10.0
report_max_interval_ms = 177999
report_bundles_max = 50
report_excluded_namespaces = ["pulsar/system", "t/quiet"]
topic_hashes_above = 1
topic_loads_above_rate = 2.5
report_topics_max = 3
"""
    runtime = load_config(_file(tmp_path, text)).runtime_settings("local")
    assert (runtime.report_change_points, runtime.report_max_interval_ms) == (10.0, 177_999)
    assert runtime.report_bundles_max == 50
    assert runtime.report_excluded_namespaces == ("pulsar/system", "t/quiet")
    assert (runtime.topic_hashes_above, runtime.topic_loads_above_rate) == (1, 2.5)
    assert runtime.report_topics_max == 3


def test_agents_that_report_at_every_interval_need_no_longest_one() -> None:
    assert load_config(None, {"agent.report_max_interval_ms": 10_000_000})


def test_all_problems_are_told_together() -> None:
    text = _problems(**{"balance.shed": "x", "balance.rounds.interval_ms": 7_000})
    assert len(text.splitlines()) == 2


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    assert "there is no such file" in _problems(tmp_path / "none.toml")
    assert "is not valid TOML" in _problems(_file(tmp_path, "[job\n"))
    assert "cannot be read" in _problems(tmp_path)


def test_a_key_without_a_range_fails_at_once() -> None:
    with pytest.raises(LookupError, match=r"ranges\.py"):
        rule_of("job", "something_new", int)


def test_overrides_of_the_command_line() -> None:
    assert parse_override("job.trigger_ms=5") == ("job.trigger_ms", 5)
    assert parse_override("job.name=my-job") == ("job.name", "my-job")
    with pytest.raises(ConfigError, match=r"table\.key=value"):
        parse_override("job.name")


def test_an_override_of_a_table_and_of_its_key_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"job\.trigger_ms: job was given a value"):
        load_config(None, {"job": 1, "job.trigger_ms": 300})
