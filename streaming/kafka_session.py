"""What Spark's session needs before it starts when the log is Kafka: the reader's jars and secrets.

Called by `streaming.job`, the tests and the benches before they build the session.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import pyspark
import structlog

from controller.jars import class_path_conf, connector_jars
from controller.transport.errors import CredentialsError
from controller.transport.kafka.security import reader_environment
from controller.transport.place import TransportPlace
from streaming.session import is_under_submit

log = structlog.get_logger("streaming.kafka_session")


def reader_conf(place: TransportPlace, master: str) -> dict[str, str]:
    """Spark settings that bring the reader's jars; its secrets go into this process's environment.

    Raises `JarsError` and `CredentialsError`. The JVM inherits the environment, so this comes
    before it starts; nothing for other logs.
    """
    if place.kind != "kafka":
        return {}
    _offer(reader_environment(place.kafka))
    connector = connector_jars(
        place.kafka.connector, place.kafka.maven_repository, pyspark.__version__
    )
    if connector.warning:
        log.warning(connector.warning)
    return class_path_conf(connector.paths, master)


def _offer(secrets: Mapping[str, str]) -> None:
    """Under spark-submit the JVM runs already: there the variables must have been set before."""
    if not is_under_submit():
        os.environ.update(secrets)
        return
    missing = sorted(name for name in secrets if name not in os.environ)
    if missing:
        raise CredentialsError(
            f"under spark-submit the environment must hold {' and '.join(missing)} before it "
            "starts, for Spark's reader (docs/kafka-security.md): set it there, and on the "
            "executors"
        )
