"""Every way in, for our clients, on real brokers; and what is said where there is none."""

from __future__ import annotations

import os
import socket
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from controller.devkafka import Broker
from controller.transport.errors import AuthenticationError, UnreachableError
from controller.transport.kafka.log import KafkaLog
from controller.transport.kafka.settings import KafkaSettings
from controller.transport.port import Marker, OutRecord
from tests.kafka.authorities import KEY_PASSWORD, Authority
from tests.kafka.worlds import World, await_so

pytestmark = pytest.mark.kafka

PASSWORD = 'pass"wo\\rd'
END_S = 15.0  # within which a wrong password or certificate ends in a sentence
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
QUOTED = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')


def listener(protocol: str, **more: str) -> dict[str, str]:
    return {
        "listeners": f"{protocol}://127.0.0.1:{{port}},CONTROLLER://127.0.0.1:{{controller_port}}",
        "advertised.listeners": f"{protocol}://127.0.0.1:{{port}}",
        "inter.broker.listener.name": protocol,
        "listener.security.protocol.map": f"{protocol}:{protocol},CONTROLLER:PLAINTEXT",
        **{name.replace("__", "."): value for name, value in more.items()},
    }


SASL_PROPERTIES = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
}


def sasl(protocol: str) -> dict[str, str]:
    prefix = f"listener.name.{protocol.lower()}"
    users = f'username="app" password="{QUOTED}" user_app="{QUOTED}"'
    return {
        **listener(protocol),
        **SASL_PROPERTIES,
        f"{prefix}.plain.sasl.jaas.config": f"{PLAIN} {users};",
        f"{prefix}.scram-sha-256.sasl.jaas.config": SCRAM,
        f"{prefix}.scram-sha-512.sasl.jaas.config": SCRAM,
    }


def scram_users() -> list[str]:
    return [
        part
        for name in ("SCRAM-SHA-256", "SCRAM-SHA-512")
        for part in ("--add-scram", f'{name}=[name="app",password="{PASSWORD}"]')
    ]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    folder = tmp_path_factory.mktemp("certificates")
    authority, other = Authority(folder), Authority(folder, "other")
    return {
        "authority": authority.file,
        "other_authority": other.file,
        "broker": authority.signs("broker"),
        "app": authority.signs("app", key_password=KEY_PASSWORD),
        "stranger": other.signs("stranger"),
    }


def tls(certificates: Mapping[str, Path]) -> dict[str, str]:
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates["broker"]),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates["authority"]),
    }


@pytest.fixture(scope="module")
def sasl_broker() -> Iterator[Broker]:
    with Broker(extra=sasl("SASL_PLAINTEXT"), format_args=scram_users()) as broker:
        yield broker


@pytest.fixture(scope="module")
def mtls_broker(certificates: Mapping[str, Path]) -> Iterator[Broker]:
    extra = {**listener("SSL"), **tls(certificates), "ssl.client.auth": "required"}
    with Broker(extra=extra) as broker:
        yield broker


@pytest.fixture(scope="module")
def sasl_ssl_broker(certificates: Mapping[str, Path]) -> Iterator[Broker]:
    extra = {**sasl("SASL_SSL"), **tls(certificates)}
    with Broker(extra=extra, format_args=scram_users()) as broker:
        yield broker


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APP_PASSWORD", PASSWORD)
    monkeypatch.setenv("APP_KEY_PASSWORD", KEY_PASSWORD)
    monkeypatch.setenv("WRONG", "wrong")


def by_password(broker: Broker, mechanism: str = "SCRAM-SHA-512") -> KafkaSettings:
    return KafkaSettings(
        bootstrap_servers=broker.bootstrap,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism,  # type: ignore[arg-type]
        username="app",
        password_env="APP_PASSWORD",
        connect_timeout_ms=4_000,
    )


def by_certificate(broker: Broker, certificates: Mapping[str, Path]) -> KafkaSettings:
    return KafkaSettings(
        bootstrap_servers=broker.bootstrap,
        security_protocol="SSL",
        ca_file=str(certificates["authority"]),
        certificate_file=str(certificates["app"]),
        key_password_env="APP_KEY_PASSWORD",
        connect_timeout_ms=4_000,
    )


def by_both(broker: Broker, certificates: Mapping[str, Path]) -> KafkaSettings:
    settings = replace(by_password(broker), security_protocol="SASL_SSL")
    return replace(settings, ca_file=str(certificates["authority"]))


