"""From one section of settings to the options of both sides: our clients and Spark's reader.

Spark shows options of a source in its plans, its UI and its event log. So the reader gets no
secret, only the name of an environment variable, which the Kafka client inside the JVM looks up
(KIP-421). That variable is set by whoever starts the JVM: this process
(`reader_environment`), or the operator under spark-submit and on other machines.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from pathlib import Path

from controller.transport.errors import CredentialsError
from controller.transport.kafka.settings import KafkaSettings

READER_PASSWORD = "KAFKA_READER_PASSWORD"
READER_KEY_PASSWORD = "KAFKA_READER_KEY_PASSWORD"

RECONNECT_MAX_MS = 1_000  # a broker that is back is noticed so soon

LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def client_options(
    settings: KafkaSettings, environment: Mapping[str, str] | None = None
) -> dict[str, object]:
    """Options that every client of kafka-python takes; raises `CredentialsError`."""
    options: dict[str, object] = {
        "bootstrap_servers": [one.strip() for one in settings.bootstrap_servers.split(",")],
        "client_id": "bundle-controller",
        "security_protocol": settings.security_protocol,
        "bootstrap_timeout_ms": settings.connect_timeout_ms,
        "request_timeout_ms": settings.request_timeout_ms,
        "reconnect_backoff_max_ms": RECONNECT_MAX_MS,
    }
    if _has_tls(settings):
        options["ssl_context"] = _ssl_context(settings, environment)
    if _has_sasl(settings):
        options["sasl_mechanism"] = settings.sasl_mechanism
        options["sasl_plain_username"] = settings.username
        options["sasl_plain_password"] = _password(settings, environment)
    return options


def reader_options(settings: KafkaSettings) -> dict[str, str]:
    """Options of Spark's Kafka source, for drivers and executors; no secret is among them."""
    options = {
        "bootstrap.servers": settings.bootstrap_servers,
        "security.protocol": settings.security_protocol,
        "request.timeout.ms": str(settings.request_timeout_ms),
        "reconnect.backoff.max.ms": str(RECONNECT_MAX_MS),
    }
    if _has_sasl(settings) or _has_key_password(settings):
        options["config.providers"] = "env"
        options["config.providers.env.class"] = (
            "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
        )
    if _has_sasl(settings):
        options["sasl.mechanism"] = settings.sasl_mechanism
        options["sasl.jaas.config"] = (
            f"{LOGIN_MODULES[settings.sasl_mechanism]} required "
            f'username="{_in_quotes(settings.username)}" password="${{env:{READER_PASSWORD}}}";'
        )
    if _has_tls(settings):
        options.update(_reader_tls(settings))
    return {f"kafka.{name}": value for name, value in options.items()}


def reader_environment(
    settings: KafkaSettings, environment: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The variables that `reader_options` refers to; raises `CredentialsError`."""
    found = {}
    if _has_sasl(settings):
        found[READER_PASSWORD] = _in_quotes(_password(settings, environment))
    if _has_key_password(settings):
        found[READER_KEY_PASSWORD] = _key_password(settings, environment) or ""
    return found


# ---------------------------------------------------------------------- what is asked for


def _has_tls(settings: KafkaSettings) -> bool:
    return settings.security_protocol in ("SSL", "SASL_SSL")


def _has_sasl(settings: KafkaSettings) -> bool:
    return settings.security_protocol in ("SASL_PLAINTEXT", "SASL_SSL")


def _has_key_password(settings: KafkaSettings) -> bool:
    named = settings.key_password_env or settings.key_password_file
    return _has_tls(settings) and bool(settings.certificate_file and named)


def _in_quotes(text: str) -> str:
    """As it stands between the quotes of a JAAS line."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _reader_tls(settings: KafkaSettings) -> dict[str, str]:
    options = {}
    if settings.ca_file:
        options["ssl.truststore.type"] = "PEM"
        options["ssl.truststore.location"] = str(Path(settings.ca_file).absolute())
    if settings.certificate_file:
        options["ssl.keystore.type"] = "PEM"
        options["ssl.keystore.location"] = str(Path(settings.certificate_file).absolute())
    if _has_key_password(settings):
        options["ssl.key.password"] = f"${{env:{READER_KEY_PASSWORD}}}"
    if not settings.is_hostname_checked:
        options["ssl.endpoint.identification.algorithm"] = ""
    return options


# ---------------------------------------------------------------------- secrets and certificates


def _password(settings: KafkaSettings, environment: Mapping[str, str] | None) -> str:
    found = _secret("password", settings.password_env, settings.password_file, environment)
    if not found:
        raise CredentialsError(
            f"transport.kafka.security_protocol = {settings.security_protocol} needs a password: "
            "name a variable in transport.kafka.password_env, or a file in password_file"
        )
    return found


def _key_password(settings: KafkaSettings, environment: Mapping[str, str] | None) -> str | None:
    return _secret(
        "key_password", settings.key_password_env, settings.key_password_file, environment
    )


def _secret(
    what: str, variable: str, file: str, environment: Mapping[str, str] | None
) -> str | None:
    """A secret from a variable or a file; a line's end at the end of the file is not part of it."""
    if variable:
        found = (os.environ if environment is None else environment).get(variable)
        if not found:
            raise CredentialsError(
                f"transport.kafka.{what}_env names the variable {variable}, which is "
                f"{'empty' if found == '' else 'not set'} in this process"
            )
        return found
    if not file:
        return None
    try:
        return Path(file).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(f"{what}_file", file, error) from error


def _ssl_context(settings: KafkaSettings, environment: Mapping[str, str] | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = settings.is_hostname_checked
    try:
        if settings.ca_file:
            context.load_verify_locations(settings.ca_file)
        else:
            context.load_default_certs()
    except OSError as error:  # ssl.SSLError is one
        raise _unreadable("ca_file", settings.ca_file, error) from error
    if settings.certificate_file:
        _load_certificate(context, settings, environment)
    return context


def _load_certificate(
    context: ssl.SSLContext, settings: KafkaSettings, environment: Mapping[str, str] | None
) -> None:
    file = settings.certificate_file
    password = _key_password(settings, environment)
    try:
        # Without one, openssl would ask on the terminal for the password of an encrypted key.
        context.load_cert_chain(file, password=lambda: password or "")
        text = Path(file).read_text(encoding="ascii", errors="replace")
    except OSError as error:
        raise _unreadable("certificate_file", file, error) from error
    if "-----BEGIN PRIVATE KEY-" not in text and "-----BEGIN ENCRYPTED PRIVATE KEY-" not in text:
        raise CredentialsError(
            f"transport.kafka.certificate_file {file} has its key in a form that Java cannot read: "
            "convert it by openssl pkcs8 -topk8, and put it behind the certificates"
        )


def _unreadable(key: str, file: str, error: Exception) -> CredentialsError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else error
    hint = ""
    if isinstance(error, ssl.SSLError):
        hint = "; is it PEM, and is the key's password right (key_password_env)?"
    return CredentialsError(f"transport.kafka.{key} {file} cannot be used: {reason}{hint}")
