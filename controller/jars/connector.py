"""The jars of Spark's Kafka reader: where they come from, and how Spark is told of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from controller.jars.cache import resolved
from controller.jars.errors import JarsError
from controller.jars.pins import connector_set, minor_version

READER = "spark-sql-kafka-0-10_"
NEEDED = (READER, "spark-token-provider-kafka-0-10_", "kafka-clients-", "commons-pool2-")
"""How the names begin. A folder may hold more, such as a Scala library: Spark has its own."""

NO_PROGRAM = ("-sources.jar", "-javadoc.jar", "-tests.jar", "-test.jar")


@dataclass(frozen=True, slots=True)
class Connector:
    """Jars for Spark's class path; none if Spark has them. The warning is empty or one sentence."""

    paths: tuple[Path, ...] = ()
    warning: str = ""


def connector_jars(connector: str, repository: str, pyspark_version: str) -> Connector:
    """What `transport.kafka.connector` means: "auto", "provided" or a folder.

    Raises `JarsError`.
    """
    if connector == "provided":
        return Connector()
    if connector != "auto":
        return _in_folder(Path(connector).expanduser().absolute(), pyspark_version)
    jar_set, warning = connector_set(pyspark_version)
    return Connector(tuple(resolved(jar_set, repository)), warning)


def coordinates(pyspark_version: str) -> list[str]:
    """Maven coordinates for `spark-submit --packages`."""
    return [jar.coordinate for jar in connector_set(pyspark_version)[0].jars]


def class_path_conf(paths: Sequence[Path], master: str) -> dict[str, str]:
    """Spark settings that bring the jars to driver and executors; none for no jars.

    With a local master the driver is all there is, and its class path needs no copying.
    """
    if not paths:
        return {}
    if master == "local" or master.startswith("local["):
        return {"spark.driver.extraClassPath": ":".join(map(str, paths))}
    return {"spark.jars": ",".join(map(str, paths))}


def _in_folder(folder: Path, pyspark_version: str) -> Connector:
    if not folder.is_dir():
        raise JarsError(
            f"transport.kafka.connector is {folder}, but there is no such folder: create it with "
            f'bundlectl jars --to {folder}, or set it to "auto" or "provided"'
        )
    found = {start: _named(folder, start) for start in NEEDED}
    missing = [f"{start}*.jar" for start, paths in found.items() if not paths]
    if missing:
        raise JarsError(
            f"the folder {folder} of transport.kafka.connector lacks {' and '.join(missing)}: "
            f"bundlectl jars --to {folder} puts them there"
        )
    for paths in found.values():
        if len(paths) > 1:
            raise JarsError(
                f"the folder {folder} of transport.kafka.connector has both {paths[0].name} and "
                f"{paths[1].name}: remove the one that is not for PySpark {pyspark_version}"
            )
    chosen = tuple(one for (one,) in found.values())
    return Connector(chosen, _mismatch(chosen[0].name, pyspark_version))


def _named(folder: Path, start: str) -> list[Path]:
    return sorted(
        path for path in folder.glob(f"{start}*.jar") if not path.name.endswith(NO_PROGRAM)
    )


def _mismatch(reader: str, pyspark_version: str) -> str:
    found = re.search(r"-(\d+\.\d+[^-]*)\.jar$", reader)
    if found is None or minor_version(found[1]) == minor_version(pyspark_version):
        return ""
    return f"{reader} was made for another Spark than PySpark {pyspark_version}"
