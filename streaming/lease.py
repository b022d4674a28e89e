"""Holds the writer lease: at most one controller publishes to a channel.

Acquired before the query starts, renewed in a thread at a third of its time to live, released at
the end. A lease that is lost ends the process: another controller may hold it by now. What guards
the log itself is the check inside each publish; this thread only notices early.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import structlog

from controller.transport.errors import FencedError, LeaseHeldError, TransportError
from controller.transport.port import Lease, LeaseState, Transport
from streaming.halt import Halt

log = structlog.get_logger("streaming.lease")

POLL_S = 0.2  # between attempts while another holder's lease runs out
RENEWALS_PER_TTL = 3  # two renewals may fail before the lease is in danger


class LeaseKeeper:
    """One lease under one name. `open_transport` gives the renewing thread its own connection."""

    def __init__(
        self, open_transport: Callable[[], Transport], name: str, holder: str, ttl_ms: int
    ) -> None:
        self._open = open_transport
        self._name, self._holder, self._ttl_ms = name, holder, ttl_ms
        self._lease: Lease | None = None
        self.seen: LeaseState | None = None  # somebody else's, while this one waits for it
        self._done = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def lease(self) -> Lease:
        """The lease that publishing needs."""
        if self._lease is None:
            raise FencedError(f"lease {self._name!r} is not held")
        return self._lease

    @property
    def held(self) -> Lease | None:
        """The lease, if it is held."""
        return self._lease

    @property
    def is_held(self) -> bool:
        """True while the lease was renewed in time."""
        return self._lease is not None

    def acquire(
        self,
        transport: Transport,
        halt: Halt,
        wait_ms: int | None,
        check: Callable[[], None] = lambda: None,
    ) -> bool:
        """Acquires the lease, waiting for its holder to end; False if halted.

        Raises `LeaseHeldError` if another holder still renews it after `wait_ms`; with None it
        waits for ever. `check` is called while waiting, and raises what ends the waiting.
        """
        deadline = None if wait_ms is None else time.monotonic() + wait_ms / 1_000
        told: str | None = None
        while True:
            held = self._try(transport)
            if held is None:
                return True
            if deadline is not None and time.monotonic() > deadline:
                raise held
            if told != held.holder:
                log.info("waiting for the writer lease", held=str(held))
                told = held.holder
            check()
            if halt.wait(POLL_S):
                return False

    def is_free(self, transport: Transport) -> bool:
        """True if nobody has the lease now."""
        self.seen = transport.lease_state(self._name)
        return self.seen is None or not self.seen.remaining_ms

    def _try(self, transport: Transport) -> LeaseHeldError | None:
        """Takes the lease if it is free, else says who has it; looking first takes no lock."""
        if not self.is_free(transport) and self.seen is not None:
            return LeaseHeldError(self._name, self.seen.holder, self.seen.remaining_ms)
        try:
            self._lease = transport.acquire_lease(self._name, self._holder, self._ttl_ms)
        except LeaseHeldError as error:
            return error
        self.seen = None
        return None

    def keep(self, halt: Halt) -> None:
        """Starts renewing; losing the lease fails the job."""
        self._thread = threading.Thread(target=self._renew, args=(halt,), name="lease", daemon=True)
        self._thread.start()

    def release(self, transport: Transport) -> None:
        """Stops renewing and gives the lease back, so that a successor need not wait."""
        self._done.set()
        if self._thread is not None:
            self._thread.join(timeout=self._ttl_ms / 1_000)
        if self._lease is not None:
            lease, self._lease = self._lease, None
            try:
                transport.release_lease(lease)
            except TransportError as error:
                log.warning("lease not released; it will run out", error=str(error))

    def _renew(self, halt: Halt) -> None:
        """The thread: whatever ends it before its time is the loss of the lease."""
        try:
            self._renew_until_done(halt)
        except Exception as error:
            log.exception("lease renewal died")
            self._lost(halt, str(error))

    def _renew_until_done(self, halt: Halt) -> None:
        transport = self._open()
        renewed = time.monotonic()
        try:
            while not self._done.wait(self._ttl_ms / 1_000 / RENEWALS_PER_TTL):
                try:
                    self._lease = transport.renew_lease(self.lease)
                    renewed = time.monotonic()
                except FencedError as error:
                    self._lost(halt, str(error))
                    return
                except TransportError as error:
                    log.warning("lease renewal failed", error=str(error))
                    if time.monotonic() - renewed > self._ttl_ms / 1_000:
                        self._lost(halt, str(error))
                        return
        finally:
            transport.close()

    def _lost(self, halt: Halt, why: str) -> None:
        self._lease = None
        halt.fail(f"the writer lease {self._name!r} is lost: {why}")
