"""Jars from a repository on this machine: pinned, verified, kept, and explained when missing."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from controller.jars import (
    Jar,
    JarsError,
    JarSet,
    broker_set,
    cache_folder,
    class_path_conf,
    connector_jars,
    connector_set,
    coordinates,
    fetch,
    resolved,
)

CONTENTS = {name: name.encode() * 50_000 for name in ("one", "two", "three", "four", "five")}
NEEDED = [
    "spark-sql-kafka-0-10_2.13-4.2.0.jar",
    "spark-token-provider-kafka-0-10_2.13-4.2.0.jar",
    "kafka-clients-4.3.1.jar",
    "commons-pool2-2.13.1.jar",
]


def jar(name: str, content: bytes | None = None) -> Jar:
    content = CONTENTS[name] if content is None else content
    sha256 = hashlib.sha256(content).hexdigest()
    return Jar("org.example", name, "1.0", sha256, len(content))


JARS = JarSet(tuple(jar(name) for name in CONTENTS), "do something about it")


class Repository:
    """A Maven repository over HTTP that counts requests and can be made to fail."""

    def __init__(self) -> None:
        self.files = {f"/{jar(name).repository_path}": text for name, text in CONTENTS.items()}
        self.asked: list[str] = []
        self.failures: list[int] = []  # states of the next answers; 0: ends half-way
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                content = outer.files.get(self.path)
                failure = outer.failures.pop(0) if outer.failures else None
                status = failure or (404 if content is None else 200)
                self.send_response(status)
                body = content if status == 200 and content is not None else b""
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body[: len(body) // 2] if failure == 0 else body)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def repository() -> Iterator[Repository]:
    one = Repository()
    thread = threading.Thread(target=one.server.serve_forever, args=(0.01,))
    thread.start()
    yield one
    one.server.shutdown()
    one.server.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without jars, and no waiting between tries."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv("BUNDLECTL_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(fetch, "PAUSES_S", (0.0, 0.0, 0.0))
    return tmp_path / "home"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


# ---------------------------------------------------------------------- fetching


def test_jars_are_fetched_and_verified(repository: Repository, cache: Path) -> None:
    paths = resolved(JARS, repository.url + "/", cache)
    assert [path.read_bytes() for path in paths] == list(CONTENTS.values())
    assert sorted(cache.iterdir()) == sorted(paths), "no half-written file is left"


def test_what_is_there_is_not_fetched_again(repository: Repository, cache: Path) -> None:
    resolved(JARS, repository.url, cache)
    assert len(repository.asked) == len(CONTENTS)
    resolved(JARS, "http://127.0.0.1:1/nobody", cache)
    resolved(JARS, "http://127.0.0.1:1/nobody", cache, is_thorough=True)


def test_a_jar_that_was_changed_later_is_found_by_a_thorough_look(
    repository: Repository, cache: Path
) -> None:
    path = resolved(JARS, repository.url, cache)[0]
    path.write_bytes(b"x" * len(CONTENTS["one"]))
    resolved(JARS, repository.url, cache, is_thorough=True)
    assert path.read_bytes() == CONTENTS["one"]


def test_a_truncated_jar_is_fetched_again(repository: Repository, cache: Path) -> None:
    path = resolved(JARS, repository.url, cache)[0]
    path.write_bytes(b"x")
    resolved(JARS, repository.url, cache)
    assert path.read_bytes() == CONTENTS["one"]


def test_another_file_than_the_pinned_one_is_refused(repository: Repository, cache: Path) -> None:
    name = f"/{jar('two').repository_path}"
    repository.files[name] = b"y" * len(CONTENTS["two"])
    with pytest.raises(JarsError, match=r"two-1.0.jar cannot be had .* SHA-256 .* another file"):
        resolved(JARS, repository.url, cache)
    assert not (cache / "two-1.0.jar").exists()
    assert repository.asked.count(name) == 1, "trying again would not help"
    assert not list(cache.glob(".*"))


def test_a_jar_that_is_not_found_is_one_sentence_with_remedies(
    repository: Repository, cache: Path
) -> None:
    del repository.files[f"/{jar('three').repository_path}"]
    with pytest.raises(JarsError) as caught:
        resolved(JARS, repository.url, cache)
    assert str(caught.value) == (
        f"three-1.0.jar cannot be had from {repository.url} (HTTP 404 Not Found): "
        "do something about it"
    )


@pytest.mark.parametrize("failures", [[503, 429, 500], [0, 0, 0]])
def test_what_may_pass_is_tried_three_times_more(
    repository: Repository, cache: Path, failures: list[int]
) -> None:
    one = JarSet((jar("one"),), "")
    repository.failures = list(failures)
    assert resolved(one, repository.url, cache)[0].read_bytes() == CONTENTS["one"]
    assert len(repository.asked) == 4


def test_nobody_answers(cache: Path) -> None:
    with pytest.raises(JarsError, match="Connection refused"):
        resolved(JARS, "http://127.0.0.1:1", cache)


def test_a_folder_is_a_repository_too(tmp_path: Path, cache: Path) -> None:
    for name, content in CONTENTS.items():
        path = tmp_path / "mirror" / jar(name).repository_path
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
    url = (tmp_path / "mirror").as_uri()
    assert resolved(JARS, url, cache)[4].read_bytes() == CONTENTS["five"]
    with pytest.raises(JarsError, match=r"six-1.0.jar cannot be had from file:.*No such file"):
        resolved(JarSet((jar("six", b"6"),), ""), url, cache)


def test_the_local_maven_repository_is_enough_if_it_has_the_same_file(
    repository: Repository, home: Path, cache: Path
) -> None:
    for name, content in CONTENTS.items():
        path = home / ".m2/repository" / jar(name).repository_path
        path.parent.mkdir(parents=True)
        path.write_bytes(content if name != "two" else b"z" * len(content))
    paths = resolved(JARS, repository.url, cache)
    assert [path.read_bytes() for path in paths] == list(CONTENTS.values())
    assert repository.asked == [f"/{jar('two').repository_path}"]


def test_two_processes_fill_the_same_folder_at_once(repository: Repository, cache: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from tests.jars.test_jars import JARS; "
        "from controller.jars import resolved; resolved(JARS, sys.argv[1], Path(sys.argv[2]))"
    )
    command = [sys.executable, "-c", program, repository.url, str(cache)]
    both = [subprocess.Popen(command, cwd=Path(__file__).parents[2]) for _ in range(2)]
    assert [one.wait(60) for one in both] == [0, 0]
    found = {path.name: path.read_bytes() for path in cache.iterdir()}
    assert found == {f"{name}-1.0.jar": content for name, content in CONTENTS.items()}


@pytest.mark.parametrize("url", ["ftp://x/y", "repo1.maven.org", "https://user:secret@x/y"])
def test_an_address_that_is_none_is_refused(url: str, cache: Path) -> None:
    with pytest.raises(JarsError, match=r"transport\.kafka\.maven_repository") as caught:
        resolved(JARS, url, cache)
    assert "secret" not in str(caught.value)


def test_a_folder_that_cannot_be_written_names_the_variable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JarsError, match="BUNDLECTL_CACHE"):
        resolved(JARS, "http://127.0.0.1:1", tmp_path / "file" / "jars")


def test_the_cache_is_where_the_user_wants_it() -> None:
    assert cache_folder({"BUNDLECTL_CACHE": "/c", "XDG_CACHE_HOME": "/x"}) == Path("/c/jars")
    assert cache_folder({"XDG_CACHE_HOME": "/x"}) == Path("/x/bundle-controller/jars")
    own = Path.home() / ".cache/bundle-controller/jars"
    assert cache_folder({}) == cache_folder({"XDG_CACHE_HOME": "relative"}) == own


# ------------------------------------------------------------------- the pinned sets


def test_the_tested_pyspark_has_its_set_without_warning() -> None:
    jars, warning = connector_set("4.2.1")
    assert [one.file_name for one in jars.jars] == NEEDED
    assert not warning
    assert coordinates("4.2.0")[0] == "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"


@pytest.mark.parametrize("version", ["4.3.0", "4.3.0.dev1", "4.1.2", "5.0.0", "unknown"])
def test_another_pyspark_gets_the_nearest_set_and_a_warning(version: str) -> None:
    jars, warning = connector_set(version)
    assert [one.file_name for one in jars.jars] == NEEDED
    assert f"PySpark {version} was not tested" in warning
    assert "tested with PySpark 4.2" in warning


def test_pins_are_complete_and_file_names_differ() -> None:
    jars = broker_set().jars
    assert len({one.file_name for one in jars}) == len(jars) == 46
    assert all(len(one.sha256) == 64 and one.size_bytes > 0 for one in jars)
    assert {"kafka_2.13-4.3.1.jar", "log4j-slf4j-impl-2.25.4.jar"} <= {
        one.file_name for one in jars
    }


# ------------------------------------------------------------------- what Spark is told


def test_provided_needs_nothing() -> None:
    found = connector_jars("provided", "http://127.0.0.1:1", "4.3.0")
    assert (found.paths, found.warning) == ((), "")
    assert class_path_conf(found.paths, "local[2]") == {}


def test_of_a_folder_only_the_four_jars_are_used(tmp_path: Path) -> None:
    for name in [*NEEDED, "scala-library-2.13.18.jar", "kafka-clients-4.3.1-sources.jar"]:
        (tmp_path / name).write_text("")
    found = connector_jars(str(tmp_path), "http://127.0.0.1:1", "4.2.1")
    assert [path.name for path in found.paths] == NEEDED
    assert not found.warning
    assert "another Spark" in connector_jars(str(tmp_path), "", "4.3.0").warning


def test_a_folder_without_some_jars_names_them(tmp_path: Path) -> None:
    for name in NEEDED[:2]:
        (tmp_path / name).write_text("")
    with pytest.raises(JarsError, match=r"lacks kafka-clients-\*\.jar and commons-pool2-\*\.jar"):
        connector_jars(str(tmp_path), "", "4.2.1")
    with pytest.raises(JarsError, match="no such folder"):
        connector_jars(str(tmp_path / "none"), "", "4.2.1")


def test_a_folder_with_two_versions_is_refused(tmp_path: Path) -> None:
    for name in [*NEEDED, "kafka-clients-3.9.2.jar"]:
        (tmp_path / name).write_text("")
    with pytest.raises(JarsError, match=r"both kafka-clients-3\.9\.2\.jar and kafka-clients-4"):
        connector_jars(str(tmp_path), "", "4.2.1")


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]"])
def test_a_local_master_needs_the_class_path_only(master: str) -> None:
    paths = (Path("/a/x.jar"), Path("/a/y.jar"))
    assert class_path_conf(paths, master) == {"spark.driver.extraClassPath": "/a/x.jar:/a/y.jar"}


@pytest.mark.parametrize("master", ["spark://h:7077", "yarn", "local-cluster[2,1,512]"])
def test_executors_elsewhere_are_sent_the_jars(master: str) -> None:
    paths = (Path("/a/x.jar"), Path("/a/y.jar"))
    assert class_path_conf(paths, master) == {"spark.jars": "/a/x.jar,/a/y.jar"}
