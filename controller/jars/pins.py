"""Which jars: lists of the package with a checksum for each, by version of PySpark where it counts.

Rules: a set is what was tested together, and is changed as a whole; a version of PySpark without a
set of its own gets the nearest below, and a warning. Pure but for reading the package's own files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

CONNECTORS: Mapping[tuple[int, int], str] = {(4, 2): "spark-kafka-4.2.0"}
"""Tested sets of Spark's Kafka reader, by major and minor version of PySpark."""

BROKER = "kafka-broker"

CONNECTOR_REMEDIES = (
    "give this machine access (https_proxy is honoured), name another repository in "
    "transport.kafka.maven_repository, or put {names} into a folder and name it in "
    'transport.kafka.connector, which is "provided" if Spark has them already'
)
BROKER_REMEDIES = (
    "give this machine access (https_proxy is honoured), name another repository in "
    "transport.kafka.maven_repository, or use a Kafka broker that runs already"
)


@dataclass(frozen=True, slots=True)
class Jar:
    """One file of a Maven repository, as it was when it was tested."""

    group: str
    artifact: str
    version: str
    sha256: str
    size_bytes: int

    @property
    def coordinate(self) -> str:
        """`group:artifact:version`."""
        return f"{self.group}:{self.artifact}:{self.version}"

    @property
    def file_name(self) -> str:
        """The name in the cache, and in a repository."""
        return f"{self.artifact}-{self.version}.jar"

    @property
    def repository_path(self) -> str:
        """Where every Maven repository has it."""
        folders = [*self.group.split("."), self.artifact, self.version]
        return "/".join([*folders, self.file_name])


@dataclass(frozen=True, slots=True)
class JarSet:
    """Jars that belong together, and what an operator can do if they cannot be had."""

    jars: tuple[Jar, ...]
    remedies: str


def broker_set() -> JarSet:
    """All that the development broker needs."""
    return JarSet(_pinned(BROKER), BROKER_REMEDIES)


def connector_set(pyspark_version: str) -> tuple[JarSet, str]:
    """Spark's Kafka reader for this PySpark, and a warning if the two were not tested together."""
    wanted = minor_version(pyspark_version)
    below = [one for one in CONNECTORS if wanted is not None and one <= wanted]
    nearest = max(below, default=min(CONNECTORS))
    jars = _pinned(CONNECTORS[nearest])
    names = ", ".join(jar.file_name for jar in jars)
    found = JarSet(jars, CONNECTOR_REMEDIES.format(names=names))
    if nearest == wanted:
        return found, ""
    return found, (
        f"PySpark {pyspark_version} was not tested with a Kafka connector: the nearest is used, "
        f"{jars[0].coordinate}, which was tested with PySpark {nearest[0]}.{nearest[1]}"
    )


def minor_version(version: str) -> tuple[int, int] | None:
    """Major and minor number of "4.2.1" or "4.3.0.dev1"."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return None if found is None else (int(found[1]), int(found[2]))


def _pinned(name: str) -> tuple[Jar, ...]:
    text = (files("controller.jars") / f"{name}.txt").read_text(encoding="utf-8")
    return tuple(_jar(line) for line in text.splitlines() if line and not line.startswith("#"))


def _jar(line: str) -> Jar:
    coordinate, sha256, size_bytes = line.split()
    group, artifact, version = coordinate.split(":")
    return Jar(group, artifact, version, sha256, int(size_bytes))
