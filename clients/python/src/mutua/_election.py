"""Elections: a leader is the holder of the lock of the election's name, with a value."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

import grpc

from . import _endpoint
from ._arguments import checked_timeout, encoded
from ._client import Client, Guard, _name
from ._driver import Driver
from ._errors import ConfigError, DeniedError, Error, Holder, LockLostError, UnreachableError
from ._proto import locks_pb2 as pb
from ._session import holder_of

#: The pause before the members are tried again, in seconds.
_PAUSE = 0.1
#: What another member would refuse too.
_FINAL = (
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.UNIMPLEMENTED,
)


@dataclass(frozen=True)
class Leader:
    """A leader as observers see it."""

    #: Its value; empty for a client that holds the lock of the election's name and is not a candidate.
    value: bytes
    #: The fencing token of its term.
    fencing_token: int
    holder: Holder


class Leadership(Guard):
    """The leadership of this client, until `resign`, or until it is lost, as a lock is. `with` resigns at its end."""

    def proclaim(self, value: str | bytes) -> None:
        """Gives the leader another value, and waits until the node has it.

        Raises LockLostError if the node cannot confirm that this client leads.
        """
        self._confirmed(self._proclaim(value).result())

    async def proclaim_async(self, value: str | bytes) -> None:
        """As `proclaim`, for asyncio."""
        self._confirmed(await asyncio.wrap_future(self._proclaim(value)))

    def resign(self) -> None:
        """Resigns; again, it does nothing."""
        self.release()

    def _proclaim(self, value: str | bytes) -> Future[bool]:
        outcome: Future[bool] = Future()
        sent = encoded(value, "value")
        with self._driver.mutex:
            self._driver.session.proclaim(self._request, sent, outcome.set_result)
            self._driver.changed()
        return outcome

    def _confirmed(self, held: bool) -> None:
        if not held:
            why = self._reason or "the node did not confirm it"
            raise LockLostError(f"this client does not lead: {why}")


class Election:
    """A named election. It and the lock of the same name exclude each other.

    Candidates of `mutua elect` and of etcd's clients take part in the same election.
    """

    def __init__(self, client: Client, name: str | bytes) -> None:
        self._client = client
        self.name = _name(name)

    def campaign(self, value: str | bytes, timeout: float | None = None) -> Leadership:
        """Waits until this client is the leader, at most `timeout` seconds; 0 does not wait.

        Raises NotAcquiredError if it was not elected in time.
        """
        sent, timeout = encoded(value, "value"), checked_timeout(timeout)
        driver, left = self._client._find(timeout)
        return Leadership(driver, self.name, left, sent)._wait()

    async def campaign_async(self, value: str | bytes, timeout: float | None = None) -> Leadership:
        """As `campaign`, for asyncio. Cancelling the task withdraws the candidate."""
        sent = encoded(value, "value")
        find = partial(self._client._find, checked_timeout(timeout))
        driver, left = await asyncio.get_running_loop().run_in_executor(None, find)
        return await Leadership(driver, self.name, left, sent)._wait_async()

    def leader(self) -> Leader | None:
        """The leader, if there is one."""
        return next(self.observe())

    def observe(self) -> Iterator[Leader | None]:
        """The leaders: at first the present one and then the next, which is another client, or the same one with
        another value; None if there is none. Values that are replaced soon may be left out.

        If its node is lost, another member is asked. Raises UnreachableError if none answers for as long as
        `unreachable_after` allows. Closing the iterator ends the observation.
        """
        observer = _Observer(self._client._connect(), self.name)
        try:
            while True:
                yield observer.next()
        finally:
            observer.close()

    async def observe_async(self) -> AsyncIterator[Leader | None]:
        """As `observe`, for asyncio."""
        loop = asyncio.get_running_loop()
        driver = await loop.run_in_executor(None, self._client._connect)
        observer = _Observer(driver, self.name)
        try:
            while True:
                yield await loop.run_in_executor(None, observer.next)
        finally:
            observer.close()


class _Observer:
    def __init__(self, driver: Driver, name: bytes) -> None:
        self._driver = driver
        self._name = name
        self._channel: grpc.Channel | None = None
        self._stream: grpc.Call | None = None
        self._next = 0
        self._closed = False
        #: Fencing token and value of the last report; None if there was no leader, False before the first.
        self._reported: tuple[int, bytes] | None | bool = False

    def next(self) -> Leader | None:
        silent_since = time.monotonic()
        while True:
            try:
                lock = self._read()
            except (grpc.RpcError, UnreachableError, ConfigError, StopIteration) as error:
                self._leave()
                self._next += 1
                patience = self._driver.session.patience
                late = time.monotonic() - silent_since > patience
                if late or self._closed or _is_final(error):
                    raise _error(error) from error
                time.sleep(_PAUSE)
                continue
            silent_since = time.monotonic()
            leader = None
            if lock.HasField("holder"):
                entry = lock.holder
                leader = Leader(entry.value, entry.fencing_token, holder_of(entry))
            elif lock.unanswered:
                continue
            term = None if leader is None else (leader.fencing_token, leader.value)
            if self._reported is False or term != self._reported:
                self._reported = term
                return leader

    def close(self) -> None:
        self._closed = True
        self._leave()

    def _read(self) -> pb.Lock:
        """The next state of the lock, from a stream that is opened if there is none."""
        if self._stream is None:
            with self._driver.mutex:
                endpoints = self._driver.endpoints()
            endpoint = endpoints[self._next % len(endpoints)]
            required = self._driver.required
            self._channel = _endpoint.connect(endpoint, _endpoint.CONNECT_LIMIT, required)
            watch = self._channel.unary_stream(
                "/mutua.v1.Locks/Watch",
                request_serializer=pb.WatchRequest.SerializeToString,
                response_deserializer=pb.Lock.FromString,
            )
            self._stream = watch(pb.WatchRequest(name=self._name))
        state: pb.Lock = next(self._stream)
        return state

    def _leave(self) -> None:
        stream, channel = self._stream, self._channel
        self._stream = self._channel = None
        if stream is not None:
            stream.cancel()
        if channel is not None:
            channel.close()


def _is_final(error: Exception) -> bool:
    code = getattr(error, "code", None)
    return code is not None and code() in _FINAL


def _error(error: Exception) -> Error:
    if isinstance(error, Error):
        return error
    details = getattr(error, "details", None)
    text = str(details()) if details is not None else "no node answers"
    if isinstance(error, grpc.RpcError) and error.code() is grpc.StatusCode.PERMISSION_DENIED:
        return DeniedError(text)
    return ConfigError(text) if _is_final(error) else UnreachableError(text)
