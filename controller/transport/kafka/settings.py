"""How to reach a Kafka cluster: one section for both sides, our clients and Spark's reader.

Secrets never stand here: settings name the environment variable or the file that holds one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """[transport.kafka]; times in milliseconds."""

    bootstrap_servers: str = "127.0.0.1:9092"  # host:port, several with commas
    security_protocol: SecurityProtocol = "PLAINTEXT"
    sasl_mechanism: SaslMechanism = "SCRAM-SHA-512"  # with SASL_PLAINTEXT and SASL_SSL
    username: str = ""
    password_env: str = ""  # name of the environment variable that holds the password
    password_file: str = ""  # or the file that holds it
    ca_file: str = ""  # PEM; empty: the system's authorities
    certificate_file: str = ""  # PEM with own certificates and private key; empty: no mTLS
    key_password_env: str = ""  # of the private key, if it is encrypted
    key_password_file: str = ""
    is_hostname_checked: bool = True
    replication: int = -1  # of topics that we create; -1 = the brokers' default
    connect_timeout_ms: int = 10_000  # to the first answer of any broker
    request_timeout_ms: int = 10_000
    transaction_timeout_ms: int = 10_000  # after it a dead writer's open batch is thrown away
    connector: str = "auto"  # jars of Spark's reader: auto, provided, or a folder
    maven_repository: str = "https://repo1.maven.org/maven2"
