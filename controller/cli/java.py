"""Looks for the Java that a command needs, and says in a sentence what to do if there is none.

Called by `bundlectl run`, `demo`, `doctor` and `dev-kafka`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from controller.cli.errors import CliError
from controller.java import JavaError, java_version, major_version

__all__ = ["major_version", "require_java"]


def require_java(environment: Mapping[str, str] = os.environ, who: str = "Spark") -> int:
    """The major version of the Java that will be used; raises `CliError` with the remedy."""
    try:
        return java_version(who, environment)
    except JavaError as error:
        raise CliError(str(error)) from error
