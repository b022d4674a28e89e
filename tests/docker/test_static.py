"""The files under docker/ cannot be run in a test; what can be known from their text is checked."""

from __future__ import annotations

import configparser
import json
import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.config import load_config
from streaming.metrics import Metrics
from streaming.process import NEEDS_OPERATOR

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
KUBERNETES = sorted((DOCKER / "kubernetes").glob("*.yaml"))
PANELS = DOCKER / "grafana" / "dashboards" / "bundle-controller.json"
ONE_SHOT = {"topics", "lookups"}  # they end when they are done: there is no health to check

NAME = re.compile(r"\b(?:bundle_controller|pulsar_lb|process|python)_[a-z0-9_]+")
LABELS = re.compile(r"\{[^}]*\}")
VERSION = re.compile(r"^v?\d+\.\d+\.\d+$")


def documents(path: Path) -> list[Any]:
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def compose() -> dict[str, Any]:
    (found,) = documents(DOCKER / "compose.yaml")
    return dict(found)


def services() -> list[Any]:
    found = compose()["services"]
    return [pytest.param(name, one, id=name) for name, one in found.items()]


def deployment() -> dict[str, Any]:
    (found,) = documents(DOCKER / "kubernetes" / "deployment.yaml")
    return dict(found["spec"])


def container() -> dict[str, Any]:
    (found,) = deployment()["template"]["spec"]["containers"]
    return dict(found)


def unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=False, interpolation=None, delimiters="=")
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    text = (DOCKER / "systemd" / "bundle-controller.service").read_text(encoding="utf-8")
    parser.read_string(text)
    return parser


def version() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["version"])


# --------------------------------------------------------------------------- compose


@pytest.mark.parametrize(("name", "service"), services())
def test_a_service_is_restarted_looked_after_and_not_reachable_from_outside(
    name: str, service: dict[str, Any]
) -> None:
    assert service["restart"] == "unless-stopped" or service["restart"].startswith("on-failure")
    assert bool(service["healthcheck"].get("test")) is (name not in ONE_SHOT)
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
    assert "network_mode" not in service and not service.get("privileged")


@pytest.mark.parametrize(("name", "service"), services())
def test_a_service_names_the_version_of_its_image(name: str, service: dict[str, Any]) -> None:
    image, _, tag = service["image"].rpartition(":")
    assert VERSION.match(tag), service["image"]
    if image == "bundle-controller":
        assert tag == version()
        assert (DOCKER / service["build"]["context"] / service["build"]["dockerfile"]).is_file()


def test_what_services_mount_exists() -> None:
    found = compose()
    for service in found["services"].values():
        for mount in service.get("volumes", []):
            source = mount.partition(":")[0]
            assert source in found["volumes"] or (DOCKER / source).exists(), mount


def test_the_controller_has_more_time_to_stop_than_it_takes() -> None:
    assert compose()["services"]["controller"]["stop_grace_period"] == "40s"
    assert deployment()["template"]["spec"]["terminationGracePeriodSeconds"] == 40
    assert unit()["Service"]["TimeoutStopSec"] == "40"


def test_three_brokers_have_three_names_and_a_cluster_of_the_configuration() -> None:
    commands = [
        one["command"] for one in compose()["services"].values() if one.get("command", "")[0:1]
    ]
    agents = [one for one in commands if one[0] == "agent"]
    clusters = load_config(ROOT / "conf" / "kafka.toml").clusters
    assert len({one[one.index("--broker") + 1] for one in agents}) == 3
    assert {one[one.index("--cluster") + 1] for one in agents} <= set(clusters)


# --------------------------------------------------------------------------- metrics


def registered() -> set[str]:
    """Every name that a scrape can show, histograms with their parts."""
    parts = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum")}
    return {
        family.name + part
        for family in Metrics().registry.collect()
        for part in parts.get(family.type, ("",))
    }


