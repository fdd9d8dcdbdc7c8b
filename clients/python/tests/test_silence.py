"""A client whose node does not answer for a while, with other members at hand. MUTUA is the binary."""

from __future__ import annotations

import os
import threading
import time
import unittest
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import mutua
from mutua import _driver
from mutua._proto import locks_pb2 as pb
from mutua._session import SILENCE, Session
from nodes import Cluster, wait_for


class ASilentNode(unittest.TestCase):
    def setUp(self) -> None:
        self.cluster = Cluster(3)
        self.addCleanup(self.cluster.close)
        endpoints = [self.cluster.endpoint(index) for index in range(3)]
        # Silence is noticed when a renewal is not answered; these are sent each second.
        self.client = mutua.Client(endpoints, ttl=3, cluster="test")
        self.addCleanup(self.client.close)

    @contextmanager
    def silent_for_a_while(self) -> Iterator[None]:
        """The block runs, in which the node of the client begins to be silent, until it has left it."""
        driver = self.client._connect()
        began, used = time.monotonic(), time.process_time()
        with self.cluster.stopped(0):
            stream = driver._stream
            yield
            wait_for("another member", lambda: driver._stream not in (None, stream))
            wait_for("an answer", lambda: driver.session.replied_here)
            time.sleep(1)
        time.sleep(1)
        share = (time.process_time() - used) / (time.monotonic() - began)
        self.assertLess(share, 0.5, "the client is busy for nothing")

    def in_time(self, call: object, limit: float = 20) -> None:
        """Fails unless the call returns, on a thread, so that the test ends."""
        thread = threading.Thread(target=call, daemon=True)  # type: ignore[arg-type]
        thread.start()
        thread.join(limit)
        self.assertFalse(thread.is_alive(), f"{call} does not return")

    def test_what_is_held_is_kept_at_another_member(self) -> None:
        # The lease outlasts the silence, whatever the load.
        self.client = mutua.Client([self.cluster.endpoint(index) for index in range(3)], ttl=30)
        self.addCleanup(self.client.close)
        guard = self.client.lock("x").acquire(timeout=30)
        driver = self.client._connect()
        with self.silent_for_a_while():
            with driver.mutex:
                # Otherwise it is sent after a third of the lease.
                driver.session.renew_at = 0
                driver.changed()
        guard.check()
        self.assertFalse(self.cluster.is_free(1, "x"))
        self.in_time(guard.release)
        wait_for("the release", lambda: self.cluster.is_free(1, "x"))

    def test_calls_return_during_the_silence_and_a_wait_is_kept(self) -> None:
        with mutua.Client(self.cluster.endpoint(1)) as other:
            held = other.lock("x").acquire(timeout=30)
            granted = threading.Event()

            def wait() -> None:
                with self.client.lock("x"):
                    granted.set()

            def limited() -> None:
                with self.assertRaises(mutua.Error):
                    self.client.lock("x").acquire(timeout=0.3)

            threading.Thread(target=wait, daemon=True).start()
            wait_for("the wait", lambda: bool(self.client._connect().session.requests))
            with self.silent_for_a_while():
                for _ in range(20):
                    self.in_time(limited)
            self.in_time(limited)
            self.assertFalse(granted.is_set())
            held.release()
            self.assertTrue(granted.wait(30))


class Timers(unittest.TestCase):
    """What the thread that keeps time waits for, without a node."""

    def session(self) -> Session:
        client = pb.Client()
        session = Session(60, client, 10, None, lambda _: None, 0)
        session.has_peers = True
        session.attach(0)
        opened = pb.SessionReply(opened=pb.Opened(session=1, ttl_ms=60000))
        self.assertIsNone(session.received(0, opened))
        return session

    def test_a_silent_node_is_left_once(self) -> None:
        session = self.session()
        session.tick(20)
        late = 20 + SILENCE
        self.assertLessEqual(session.wake_at(), late)
        self.assertTrue(session.tick(late))
        self.assertFalse(session.tick(late))
        self.assertGreater(session.wake_at(), late)
        session.broken(late, "silent")
        session.attach(late)
        self.assertTrue(session.tick(late + SILENCE), "the next one is silent too")

    def test_no_deadline_stays_in_the_past(self) -> None:
        session = self.session()
        for wait in (None, 0, 5):
            for name in (b"x", b"y"):
                session.acquire(0, name, wait, mock.Mock(), mock.Mock(), mock.Mock())
        for id, name in ((1, b"x"), (2, b"y")):
            session.received(0, pb.SessionReply(granted=pb.Granted(id=id, name=name, fencing_token=id)))
        session.broken(1, "lost")
        for at in (5, 20, 57, 70):
            with self.subTest(at=at):
                for _ in range(3):
                    session.tick(at)
                self.assertGreater(session.wake_at(), at)

    def test_the_thread_waits_whatever_the_deadlines(self) -> None:
        """Another fault of this kind may cost some time; it must not stop the client."""
        with mock.patch.object(Session, "wake_at", lambda self: 0.0):
            with mock.patch.object(_driver._endpoint, "connect", mock.Mock(side_effect=_silence)):
                client = mutua.Client("unix:/nonexistent", timeout=2)
                used = time.process_time()
                with self.assertRaises(mutua.UnreachableError):
                    client.lock("x").acquire(timeout=2)
                self.assertLess(time.process_time() - used, 1)
                client.close()


def _silence(endpoint: str, limit: float, _: object) -> None:
    time.sleep(limit)
    raise mutua.UnreachableError(f"{endpoint} does not answer, {os.getpid()}")


if __name__ == "__main__":
    unittest.main()
