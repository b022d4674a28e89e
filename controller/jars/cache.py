"""The folder of verified jars: what is there is used, what is missing is fetched and verified.

Rules: a file gets its name only after its checksum was right, so name and size are enough later;
several processes may fill the folder at once, since each writes files of its own and renames them.
Nothing is ever removed but what a killed process left half-written.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from controller.jars.errors import JarsError
from controller.jars.fetch import PART_SUFFIX, fetch_all
from controller.jars.pins import Jar, JarSet

CACHE_VARIABLE = "BUNDLECTL_CACHE"
PART_AGE_MAX_S = 24 * 3_600  # an older half-written file belongs to nobody


def resolved(
    jar_set: JarSet, repository: str, cache: Path | None = None, *, is_thorough: bool = False
) -> list[Path]:
    """The files of the set, fetched if they are missing; raises `JarsError`.

    With `is_thorough` the checksums of files that are there are computed again.
    """
    folder = cache_folder() if cache is None else cache
    try:
        folder.mkdir(parents=True, exist_ok=True)
        missing = [jar for jar in jar_set.jars if not _is_there(folder, jar, is_thorough)]
        if missing:
            _remove_old_parts(folder)
            fetch_all(missing, repository, folder, jar_set.remedies)
    except OSError as error:
        raise JarsError(
            f"jars cannot be kept in {folder} ({error.strerror or error}): make it writable, or "
            f"name another folder in the environment variable {CACHE_VARIABLE}"
        ) from error
    return [folder / jar.file_name for jar in jar_set.jars]


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """`$BUNDLECTL_CACHE/jars`, else `bundle-controller/jars` where the user's caches are."""
    own = environment.get(CACHE_VARIABLE)
    if own:
        return Path(own).expanduser().absolute() / "jars"
    base = environment.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):  # the standard says to ignore others
        base = os.path.expanduser("~/.cache")
    if not os.path.isabs(base):
        raise JarsError(
            "this user has no home folder to keep jars in: name a folder in the environment "
            f"variable {CACHE_VARIABLE}"
        )
    return Path(base) / "bundle-controller" / "jars"


def _is_there(folder: Path, jar: Jar, is_thorough: bool) -> bool:
    path = folder / jar.file_name
    try:
        if path.stat().st_size != jar.size_bytes:
            return False
    except FileNotFoundError:
        return False
    return not is_thorough or hashlib.sha256(path.read_bytes()).hexdigest() == jar.sha256


def _remove_old_parts(folder: Path) -> None:
    for part in folder.glob(f".*{PART_SUFFIX}"):
        with suppress(OSError):  # another process was quicker
            if time.time() - part.stat().st_mtime > PART_AGE_MAX_S:
                part.unlink()
