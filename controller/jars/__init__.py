"""Jars from a Maven repository: those of Spark's Kafka reader, and of the development broker.

Rules: every jar is pinned with its SHA-256, and one that differs is never used; what has been
verified once is kept in a folder of the user and needs no network again. Called by
`streaming.kafka_session`, `controller.devkafka` and `bundlectl jars`.
"""

from __future__ import annotations

from controller.jars.cache import cache_folder, resolved
from controller.jars.connector import Connector, class_path_conf, connector_jars, coordinates
from controller.jars.errors import JarsError
from controller.jars.pins import Jar, JarSet, broker_set, connector_set

__all__ = [
    "Connector",
    "Jar",
    "JarSet",
    "JarsError",
    "broker_set",
    "cache_folder",
    "class_path_conf",
    "connector_jars",
    "connector_set",
    "coordinates",
    "resolved",
]
