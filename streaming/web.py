"""/metrics, /health, /ready and /status over HTTP, for Prometheus, people and what restarts a job.

`/health` is 200 while the process does what it is there for (a standby waits, a leader's query
lives); `/ready` is 200 once the first batch is published and while the lease is held; `/status`
says what the job is doing. All three answer with JSON. Started and stopped by `streaming.job`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server
from wsgiref.types import StartResponse, WSGIEnvironment

from prometheus_client import CollectorRegistry, make_wsgi_app

Probe = Callable[[], tuple[bool, dict[str, Any]]]


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Handler(WSGIRequestHandler):
    timeout = 10  # a client that sends nothing must not keep a thread for ever

    def log_message(self, format: str, *args: Any) -> None:
        """Scrapes every few seconds are no news."""


class Web:
    """The server of `probes` by path, and of `/metrics`.

    `port` is the bound port, also where 0 asked for any free one; `OSError` if it is taken.
    """

    def __init__(
        self, host: str, port: int, registry: CollectorRegistry, probes: Mapping[str, Probe]
    ) -> None:
        self._metrics = make_wsgi_app(registry)
        self._probes = dict(probes)
        try:
            self._server = make_server(host, port, self._answer, _Server, _Handler)
        except OSError as error:
            raise OSError(
                f"port {port} of {host} cannot be used ({error.strerror}): set metrics.port to "
                "another one, 0 = any; each controller of a machine needs its own"
            ) from error
        self.port: int = self._server.server_port
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.2}, daemon=True
        )

    def start(self) -> None:
        """Begins to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Closes the socket."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join(timeout=5)
        self._server.server_close()

    def _answer(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path == "/metrics":
            return self._metrics(environ, start_response)
        probe = self._probes.get(path)
        if probe is None:
            start_response("404 Not Found", [("Content-Type", "text/plain")])
            return [f"try /metrics, {', '.join(self._probes)}\n".encode()]
        is_good, facts = probe()
        status = "200 OK" if is_good else "503 Service Unavailable"
        start_response(status, [("Content-Type", "application/json")])
        return [json.dumps(facts).encode() + b"\n"]
