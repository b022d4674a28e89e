"""Looks for Java, before a program fails over it with a page of its own.

The rule is Spark's: `$JAVA_HOME/bin/java`, else `java` of the PATH. Called by the CLI for Spark,
and by the development broker.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

JAVA_MIN = 17
"""Spark 4 and Kafka 4 run on Java 17 and newer."""

ANSWER_S = 30

REMEDY = (
    "install one (Debian: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17) "
    "or set JAVA_HOME to the folder of one"
)


class JavaError(Exception):
    """There is no Java that will do; the text is a sentence with the remedy."""


def java_version(who: str, environment: Mapping[str, str] = os.environ) -> int:
    """The major version of the Java that `who` will use; raises `JavaError` if it is too old."""
    program = java_program(who, environment)
    try:
        answer = subprocess.run(
            [program, "-version"],
            capture_output=True,
            text=True,
            timeout=ANSWER_S,
            check=False,
            env=dict(environment),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaError(f"{program} cannot be run ({error}): {REMEDY}.") from error
    version = major_version(answer.stderr + answer.stdout)
    if version is None:
        raise JavaError(f"{program} does not tell its version and is no working Java: {REMEDY}.")
    if version < JAVA_MIN:
        raise JavaError(
            f"{who} needs Java {JAVA_MIN} or newer, but {program} is Java {version}: {REMEDY}."
        )
    return version


def major_version(text: str) -> int | None:
    """The major version in what `java -version` prints; 8 for "1.8.0_402"."""
    found = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if found is None:
        return None
    first, second = found.groups()
    return int(second) if first == "1" and second is not None else int(first)


def java_program(who: str, environment: Mapping[str, str] = os.environ) -> str:
    """The path of the Java that `who` will use; raises `JavaError` if there is none."""
    home = environment.get("JAVA_HOME")
    if home:
        program = Path(home) / "bin" / "java"
        if not os.access(program, os.X_OK):
            raise JavaError(
                f"JAVA_HOME is {home}, but there is no program {program}: unset JAVA_HOME, or set "
                f"it to the folder of a Java {JAVA_MIN} or newer."
            )
        return str(program)
    found = shutil.which("java", path=environment.get("PATH", ""))
    if found is None:
        raise JavaError(f"{who} needs Java {JAVA_MIN} or newer, but there is no java: {REMEDY}.")
    return found
