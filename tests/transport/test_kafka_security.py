"""Options of both sides from one section; no secret where somebody may read it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from controller.transport.errors import CredentialsError
from controller.transport.kafka.security import (
    READER_KEY_PASSWORD,
    READER_PASSWORD,
    client_options,
    reader_environment,
    reader_options,
)
from controller.transport.kafka.settings import KafkaSettings
from tests.kafka.authorities import KEY_PASSWORD, Authority

SASL = KafkaSettings(
    bootstrap_servers="a:1, b:2",
    security_protocol="SASL_PLAINTEXT",
    username="app",
    password_env="APP_PASSWORD",
)
SECRET = 'se"cr\\et'


def test_without_security_there_are_only_addresses() -> None:
    options = client_options(KafkaSettings(bootstrap_servers="a:1, b:2"))
    assert options["bootstrap_servers"] == ["a:1", "b:2"]
    assert not {name for name in options if name.startswith(("ssl", "sasl"))}
    assert reader_environment(KafkaSettings()) == {}
    assert not [name for name in reader_options(KafkaSettings()) if "sasl" in name or "ssl" in name]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_the_reader_is_told_where_the_password_is_not_what_it_is(mechanism: str) -> None:
    settings = replace(SASL, sasl_mechanism=mechanism)
    environment = {"APP_PASSWORD": SECRET}
    assert client_options(settings, environment)["sasl_plain_password"] == SECRET
    options = reader_options(settings)
    assert not [value for value in options.values() if "cr" in value and "et" in value]
    assert f"${{env:{READER_PASSWORD}}}" in options["kafka.sasl.jaas.config"]
    assert options["kafka.sasl.mechanism"] == mechanism
    assert reader_environment(settings, environment) == {READER_PASSWORD: 'se\\"cr\\\\et'}


def test_a_name_with_quotes_cannot_break_out_of_the_line() -> None:
    options = reader_options(replace(SASL, username='a" x="'))
    assert 'username="a\\" x=\\""' in options["kafka.sasl.jaas.config"]


def test_a_password_file_may_end_with_a_line_end(tmp_path: Path) -> None:
    (tmp_path / "p").write_text("secret with spaces \n")
    settings = replace(SASL, password_env="", password_file=str(tmp_path / "p"))
    assert client_options(settings)["sasl_plain_password"] == "secret with spaces "


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"password_env": ""}, "SASL_PLAINTEXT needs a password: name a variable"),
        ({}, "password_env names the variable APP_PASSWORD, which is not set in this process"),
        ({"password_env": "", "password_file": "/no/such"}, "password_file /no/such cannot be"),
    ],
)
def test_a_missing_password_is_named(changes: dict[str, str], sentence: str) -> None:
    with pytest.raises(CredentialsError, match=sentence):
        client_options(replace(SASL, **changes), {})


def test_certificates_are_pem_for_both_sides(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    own = authority.signs("app", key_password=KEY_PASSWORD)
    settings = KafkaSettings(
        security_protocol="SSL",
        ca_file=str(authority.file),
        certificate_file=str(own),
        key_password_env="KEY",
        is_hostname_checked=False,
    )
    assert client_options(settings, {"KEY": KEY_PASSWORD})["ssl_context"]
    options = reader_options(settings)
    assert options["kafka.ssl.keystore.location"] == str(own)
    assert options["kafka.ssl.truststore.type"] == options["kafka.ssl.keystore.type"] == "PEM"
    assert options["kafka.ssl.key.password"] == f"${{env:{READER_KEY_PASSWORD}}}"
    assert options["kafka.ssl.endpoint.identification.algorithm"] == ""
    assert reader_environment(settings, {"KEY": KEY_PASSWORD}) == {
        READER_KEY_PASSWORD: KEY_PASSWORD
    }
    with pytest.raises(CredentialsError, match="is it PEM, and is the key's password right"):
        client_options(settings, {"KEY": "wrong"})


def test_unusable_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no certificate")
    for key in ("ca_file", "certificate_file"):
        for name in ("text", "missing"):
            settings = replace(
                KafkaSettings(security_protocol="SSL"), **{key: str(tmp_path / name)}
            )
            with pytest.raises(CredentialsError, match=rf"transport\.kafka\.{key} .*{name}"):
                client_options(settings, {})


def test_a_key_that_java_cannot_read_is_told_before_spark_starts(tmp_path: Path) -> None:
    import subprocess

    own = Authority(tmp_path).signs("app")
    key = subprocess.run(
        ["openssl", "rsa", "-in", str(tmp_path / "app.key"), "-traditional"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    own.write_text((tmp_path / "app.crt").read_text() + key)
    with pytest.raises(CredentialsError, match="openssl pkcs8 -topk8"):
        client_options(KafkaSettings(security_protocol="SSL", certificate_file=str(own)))