def assert_works(settings: KafkaSettings, unique: str) -> None:
    """Topics, append, lease, transaction and read: every kind of client."""
    log = KafkaLog(settings)
    log.create_topic(f"t-{unique}", 1)
    log.append([OutRecord(f"t-{unique}", "k", b"appended")])
    lease = log.acquire_lease(f"job-{unique}", "test", 60_000)
    published = OutRecord(f"t-{unique}", "k", b"published")
    log.publish([published], Marker(lease.name, "id", 1, lease.epoch), lease)
    deadline = time.monotonic() + 10
    while len(found := log.read(f"t-{unique}", 0, 0, 9)) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert [one.value for one in found] == [b"appended", b"published"]
    log.close()


def refused(settings: KafkaSettings, kind: type[Exception] = AuthenticationError) -> str:
    """The sentence that it ends in, in time, without the secrets."""
    started = time.monotonic()
    with pytest.raises(kind) as caught:
        KafkaLog(settings).topics()
    assert time.monotonic() - started < END_S
    for name in ("APP_PASSWORD", "APP_KEY_PASSWORD"):
        assert os.environ[name] not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_password_opens(sasl_broker: Broker, mechanism: str, unique: str) -> None:
    assert_works(by_password(sasl_broker, mechanism), unique)


def test_a_certificate_opens(
    mtls_broker: Broker, certificates: Mapping[str, Path], unique: str
) -> None:
    assert_works(by_certificate(mtls_broker, certificates), unique)


def test_a_password_over_tls_opens(
    sasl_ssl_broker: Broker, certificates: Mapping[str, Path], unique: str
) -> None:
    assert_works(by_both(sasl_ssl_broker, certificates), unique)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_wrong_password_ends_in_a_sentence(sasl_broker: Broker, mechanism: str) -> None:
    wrong = replace(by_password(sasl_broker, mechanism), password_env="WRONG")
    sentence = refused(replace(wrong, connect_timeout_ms=KafkaSettings().connect_timeout_ms))
    assert "probably because of authentication" in sentence and "user 'app'" in sentence
    assert "logged under 'kafka'" in sentence and "wrong" not in sentence


def test_wrong_certificates_end_in_a_sentence(
    mtls_broker: Broker, certificates: Mapping[str, Path]
) -> None:
    right = by_certificate(mtls_broker, certificates)
    stranger = {"certificate_file": str(certificates["stranger"]), "key_password_env": ""}
    none = {"certificate_file": "", "key_password_env": ""}
    foreign = {"ca_file": str(certificates["other_authority"])}
    for changes in (stranger, none, foreign):
        assert "probably because of authentication" in refused(replace(right, **changes))


def test_the_wrong_protocol_and_a_dead_address_say_what_to_look_at(
    mtls_broker: Broker, certificates: Mapping[str, Path]
) -> None:
    settings = by_certificate(mtls_broker, certificates)
    plain = refused(replace(settings, security_protocol="PLAINTEXT"), UnreachableError)
    assert "security_protocol" in plain
    nobody = refused(KafkaSettings(bootstrap_servers="127.0.0.1:1"), UnreachableError)
    assert "127.0.0.1:1 did not answer in time" in nobody and "bootstrap_servers" in nobody


PAGES = (
    "jobs/",
    "environment/",
    "SQL/",
    "StreamingQuery/",
    "api/v1/applications/{app}/environment",
    "api/v1/applications/{app}/sql?details=true&planDescription=true",
)


def spark_pages(port: int) -> str:
    """All that Spark's page and its API show of the job."""
    root = f"http://127.0.0.1:{port}/"

    def text(page: str) -> str:
        with urllib.request.urlopen(root + page, timeout=20) as answer:
            return str(answer.read().decode())

    app = text("api/v1/applications").partition('"id" : "')[2].partition('"')[0]
    return "\n".join(text(page.format(app=app)) for page in PAGES)


@pytest.mark.spark
@pytest.mark.slow
def test_sparks_reader_is_let_in_and_shows_no_secret(
    sasl_ssl_broker: Broker, certificates: Mapping[str, Path], tmp_path: Path, unique: str
) -> None:
    settings = by_both(sasl_ssl_broker, certificates)
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    world = World(tmp_path, settings, unique)
    try:
        world.job.start(ui_port=port)
        await_so(lambda: len(world.judge.rounds()) > 3, f"rounds:\n{world.job.tail()}")
        shown = spark_pages(port)
        assert "Kafka" in shown
        for secret in (PASSWORD, QUOTED, KEY_PASSWORD):
            assert secret not in shown
            assert secret not in world.job.output.read_text()
        assert world.job.stop() == 0
    finally:
        world.close()
