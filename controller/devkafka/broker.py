"""One broker: its folder, its process, and how that is started, stopped, killed and stopped short.

Called by `bundlectl dev-kafka`, the demo and the tests.
"""

from __future__ import annotations

import base64
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from controller.devkafka.errors import BrokerError
from controller.devkafka.properties import LOGGING, Ports, properties_text, template_text
from controller.jars import broker_set, resolved
from controller.java import JavaError, java_program

ADDRESS = "127.0.0.1"
REPOSITORY = "https://repo1.maven.org/maven2"
STARTED = b"Kafka Server started"
TAKEN = b"Address already in use"
TRIES = 5  # with other ports each: somebody may take one between our look and the broker's
POLL_S = 0.05
STOP_TIMEOUT_S = 20.0  # it stops in half a second
FORMAT_TIMEOUT_S = 60.0  # of making the data folder; a second on an idle machine
TAIL_LINES = 15

JVM = (
    "-Xms64m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",  # starts sooner; such a broker never gets busy
    "-Xshare:auto",
    "-XX:-UsePerfData",
    "-Djava.awt.headless=true",
)


class Broker:
    """A broker at `bootstrap`; as a context manager it runs inside, and leaves nothing behind.

    Without a directory it has a temporary one, which goes at the end. `extra` are properties that
    win over ours; their values may name `{port}`, `{controller_port}`, `{port2}` and `{directory}`.
    `format_args` go to the command that makes a new data folder, such as `--add-scram`. A `port`
    that is given is never changed for another. The kernel ties the broker to the thread that
    started it (Linux): start it from one that lives on.
    """

    def __init__(
        self,
        directory: Path | None = None,
        extra: Mapping[str, str] | None = None,
        format_args: Sequence[str] = (),
        heap: str = "256m",
        port: int | None = None,
        repository: str = REPOSITORY,
    ) -> None:
        self._is_temporary = directory is None
        chosen = Path(tempfile.mkdtemp(prefix="dev-kafka-")) if directory is None else directory
        self.directory = chosen.absolute()
        self._extra = dict(extra or {})
        self._format_args = tuple(format_args)
        self._heap = heap
        self._fixed_port = port
        self._repository = repository
        self._ports = _free_ports(port)
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def bootstrap(self) -> str:
        """`127.0.0.1:port`; settled when `start` returns."""
        return f"{ADDRESS}:{self._ports.port}"

    @property
    def port2(self) -> int:
        """The port of a second listener, if `extra` has one."""
        return self._ports.port2

    @property
    def log_path(self) -> Path:
        """What the broker printed, over all starts."""
        return self.directory / "broker.log"

    @property
    def pid(self) -> int | None:
        """Of the running process."""
        return self._process.pid if self._process is not None and self.is_running else None

    @property
    def is_running(self) -> bool:
        """True until its process ends, also while it is paused."""
        return self._process is not None and self._process.poll() is None

    def start(self, timeout_s: float = 60.0) -> Broker:
        """Returns when clients can connect; nothing if it runs. Raises `BrokerError`, `JarsError`.

        Fetching the jars, the first time, does not count as time.
        """
        if self.is_running:
            return self
        command = self._command()
        until = time.monotonic() + timeout_s
        for attempt in range(TRIES):
            if attempt:
                self._ports = _free_ports(None)
            if self._is_started(command, until, may_retry=attempt < TRIES - 1):
                break
        return self

    def restart(self, timeout_s: float = 60.0) -> Broker:
        """Starts it with the same data and ports, after stopping it if it runs."""
        self.stop()
        self._is_started(self._command(), time.monotonic() + timeout_s, may_retry=False)
        return self

    def stop(self) -> None:
        """Ends it in order, by force if that takes too long; the data stay."""
        if self._process is None:
            return
        for number in (signal.SIGTERM, signal.SIGCONT):  # paused, it would not hear of its end
            self._process.send_signal(number)
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Ends it at once, as a crash would; the data stay."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def pause(self) -> None:
        """Stops it short: it keeps its connections and answers nobody."""
        process = self._running()
        process.send_signal(signal.SIGSTOP)
        if hasattr(os, "waitid"):  # its threads stop a moment later; an end is left to Popen
            os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Lets it go on."""
        self._running().send_signal(signal.SIGCONT)

    def tail(self, lines: int = TAIL_LINES) -> str:
        """The last lines of its log since it was started."""
        return "\n".join(self._printed().decode(errors="replace").splitlines()[-lines:])

    def __enter__(self) -> Broker:
        try:
            return self.start()
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        try:
            self.stop()
        finally:
            self.kill()
            if self._is_temporary:
                shutil.rmtree(self.directory, ignore_errors=True)

    # ------------------------------------------------------------------ starting

    def _command(self) -> list[str]:
        """The JVM with all jars, tied to this process; what it runs comes behind."""
        jars = resolved(broker_set(), self._repository)
        try:
            java = java_program("Kafka")
        except JavaError as error:
            raise BrokerError(str(error)) from error
        return [
            *(sys.executable, "-m", "controller.supervise.leash", java, f"-Xmx{self._heap}", *JVM),
            f"-XX:ErrorFile={self.directory}/hs_err_%p.log",
            f"-Dlog4j2.configurationFile={self.directory / LOGGING}",
            *("-cp", ":".join(map(str, jars))),
        ]

    def _is_started(self, command: Sequence[str], until: float, *, may_retry: bool) -> bool:
        """False if a port was taken and another may be tried; raises `BrokerError` if it fails."""
        self._write_files()
        if not (self.directory / "data" / "meta.properties").exists():
            self._format(command)
        self._launch([*command, "kafka.Kafka", str(self._properties)])
        try:
            problem = self._wait(until)
        except BaseException:
            self.kill()
            raise
        if problem is None:
            return True
        self.kill()
        if may_retry and self._fixed_port is None and TAKEN in self._printed():
            return False
        raise BrokerError(f"{problem}; the end of {self.log_path}:\n{self.tail()}")

    def _write_files(self) -> None:
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            text = properties_text(self._extra, self._ports, self.directory)
            self._properties.write_text(text, encoding="ascii")
            self._properties.chmod(0o600)  # it may hold passwords
            (self.directory / LOGGING).write_text(template_text(LOGGING), encoding="utf-8")
        except OSError as error:
            raise BrokerError(f"{self.directory} cannot hold a broker: {error}") from error

    def _format(self, command: Sequence[str]) -> None:
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        tool = ["kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(self._properties)]
        self._launch([*command, *tool, *self._format_args])
        assert self._process is not None
        try:
            status = self._process.wait(FORMAT_TIMEOUT_S)
        except BaseException as error:
            self.kill()
            if isinstance(error, subprocess.TimeoutExpired):
                raise BrokerError(
                    f"no data folder was made in {FORMAT_TIMEOUT_S:.0f} s:\n{self.tail()}"
                ) from error
            raise
        if status:
            raise BrokerError(f"no data folder can be made in {self.directory}:\n{self.tail()}")

    def _launch(self, command: Sequence[str]) -> None:
        with self.log_path.open("ab") as log:
            self._log_start = os.fstat(log.fileno()).st_size
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for the parent, which ends it in order
            )

    def _wait(self, until: float) -> str | None:
        """None when it is ready, else what is wrong."""
        process = self._process
        assert process is not None
        while time.monotonic() < until:
            if process.poll() is not None:
                return f"the broker ended by itself with status {process.returncode}"
            if STARTED in self._printed():
                with (
                    suppress(OSError),
                    socket.create_connection((ADDRESS, self._ports.port), POLL_S * 20),
                ):
                    return None
            time.sleep(POLL_S)
        return "the broker was not ready in time"

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            raise BrokerError("the broker does not run")
        return self._process

    def _printed(self) -> bytes:
        try:
            with self.log_path.open("rb") as log:
                log.seek(self._log_start)
                return log.read()
        except FileNotFoundError:
            return b""

    @property
    def _properties(self) -> Path:
        return self.directory / "server.properties"


def _free_ports(port: int | None) -> Ports:
    """Ports that were free a moment ago; the first as given."""
    with ExitStack() as stack:
        found = []
        for _ in range(2 if port else 3):
            one = stack.enter_context(socket.socket())
            one.bind((ADDRESS, 0))
            found.append(int(one.getsockname()[1]))
    first = [port] if port else []
    return Ports(*first, *found)
