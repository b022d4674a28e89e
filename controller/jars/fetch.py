"""Fetches jars: from the local Maven repository if it has them, else over the network.

Rules: a jar is written beside its place, verified, and renamed; what may pass is tried again, what
will not (not found, not allowed, another checksum) ends all at once. Called by `cache` only.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import ssl
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit
from uuid import uuid4

from controller.jars.errors import JarsError
from controller.jars.pins import Jar

PART_SUFFIX = ".part"
THREADS = 4
PAUSES_S = (0.5, 1.0, 2.0)  # before each further try
TIMEOUT_S = 20.0  # of connecting, and of each wait for more bytes
CHUNK_BYTES = 1 << 16
SCHEMES = ("https", "http", "file")
PASSING = (408, 425, 429, 500, 502, 503, 504)  # states of HTTP that may be over soon

Advance = Callable[[int], None]
"""Told how many bytes have come; less than 0 when they must come again."""


class _RefusedError(Exception):
    """Trying again would not help."""


class _PassingError(Exception):
    """It may work in a moment."""


class _Stopped(Exception):
    """No failure of its own: nobody waits for this jar any longer."""


def fetch_all(jars: Sequence[Jar], repository: str, folder: Path, remedies: str) -> None:
    """Puts every jar into the folder, some at a time; the first failure ends all."""
    _check(repository)
    stop = threading.Event()
    with _progress(jars) as advance, ThreadPoolExecutor(THREADS) as pool:
        fetch = _Fetch(repository.rstrip("/"), folder, stop, advance)
        futures = {pool.submit(fetch.one, jar): jar for jar in jars}
        try:
            wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
    for future, jar in futures.items():
        error = None if future.cancelled() else future.exception()
        if isinstance(error, _RefusedError | _PassingError):
            raise JarsError(
                f"{jar.file_name} cannot be had from {repository} ({error}): {remedies}"
            ) from error
        if error is not None and not isinstance(error, _Stopped):
            raise error


class _Fetch:
    """What the fetches of one call share."""

    def __init__(
        self, repository: str, folder: Path, stop: threading.Event, advance: Advance
    ) -> None:
        self._repository = repository
        self._folder = folder
        self._stop = stop
        self._advance = advance

    def one(self, jar: Jar) -> None:
        """Tries until it is there, or there is no sense in it."""
        if self._is_local(jar):
            return
        url = f"{self._repository}/{jar.repository_path}"
        for pause_s in PAUSES_S:
            try:
                return self._from(url, jar)
            except _PassingError:
                if self._stop.wait(pause_s):
                    raise _Stopped from None
        self._from(url, jar)

    def _is_local(self, jar: Jar) -> bool:
        """Takes it out of the local Maven repository, if it has the very same file."""
        path = Path(os.path.expanduser("~/.m2/repository")) / jar.repository_path
        try:
            if path.stat().st_size != jar.size_bytes:
                return False
            with path.open("rb") as source:
                self._keep(source, jar)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return False
        except (_RefusedError, _PassingError):  # another file, or one that is being written
            return False
        return True

    def _from(self, url: str, jar: Jar) -> None:
        try:
            with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
                self._keep(answer, jar)
        except urllib.error.HTTPError as error:
            kind = _PassingError if error.code in PASSING else _RefusedError
            raise kind(f"HTTP {error.code} {error.reason}") from error
        except urllib.error.URLError as error:
            # A file that is missing stays so; a certificate that is not trusted, too.
            is_final = isinstance(error.reason, FileNotFoundError | ssl.SSLCertVerificationError)
            kind = _RefusedError if is_final or url.startswith("file:") else _PassingError
            raise kind(str(error.reason)) from error
        except (TimeoutError, ConnectionError, ssl.SSLError, http.client.HTTPException) as error:
            raise _PassingError(str(error) or type(error).__name__) from error

    def _keep(self, source: BinaryIO, jar: Jar) -> None:
        """Writes, verifies, renames."""
        part = self._folder / f".{jar.file_name}.{uuid4().hex}{PART_SUFFIX}"
        try:
            with part.open("xb") as target:
                written, sha256 = self._copy(source, target)
            _verify(jar, written, sha256, lambda: self._advance(-written))
            part.replace(self._folder / jar.file_name)
        finally:
            part.unlink(missing_ok=True)

    def _copy(self, source: BinaryIO, target: BinaryIO) -> tuple[int, str]:
        digest = hashlib.sha256()
        written = 0
        while chunk := source.read(CHUNK_BYTES):
            if self._stop.is_set():
                raise _Stopped
            target.write(chunk)
            digest.update(chunk)
            written += len(chunk)
            self._advance(len(chunk))
        return written, digest.hexdigest()


def _verify(jar: Jar, written: int, sha256: str, take_back: Callable[[], None]) -> None:
    if sha256 == jar.sha256:
        return
    take_back()
    if written < jar.size_bytes:
        raise _PassingError(f"it ended after {written} of {jar.size_bytes} bytes")
    raise _RefusedError(f"what came has SHA-256 {sha256}, and not {jar.sha256}: it is another file")


def _check(repository: str) -> None:
    parts = urlsplit(repository)
    if parts.scheme not in SCHEMES:
        raise JarsError(
            f"transport.kafka.maven_repository is {repository!r}, which is no address of a Maven "
            f"repository: it begins with {', '.join(f'{one}://' for one in SCHEMES)}"
        )
    if "@" in parts.netloc:
        raise JarsError(
            "transport.kafka.maven_repository names a user, and that is not supported: fetch the "
            "jars with Maven into ~/.m2/repository, or name a folder in transport.kafka.connector"
        )


@contextmanager
def _progress(jars: Sequence[Jar]) -> Iterator[Advance]:
    """A bar on stderr if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        what = jars[0].file_name if len(jars) == 1 else f"{len(jars)} jars"
        task = bar.add_task(what, total=sum(jar.size_bytes for jar in jars))
        yield lambda advance: bar.advance(task, advance)
