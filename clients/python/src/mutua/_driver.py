"""The driver of a session: it connects, sends and receives, and keeps time, on threads of its own."""

from __future__ import annotations

import atexit
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future

import grpc

from . import _endpoint
from ._errors import ConfigError, Error, UnreachableError
from ._proto import locks_pb2 as pb
from ._session import SILENCE, Session

#: The pause between attempts to connect, in seconds.
_RECONNECT_AFTER = 0.05
#: Timers are checked at least this often: clocks may stand still while the machine sleeps.
_LONGEST_SLEEP = 1.0
#: The thread that keeps time leaves the mutex to others for this long each time, even if a deadline has passed.
_SHORTEST_SLEEP = 0.001
#: How long closing takes at most: the node is found to be silent, and another one is told.
_FLUSH = 2 * SILENCE


def now() -> float:
    """A clock that counts suspend, as leases do."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Driver:
    """A session on one stream at a time. All of its state is guarded by `mutex`."""

    def __init__(
        self,
        endpoints: list[str],
        make: Callable[..., Session],
        required: _endpoint.Required | None,
        limit: float,
    ) -> None:
        """`limit` is how long the first session may take."""
        self.mutex = threading.RLock()
        self._changed = threading.Condition(self.mutex)
        self._endpoints = endpoints
        self.required = required
        self._until = now() + limit
        # Each endpoint gets its share, so that the last one is tried too.
        self._connect_limit = min(_endpoint.CONNECT_LIMIT, limit / len(endpoints))
        self._preferred: list[str] = []
        self._next = 0
        self._outgoing: queue.SimpleQueue[pb.SessionRequest | None] | None = None
        self._stream: grpc.Call | None = None
        self._ended = False
        self.session = make(send_now=self._send, now=now())
        #: Whether the program ends: then no caller is told of it.
        self.exiting = False
        self._process = os.getpid()
        # The first session: open, or why there is none.
        self._first: Future[None] = Future()
        self._failure: Error | None = None
        _drivers.add(self)
        _close_at_the_end_of_a_child()
        for target in (self._serve, self._keep_time):
            threading.Thread(target=target, name="mutua", daemon=True).start()

    def wait_until_open(self, limit: float) -> None:
        """Waits for the first session; raises why there is none."""
        try:
            self._first.result(limit)
        except TimeoutError:
            tried = ", ".join(self._endpoints)
            raise self._failure or UnreachableError(f"{tried} does not answer") from None

    def has_ended(self) -> bool:
        """Whether it serves no requests any more: it is closed, or has found no node for its first session."""
        failed = self._first.done() and self._first.exception() is not None
        return failed or self._ended or self.session.closing

    def changed(self) -> None:
        """To be called under the mutex after each change of the session."""
        self._changed.notify_all()

    def close(self) -> None:
        """Closes the session: its locks are released. `wait_until_closed` waits for that."""
        if not self._is_of_this_process():
            return
        with self.mutex:
            self.session.close(now())
            self.changed()

    def wait_until_closed(self, until: float | None = None) -> None:
        """Waits until a node has released all locks: a program that ends at once takes unsent messages with it.

        Returns after some seconds at the latest. If no node was found by then, the search goes on.
        """
        if not self._is_of_this_process():
            return
        until = now() + _FLUSH if until is None else until
        with self.mutex:
            while not self._ended and self.session.is_at_node() and now() < until:
                self._changed.wait(max(0.0, until - now()))

    def _is_of_this_process(self) -> bool:
        """Whether it has threads: those of a parent are not copied, and its mutex may be locked for ever."""
        return self._process == os.getpid()

    def endpoints(self) -> list[str]:
        """The endpoints of all members that are known. To be called under the mutex."""
        return list(self._endpoints)

    def is_good(self) -> bool:
        """Whether locks that were granted count as held now."""
        return now() < self.session.good_until()

    def _send(self, request: pb.SessionRequest) -> None:
        if self._outgoing is not None:
            self._outgoing.put(request)

    def _keep_time(self) -> None:
        with self.mutex:
            while not self._ended:
                wait = self.session.wake_at() - now()
                self._changed.wait(min(max(wait, _SHORTEST_SLEEP), _LONGEST_SLEEP))
                if self.session.tick(now()) and self._stream is not None:
                    # The node does not answer: its stream ends, and another member is tried.
                    self._stream.cancel()

    def _serve(self) -> None:
        try:
            while True:
                endpoint = self._choose()
                why = self._attach(endpoint)
                with self.mutex:
                    self._outgoing = self._stream = None
                    self.session.broken(now(), why)
                    if not self._preferred:
                        self._next += 1
                    self.changed()
                    if self.session.is_closed(now()):
                        return
                    tried_all = self._next >= len(self._endpoints)
                    if not self._first.done() and (tried_all or now() > self._until):
                        self._first.set_exception(self._failure or UnreachableError(why))
                        return
                    while self._is_idle():
                        self._changed.wait()
                    if self.session.is_closed(now()):
                        return
                time.sleep(_RECONNECT_AFTER)
        finally:
            with self.mutex:
                self._ended = True
                if not self._first.done():
                    self._first.set_exception(UnreachableError("the search for a node was given up"))
                if not self.exiting:
                    self.session.end(now())
                self.changed()
            _drivers.discard(self)

    def _is_idle(self) -> bool:
        """Whether there is nothing to connect for."""
        needed = self.session.is_busy() or self.session.closing
        return self._first.done() and not needed

    def _choose(self) -> str:
        with self.mutex:
            if self._preferred:
                return self._preferred.pop(0)
            return self._endpoints[self._next % len(self._endpoints)]

    def _attach(self, endpoint: str) -> str:
        """Serves the session at an endpoint until the stream ends; returns why it has ended."""
        try:
            channel = _endpoint.connect(endpoint, self._connect_limit, self.required)
        except UnreachableError as error:
            return str(error)
        except ConfigError as error:
            self._failure = error
            return str(error)
        try:
            return self._read(channel)
        except grpc.RpcError as error:
            return f"{endpoint}: {error.details()}"
        finally:
            channel.close()

    def _read(self, channel: grpc.Channel) -> str:
        outgoing: queue.SimpleQueue[pb.SessionRequest | None] = queue.SimpleQueue()
        attach = channel.stream_stream(
            "/mutua.v1.Locks/Attach",
            request_serializer=pb.SessionRequest.SerializeToString,
            response_deserializer=pb.SessionReply.FromString,
        )
        with self.mutex:
            self._outgoing = outgoing
            self.session.attach(now())
            self._stream = replies = attach(_requests(outgoing))
            self.changed()
        try:
            for reply in replies:
                with self.mutex:
                    why = self.session.received(now(), reply) or self._follow(reply)
                    self.changed()
                    if why:
                        return why
                    if reply.HasField("opened"):
                        if not self._first.done():
                            if now() > self._until:
                                # Nobody may be there to close it.
                                return "the node answered too late"
                            self._first.set_result(None)
                        self._failure = None
                        self._connect_limit = _endpoint.CONNECT_LIMIT
            return "the node closed the connection"
        finally:
            outgoing.put(None)
            replies.cancel()

    def _follow(self, reply: pb.SessionReply) -> str | None:
        """Where the session goes on when its node is lost."""
        if reply.HasField("peers"):
            known = [_endpoint.check(one) for one in reply.peers.endpoints]
            self._endpoints += [one for one in known if one not in self._endpoints]
            self.session.has_peers = len(self._endpoints) > 1
        if reply.HasField("moved"):
            self._preferred = [_endpoint.check(one) for one in reply.moved.endpoints]
            return f"{reply.moved.node} serves the session"
        return None


def _requests(
    outgoing: queue.SimpleQueue[pb.SessionRequest | None],
) -> Iterator[pb.SessionRequest]:
    while (request := outgoing.get()) is not None:
        yield request


#: The drivers that have not ended, of this process and of its parents.
_drivers: set[Driver] = set()


@atexit.register
def _close_all() -> None:
    """Closes what the program has left open, and sends what is unsent. To be called when only daemons still work.

    These must not begin to act on it: `os._exit`, because a lock is lost, would be another end of the program.
    """
    drivers = _drivers.copy()
    for driver in drivers:
        driver.exiting = True
        driver.close()
    until = now() + _FLUSH
    for driver in drivers:
        driver.wait_until_closed(until)


def _close_at_the_end_of_a_child() -> None:
    """A child that `multiprocessing` has forked ends without the functions of `atexit`."""
    util = sys.modules.get("multiprocessing.util")
    if util is not None and sys.modules["multiprocessing.process"].parent_process() is not None:
        util.Finalize(None, _close_all_of_a_child, exitpriority=-100)


def _close_all_of_a_child() -> None:
    # This comes before other threads are joined, and these may hold locks.
    others = set(threading.enumerate()) - {threading.current_thread()}
    if all(one.daemon for one in others):
        _close_all()