def expressions() -> Iterator[tuple[str, str]]:
    for group in documents(DOCKER / "alerts.yml")[0]["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]
    yield from _panel_expressions(json.loads(PANELS.read_text(encoding="utf-8")))


def _panel_expressions(dashboard: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]
    for one in dashboard["templating"]["list"]:
        yield one["name"], one["query"]["query"]
    for one in dashboard["annotations"]["list"]:
        yield one["name"], one["expr"]


def test_alerts_and_panels_ask_for_metrics_that_exist() -> None:
    known = registered()
    asked = {(where, name) for where, text in expressions() for name in NAME.findall(_bare(text))}
    assert {name for _, name in asked} >= {"bundle_controller_lease_held"}
    assert not {one for one in asked if one[1] not in known}


def test_figures_of_the_snapshot_that_are_asked_for_exist() -> None:
    from controller.core.inputs import Snapshot

    figures = {
        name
        for _, text in expressions()
        for found in re.findall(r'figure="([a-z_]+)"', text)
        for name in [found]
    }
    assert figures and figures <= set(Snapshot.__slots__)


def _bare(expression: str) -> str:
    """Without label matchers: what stands in them is no metric."""
    return LABELS.sub("", expression)


def test_every_alert_says_what_happened_and_how_urgent_it_is() -> None:
    for group in documents(DOCKER / "alerts.yml")[0]["groups"]:
        for rule in group["rules"]:
            assert rule["labels"]["severity"] in ("page", "ticket"), rule["alert"]
            assert rule["annotations"]["summary"] and rule["annotations"]["description"]


def test_prometheus_scrapes_the_job_that_alerts_and_panels_select() -> None:
    (found,) = documents(DOCKER / "prometheus.yml")
    jobs = {one["job_name"]: one for one in found["scrape_configs"]}
    assert jobs["bundle-controller"]["static_configs"] == [{"targets": ["controller:8080"]}]
    assert (DOCKER / found["rule_files"][0]).is_file()
    for where, text in expressions():
        selected = set(re.findall(r'job="([^"]+)"', text))
        assert selected == {"bundle-controller"}, where


def test_panels_use_the_data_source_that_is_provisioned() -> None:
    (found,) = documents(DOCKER / "grafana/provisioning/datasources/prometheus.yaml")
    known = {one["uid"] for one in found["datasources"]}
    panels = json.loads(PANELS.read_text(encoding="utf-8"))["panels"]
    assert {one["datasource"]["uid"] for one in panels if one["type"] != "row"} <= known
    assert len({one["id"] for one in panels}) == len(panels)


# --------------------------------------------------------------------------- systemd, Kubernetes


def test_the_unit_restarts_unless_a_restart_cannot_help() -> None:
    service = unit()["Service"]
    assert service["Restart"] == "on-failure"
    assert str(NEEDS_OPERATOR) == "78"
    assert str(NEEDS_OPERATOR) in service["RestartPreventExitStatus"].split()
    assert service["KillMode"] == "mixed"
    assert service["ExecStart"].endswith("bundlectl run --config /etc/bundle-controller/kafka.toml")
    assert "MemoryDenyWriteExecute" not in service


@pytest.mark.parametrize("path", KUBERNETES, ids=lambda one: one.name)
def test_a_manifest_is_complete(path: Path) -> None:
    for one in documents(path):
        assert one["apiVersion"] and one["kind"] and one["metadata"]["name"]
        assert one["kind"] != "Secret", "secrets are created by hand, never committed"


def test_one_controller_runs_at_a_time_and_is_asked_for_its_health() -> None:
    spec, found = deployment(), container()
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    assert found["livenessProbe"]["httpGet"]["path"] == "/health"
    assert found["readinessProbe"]["httpGet"]["path"] == "/ready"
    assert found["image"] == f"bundle-controller:{version()}"
    assert found["securityContext"]["readOnlyRootFilesystem"] is True
    mounted = {one["name"] for one in found["volumeMounts"]}
    assert mounted == {one["name"] for one in spec["template"]["spec"]["volumes"]}


def test_the_config_map_loads_and_its_secret_comes_from_the_pods_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clear_environment(monkeypatch)
    (found,) = documents(DOCKER / "kubernetes" / "configmap.yaml")
    file = tmp_path / "kafka.toml"
    file.write_text(found["data"]["kafka.toml"], encoding="utf-8")
    kafka = load_config(file).transport.kafka
    secrets = {one["name"] for one in container()["env"] if "valueFrom" in one}
    assert kafka.password_env in secrets and not kafka.password_file
    mounts = [one["mountPath"] for one in container()["volumeMounts"]]
    assert str(Path(kafka.ca_file).parent) in mounts
    assert str(Path(load_config(file).job.checkpoint).parent) in mounts


# --------------------------------------------------------------------------- configuration


def clear_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("BUNDLECTL_"):
            monkeypatch.delenv(name)


def test_the_example_for_kafka_loads_and_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    clear_environment(monkeypatch)
    config = load_config(ROOT / "conf" / "kafka.toml")
    assert config.transport.kind == "kafka"
    assert not config.transport.kafka.password_env  # plain, as docker/compose.yaml needs it


def environments() -> list[Any]:
    """What compose, image and Kubernetes set of our own variables."""
    found = compose()["services"]
    sets = {f"compose-{name}": dict(one.get("environment", {})) for name, one in found.items()}
    sets["kubernetes"] = {one["name"]: one.get("value", "") for one in container()["env"]}
    text = (DOCKER / "Dockerfile").read_text(encoding="utf-8")
    settings = text[text.index("\nENV ") :]
    sets["image"] = dict(re.findall(r"\b(BUNDLECTL_[A-Z_]+)=(\S+)", settings))
    return [
        pytest.param(ours, id=name)
        for name, every in sets.items()
        if (ours := {key: value for key, value in every.items() if key.startswith("BUNDLECTL_")})
    ]


@pytest.mark.parametrize("variables", environments())
@pytest.mark.parametrize("file", ["kafka.toml", "embedded.toml"])
def test_variables_that_are_set_are_keys_of_the_configuration(
    variables: dict[str, str], file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clear_environment(monkeypatch)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    config = load_config(ROOT / "conf" / file)
    assert config.transport.kind == file.removesuffix(".toml")


def test_the_image_has_what_both_logs_need() -> None:
    text = (DOCKER / "Dockerfile").read_text(encoding="utf-8")
    connector = re.search(r"BUNDLECTL_TRANSPORT__KAFKA__CONNECTOR=(\S+)", text)
    assert connector and f"bundlectl jars --to {connector[1]}" in text
    assert "'.[kafka]'" in text
    assert "conf/embedded.toml" in text[text.index("\nCMD ") :]
