"""From the client's errors to ours, each with what was done, the likely cause and the remedy.

A wrong password or certificate shows as a time-out in kafka-python; the reason is in its log only,
so what it says while it connects is heard and judged here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from kafka import errors as kafka_errors

from controller.transport.errors import (
    AuthenticationError,
    OffsetOutOfRangeError,
    TransportError,
    UnknownTopicError,
    UnreachableError,
)
from controller.transport.kafka.client_log import heard
from controller.transport.kafka.settings import KafkaSettings

REMOVED = (kafka_errors.OffsetOutOfRangeError, kafka_errors.NoOffsetForPartitionError)
NOT_LET_IN = (
    kafka_errors.SaslAuthenticationFailedError,
    kafka_errors.UnsupportedSaslMechanismError,
    kafka_errors.IllegalSaslStateError,
)

SIGNS = re.compile(
    r"Sasl\w*Failed|authenticat|SaslMechanism|IllegalSaslState|certificate|\bSSL\b|\bTLS|"
    r"Handshake failed",
    re.IGNORECASE,
)
"""In the client's log: the brokers were reached, and did not let us in."""

DETAIL = (
    "what the client said is logged under 'kafka' by this process (bundlectl --debug prints it), "
    "the brokers' reason stands in their own log"
)


@contextmanager
def translated(settings: KafkaSettings) -> Iterator[None]:
    """Connecting: its errors as ours, with what the client said meanwhile."""
    with heard() as said:
        try:
            yield
        except kafka_errors.KafkaError as error:
            raise as_transport_error(error, settings, "connecting", said) from error


def as_transport_error(
    error: Exception, settings: KafkaSettings, doing: str, said: Sequence[str] = ()
) -> TransportError:
    """The error of ours that an error of the client comes to."""
    where = f"Kafka at {settings.bootstrap_servers}"
    reason = _named(error)
    if isinstance(error, kafka_errors.AuthorizationError):
        return AuthenticationError(
            f"{where} did not allow {doing} ({reason}): {_who(settings)} has no right to it; "
            "see docs/kafka-security.md for the rights that are needed"
        )
    sign = next((one for one in reversed(said) if SIGNS.search(one)), None)
    if isinstance(error, NOT_LET_IN) or sign is not None:
        return AuthenticationError(
            f"{where} answers, but {doing} as {_who(settings)} with "
            f"{settings.security_protocol} failed, probably because of authentication "
            f"({sign or reason}): check password and certificates; {DETAIL}"
        )
    if isinstance(error, kafka_errors.UnknownTopicOrPartitionError):
        return UnknownTopicError(f"{where}: {doing} failed, a topic does not exist ({reason})")
    if isinstance(error, REMOVED):
        return OffsetOutOfRangeError(
            f"{where}: {doing} failed, records were removed by retention before they were read "
            f"({reason}); begin again from the first one that is left"
        )
    if isinstance(error, kafka_errors.MessageSizeTooLargeError):
        return TransportError(
            f"{where} refused a record as too large ({reason}): raise max.message.bytes of the "
            "topic (bundlectl doctor names it)"
        )
    last = f"; the last thing said was: {said[-1]}" if said else ""
    return UnreachableError(
        f"{where} did not answer in time, {doing} failed ({reason}{last}): look whether the "
        "brokers are up, and whether transport.kafka.bootstrap_servers and security_protocol are "
        "right"
    )


def _who(settings: KafkaSettings) -> str:
    if settings.security_protocol.startswith("SASL"):
        return f"user {settings.username!r}"
    if settings.security_protocol == "SSL" and settings.certificate_file:
        return f"the owner of {settings.certificate_file}"
    return "an unnamed client"


def _named(error: Exception) -> str:
    text = str(error)
    name = type(error).__name__
    return text if text.startswith(name) or name in text else f"{name}: {text}" if text else name
