"""Tests that any broker behind the port can be put through: subclass, give a broker, run pytest.

    from controller.agent.contract import BrokerContract

    class TestMyBroker(BrokerContract):
        def make_broker(self):
            return MyBroker(...)

Rules: each test gets a fresh broker, whose namespaces have `BUNDLE` and `OTHER` as bundles; closes
that take some 100 ms show more than closes that end at once. What is served is asked of
`served`; override it to ask the broker's clients, or the report is only compared with itself.
A promise of `controller.agent.port` that no test here would miss is a fault of this file.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from controller.agent.port import BoundariesChangedError, Broker, BrokerError

ROUNDS = 25
"""How often a race is run: what goes wrong in a tenth of them is missed once in fourteen runs."""


class BrokerContract:
    """See the module text. Names and times may be overridden."""

    NAMESPACE = "public/contract"
    BUNDLE = f"{NAMESPACE}/0x00000000_0x80000000"
    OTHER = f"{NAMESPACE}/0x80000000_0xffffffff"
    CHILDREN = (f"{NAMESPACE}/0x00000000_0x40000000", f"{NAMESPACE}/0x40000000_0x80000000")
    MISFITS = (f"{NAMESPACE}/0x00000000_0x30000000", f"{NAMESPACE}/0x30000000_0x80000000")
    THIRDS = (
        f"{NAMESPACE}/0x80000000_0xa0000000",
        f"{NAMESPACE}/0xa0000000_0xc0000000",
        f"{NAMESPACE}/0xc0000000_0xffffffff",
    )
    QUICK_S = 0.15  # for what holds up the agent's loop: unheard_poll_ms less a poll
    RELEASE_S = 10.0  # the longest graceful close
    OVERTAKEN_S = 2.0  # a release that was dropped or fenced ends so soon

    # ------------------------------------------------------------------- to be overridden

    def make_broker(self) -> Broker:
        """A fresh broker that is not fenced and serves nothing."""
        raise NotImplementedError("give the contract a broker: override make_broker")

    def served(self, broker: Broker) -> set[str]:
        """What clients are served at this moment."""
        return set(broker.load_report().bundles)

    def change_boundaries(self, broker: Broker) -> bool:
        """Has somebody else change the boundaries in the middle of the next `split`.

        False if that cannot be arranged; the test of it then says nothing.
        """
        return False

    # -------------------------------------------------------------------------- the tests

    def test_a_new_broker_serves_nothing(self) -> None:
        """Bundles come one by one as `acquire`."""
        self._expect(self.make_broker(), set(), "of a new broker")

    def test_acquire_serves_and_is_idempotent(self) -> None:
        """When it returns clients are served; a second time changes nothing."""
        broker = self.make_broker()
        for _ in range(2):
            broker.acquire(self.BUNDLE)
            self._expect(broker, {self.BUNDLE}, "after acquire")

    def test_release_ends_service_and_is_idempotent(self) -> None:
        """Also of a bundle never acquired, with and without a destination."""
        for destination in (None, "another-broker"):
            broker = self._serving(self.BUNDLE, self.OTHER)
            for _ in range(2):
                broker.release(self.BUNDLE, destination)
                self._expect(broker, {self.OTHER}, f"after release to {destination}")
            broker.acquire(self.BUNDLE)
            self._expect(broker, {self.BUNDLE, self.OTHER}, "after acquire of a released bundle")
            self.make_broker().release(self.BUNDLE, destination)

    def test_releases_run_side_by_side(self) -> None:
        """Of several bundles at once, while the loop goes on calling."""
        broker = self._serving(self.BUNDLE, *self.THIRDS)
        threads = [_start(broker.release, name, None) for name in (self.BUNDLE, *self.THIRDS[:2])]
        broker.load_report()
        broker.acquire(self.THIRDS[2])
        for thread in threads:
            _join(thread, self.RELEASE_S, "release")
        self._expect(broker, {self.THIRDS[2]}, "after three releases at once")

    def test_drop_ends_service_at_once_and_is_idempotent(self) -> None:
        """Also of a bundle never acquired; others stay."""
        broker = self._serving(self.BUNDLE, self.OTHER)
        for _ in range(2):
            broker.drop(self.BUNDLE)
            self._expect(broker, {self.OTHER}, "after drop")
        broker.acquire(self.BUNDLE)
        self._expect(broker, {self.BUNDLE, self.OTHER}, "after acquire of a dropped bundle")
        self.make_broker().drop(self.BUNDLE)

    def test_a_drop_ends_the_release_that_still_runs(self) -> None:
        """Nothing is served when drop returns, and the release ends soon and changes nothing."""
        for delay_s in (0.0, 0.001, 0.01, 0.05):
            broker = self._serving(self.BUNDLE, self.OTHER)
            release = _start(broker.release, self.BUNDLE, "another-broker")
            time.sleep(delay_s)
            seconds = _seconds(broker.drop, self.BUNDLE)
            self._overtaken(broker, {self.OTHER}, release, "release that was dropped")
            assert seconds <= self.OVERTAKEN_S / 2, f"drop waited {seconds:.1f} s for a release"
            broker.acquire(self.BUNDLE)
            self._expect(broker, {self.BUNDLE, self.OTHER}, "after acquire of a dropped bundle")

    def test_a_report_lists_exactly_what_is_served(self) -> None:
        """Also idle bundles; none that was released, dropped, split or fenced away."""
        broker = self._serving(self.BUNDLE, self.OTHER)
        self._report(broker, {self.BUNDLE, self.OTHER})
        broker.split(self.BUNDLE, self.CHILDREN)
        self._report(broker, {*self.CHILDREN, self.OTHER})
        broker.release(self.CHILDREN[0], None)
        broker.drop(self.OTHER)
        self._report(broker, {self.CHILDREN[1]})
        broker.fence()
        self._report(broker, set())

    def test_topic_loads_are_hashes_and_loads(self) -> None:
        """Of what a report has listed: CRC-32 values, and loads that are numbers from 0 on."""
        broker = self._serving(self.BUNDLE)
        for topic in broker.topic_loads(self.BUNDLE):
            assert isinstance(topic.hash, int) and 0 <= topic.hash <= 0xFFFFFFFF, topic
            assert 0.0 <= topic.rate < math.inf and 0.0 <= topic.throughput < math.inf, topic

    def test_a_redirect_serves_nothing_and_may_come_for_any_bundle(self) -> None:
        """After a release with a destination; its clients may have left long ago."""
        broker = self._serving(self.BUNDLE, self.OTHER)
        broker.release(self.BUNDLE, "another-broker")
        for owner in ("another-broker", None):
            broker.redirect(self.BUNDLE, owner)
            self._expect(broker, {self.OTHER}, f"after redirect to {owner}")

    # --------------------------------------------------------------------------- splits

    def test_a_split_serves_the_children_instead_and_is_idempotent(self) -> None:
        """Two children or more; done again, it goes on."""
        for bundle, children in ((self.BUNDLE, self.CHILDREN), (self.OTHER, self.THIRDS)):
            broker = self._serving(bundle)
            for _ in range(2):
                broker.split(bundle, children)
                self._expect(broker, set(children), "after split")

    def test_a_split_of_a_bundle_that_is_not_served_serves_nothing(self) -> None:
        """A split taken over from a broker that died: children come as `acquire`."""
        broker = self._serving(self.OTHER)
        broker.split(self.BUNDLE, self.CHILDREN)
        self._expect(broker, {self.OTHER}, "after split of a bundle not served")
        broker.acquire(self.CHILDREN[0])
        broker.split(self.BUNDLE, self.CHILDREN)
        self._expect(broker, {self.OTHER, self.CHILDREN[0]}, "after the same split again")

    def test_a_split_that_fits_no_boundaries_fails_and_changes_nothing(self) -> None:
        """They hold neither the bundle nor its children."""
        broker = self._serving(self.BUNDLE)
        broker.split(self.BUNDLE, self.CHILDREN)
        _raises(BrokerError, broker.split, self.BUNDLE, self.MISFITS)
        self._expect(broker, set(self.CHILDREN), "after a split that fits no boundaries")

    def test_a_split_that_loses_the_race_for_the_boundaries_says_so(self) -> None:
        """Compare-and-set: the bundle is served as before, and the next try succeeds."""
        broker = self._serving(self.BUNDLE)
        if not self.change_boundaries(broker):
            return
        _raises(BoundariesChangedError, broker.split, self.BUNDLE, self.CHILDREN)
        self._expect(broker, {self.BUNDLE}, "after a split that lost the race")
        broker.split(self.BUNDLE, self.CHILDREN)
        self._expect(broker, set(self.CHILDREN), "after the second try")

    def test_a_drop_ends_the_split_that_still_runs(self) -> None:
        """Drop of the bundle and of the children the split may have put in its place."""
        for round_ in range(ROUNDS):
            broker = self._serving(self.BUNDLE, self.OTHER)
            split = _start(broker.split, self.BUNDLE, self.CHILDREN)
            time.sleep(0.0005 * (round_ % 5))
            for name in (self.BUNDLE, *self.CHILDREN):
                broker.drop(name)
            self._overtaken(broker, {self.OTHER}, split, "split that was dropped")

    # --------------------------------------------------------------------------- fences

    def test_a_fence_ends_everything_until_it_is_lifted(self) -> None:
        """`acquire` and `split` raise; unfence brings nothing back; all of it idempotent."""
        broker = self._serving(self.BUNDLE, self.OTHER)
        for _ in range(2):
            broker.fence()
            self._expect(broker, set(), "after fence")
        _raises(Exception, broker.acquire, self.BUNDLE)
        _raises(Exception, broker.split, self.BUNDLE, self.CHILDREN)
        broker.release(self.BUNDLE, None)
        broker.drop(self.OTHER)
        self._expect(broker, set(), "while fenced")
        for _ in range(2):
            broker.unfence()
            self._expect(broker, set(), "after unfence")
        broker.acquire(self.OTHER)
        self._expect(broker, {self.OTHER}, "after acquire of an unfenced broker")

    def test_a_fence_overtakes_acquire(self) -> None:
        """One that runs at the same time ends without serving."""
        self._race("acquire", lambda broker: broker.acquire(self.OTHER))

    def test_a_fence_overtakes_release(self) -> None:
        """Service ends at once, and the release soon."""
        self._race("release", lambda broker: broker.release(self.BUNDLE, None))

    def test_a_fence_overtakes_split(self) -> None:
        """Neither the bundle nor its children are served."""
        self._race("split", lambda broker: broker.split(self.BUNDLE, self.CHILDREN))

    def test_a_fence_overtakes_close(self) -> None:
        """A graceful end that takes too long for the lease becomes an ungraceful one."""
        self._race("close", lambda broker: broker.close())

    def test_close_ends_everything_for_good(self) -> None:
        """Neither unfence nor acquire brings anything back."""
        broker = self._serving(self.BUNDLE, self.OTHER)
        broker.close()
        self._expect(broker, set(), "after close")
        for call in (broker.unfence, lambda: broker.acquire(self.BUNDLE), broker.fence):
            _attempt(call)
            self._expect(broker, set(), "of a closed broker")

    def test_what_holds_up_the_loop_is_quick(self) -> None:
        """Everything but release and close; the best of three tries counts."""
        broker = self.make_broker()
        tries: dict[str, Callable[[], object]] = {
            "acquire": lambda: broker.acquire(self.BUNDLE),
            "load_report": broker.load_report,
            "topic_loads": lambda: broker.topic_loads(self.BUNDLE),
            "drop": lambda: broker.drop(self.OTHER),
            "redirect": lambda: broker.redirect(self.OTHER, None),
            "split": lambda: broker.split(self.BUNDLE, self.CHILDREN),
            "fence": broker.fence,
            "unfence": broker.unfence,
        }
        for name, call in tries.items():
            best_s = min(_seconds(call) for _ in range(3))
            assert best_s <= self.QUICK_S, f"{name} took {best_s:.3f} s, allowed: {self.QUICK_S}"

    # --------------------------------------------------------------------------- helpers

    def _serving(self, *bundles: str) -> Broker:
        broker = self.make_broker()
        for bundle in bundles:
            broker.acquire(bundle)
        return broker

    def _expect(self, broker: Broker, expected: set[str], when: str) -> None:
        found = self.served(broker)
        assert found == expected, f"served {when}: {sorted(found)}, expected {sorted(expected)}"

    def _report(self, broker: Broker, expected: set[str]) -> None:
        listed = set(broker.load_report().bundles)
        assert listed == expected, f"reported: {sorted(listed)}, expected {sorted(expected)}"
        self._expect(broker, expected, "beside the report")

    def _overtaken(
        self, broker: Broker, expected: set[str], running: threading.Thread, what: str
    ) -> None:
        """The operation that was overtaken ends soon, and nothing is served again meanwhile."""
        end_s = time.monotonic() + self.OVERTAKEN_S
        while running.is_alive() and time.monotonic() < end_s:
            self._expect(broker, expected, f"during a {what}")
            time.sleep(0.001)
        assert not running.is_alive(), f"a {what} has not ended after {self.OVERTAKEN_S} s"
        self._expect(broker, expected, f"after a {what}")

    def _race(self, what: str, operation: Callable[[Broker], object]) -> None:
        """Fences at different moments of an operation; nothing may be served afterwards."""
        for round_ in range(ROUNDS):
            broker = self._serving(self.BUNDLE)
            running = _start(operation, broker)
            time.sleep(0.0005 * (round_ % 5))
            seconds = _seconds(broker.fence)
            self._overtaken(broker, set(), running, f"{what} that was fenced")
            assert seconds <= self.OVERTAKEN_S / 2, f"fence waited {seconds:.1f} s for {what}"


def _attempt(operation: Callable[..., object], *arguments: object) -> Exception | None:
    try:
        operation(*arguments)
    except Exception as error:  # whatever the broker's code raises
        return error
    return None


def _raises(kind: type[Exception], operation: Callable[..., object], *arguments: object) -> None:
    error = _attempt(operation, *arguments)
    name = getattr(operation, "__name__", "operation")
    assert isinstance(error, kind), f"{name}{arguments} should raise {kind.__name__}, got {error!r}"


def _start(operation: Callable[..., object], *arguments: object) -> threading.Thread:
    thread = threading.Thread(target=_attempt, args=(operation, *arguments), daemon=True)
    thread.start()
    return thread


def _join(thread: threading.Thread, seconds: float, what: str) -> None:
    thread.join(seconds)
    assert not thread.is_alive(), f"{what} has not ended after {seconds} s"


def _seconds(operation: Callable[..., object], *arguments: object) -> float:
    started_s = time.monotonic()
    operation(*arguments)
    return time.monotonic() - started_s
