"""Clients, locks and guards, for threads and for asyncio."""

from __future__ import annotations

import asyncio
import enum
import getpass
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self

from . import _endpoint
from ._arguments import checked_timeout, encoded, seconds, text
from ._driver import Driver, now
from ._errors import ClosedError, ConfigError, Error, LockLostError, UnreachableError
from ._proto import locks_pb2 as pb
from ._session import ANSWER, Request, Session

if TYPE_CHECKING:
    from ._election import Election

VERSION = "0.1.0"


class Client:
    """A client of a node: one session, on one connection, for any number of locks.

    `endpoints` are tried in this order: `unix:PATH`, `HOST:PORT` or, with the certificates that MUTUA_CA, MUTUA_CERT
    and MUTUA_KEY name, `https://HOST:PORT`. Without them the node of this host is used, as `mutua lock` does, and must
    be of the cluster that MUTUA_CLUSTER names. Members of the cluster that are not listed are learned from the node.

    A client connects when it is first used, or at the beginning of a `with` block, within `timeout` seconds.

    Threads and asyncio tasks may share a client; they exclude each other as two clients do. A process that forks needs
    a client of its own.
    """

    def __init__(
        self,
        endpoints: str | Iterable[str] | None = None,
        *,
        ttl: float = 10.0,
        owner: str | None = None,
        cluster: str | None = None,
        unreachable_after: float = 10.0,
        timeout: float | None = None,
    ) -> None:
        self._endpoints = None if endpoints is None else _endpoint.check_all(endpoints)
        self._ttl = seconds(ttl, "ttl", least=1)
        self._owner = None if owner is None else text(owner, "owner")
        self._cluster = None if cluster is None else text(cluster, "cluster")
        self._patience = seconds(unreachable_after, "unreachable_after", least=0.001)
        self._limit = _connect_limit(self._patience, checked_timeout(timeout))
        self._mutex = threading.Lock()
        self._closed = False
        self._driver: Driver | None = None
        # What is wrong with the configuration that named the driver's endpoint.
        self._fault: str | None = None

    def _connect(self, timeout: float | None = None) -> Driver:
        """The driver, when its first session is open. If there is none in time, the next call tries again."""
        until = now() + _connect_limit(self._limit, timeout)
        while True:
            with self._mutex:
                if self._closed:
                    raise ClosedError("the client is closed")
                is_new = self._driver is None or self._driver.has_ended()
                if is_new:
                    self._driver = self._make_driver(until - now())
                driver, fault = self._driver, self._fault
            assert driver is not None
            try:
                driver.wait_until_open(max(0.0, until - now()))
                return driver
            except UnreachableError as error:
                if not is_new and now() < until:
                    # It was made by another thread, which had less time.
                    continue
                if self._closed:
                    raise ClosedError("the client is closed") from None
                if fault is None:
                    raise
                raise ConfigError(f"{error}: {fault}") from error

    def _make_driver(self, limit: float) -> Driver:
        required = _endpoint.required(self._cluster, self._endpoints is None)
        endpoints, self._fault = self._endpoints, None
        if endpoints is None:
            found = _endpoint.default(required)
            endpoints, self._fault = _endpoint.check_all(found.endpoint), found.fault
        make = partial(
            Session,
            ttl=self._ttl,
            client=_description(_user() if self._owner is None else self._owner),
            patience=self._patience,
            cluster=None if required is None else required.cluster,
        )
        driver = Driver(list(endpoints), make, required, limit)
        driver.session.has_peers = len(endpoints) > 1
        return driver

    def _find(self, timeout: float | None) -> tuple[Driver, float | None]:
        """The driver, and what is left of the timeout when it is connected."""
        began = now()
        driver = self._connect(timeout)
        return driver, None if timeout is None else max(0.0, timeout - (now() - began))

    def _has_ended(self) -> bool:
        return self._closed or (self._driver is not None and self._driver.has_ended())

    def lock(self, name: str | bytes, timeout: float | None = None) -> Lock:
        """The lock of this name. Nothing is sent. It is waited for at most `timeout` seconds; 0 does not wait."""
        return Lock(self, name, timeout)

    def election(self, name: str | bytes) -> Election:
        """The election of this name. Nothing is sent."""
        from ._election import Election

        return Election(self, name)

    def close(self) -> None:
        """Closes the session: its locks are released when this returns, if a node answers within 3 s. The end of the
        program closes all clients.
        """
        with self._mutex:
            self._closed = True
            driver = self._driver
            if driver is not None:
                driver.close()
        if driver is not None:
            driver.wait_until_closed()

    async def close_async(self) -> None:
        """As `close`, for asyncio."""
        await asyncio.get_running_loop().run_in_executor(None, self.close)

    def __enter__(self) -> Client:
        self._connect()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _connect_limit(limit: float, timeout: float | None) -> float:
    """How long connecting may take; a node has a moment to answer a caller that does not wait."""
    return limit if timeout is None else min(limit, max(timeout, ANSWER))


def _description(owner: str) -> pb.Client:
    """This process, as `mutua ls` shows it."""
    # An argument of the command line can be of any bytes.
    command = os.fsencode(" ".join(sys.orig_argv)).decode(errors="replace")
    host, pid = socket.gethostname(), os.getpid()
    return pb.Client(owner=owner, host=host, pid=pid, command=command, version=VERSION)


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return str(os.geteuid())


def _name(name: str | bytes) -> bytes:
    named = encoded(name, "name")
    if not named:
        raise ConfigError("invalid name: it is empty")
    return named


class _Unset(enum.Enum):
    """No argument, where None is one."""

    TIMEOUT = enum.auto()


class Lock:
    """A named lock. `with` and `async with` hold it for a block; the guard is the value after `as`."""

    def __init__(
        self,
        client: Client | Callable[[float | None], Client],
        name: str | bytes,
        timeout: float | None = None,
    ) -> None:
        self._client = client
        self.name = _name(name)
        self._timeout = checked_timeout(timeout)
        # The guards of the blocks that hold it: of one thread or task each.
        self._guards: dict[object, Guard] = {}

    def acquire(self, timeout: float | None | _Unset = _Unset.TIMEOUT) -> Guard:
        """Waits until the lock is granted, at most `timeout` seconds; 0 does not wait, None waits for ever. The
        default is the timeout of the lock.

        Raises NotAcquiredError if it was not granted in time.
        """
        driver, left = self._find(self._limit(timeout))
        return Guard(driver, self.name, left)._wait()

    async def acquire_async(self, timeout: float | None | _Unset = _Unset.TIMEOUT) -> Guard:
        """As `acquire`, for asyncio. Cancelling the task leaves the queue."""
        find = partial(self._find, self._limit(timeout))
        driver, left = await asyncio.get_running_loop().run_in_executor(None, find)
        return await Guard(driver, self.name, left)._wait_async()

    def _limit(self, timeout: float | None | _Unset) -> float | None:
        return self._timeout if isinstance(timeout, _Unset) else checked_timeout(timeout)

    def _find(self, timeout: float | None) -> tuple[Driver, float | None]:
        """The driver, and what is left of the timeout when it has been found."""
        if isinstance(self._client, Client):
            return self._client._find(timeout)
        began = now()
        driver = self._client(timeout)._connect(timeout)
        return driver, None if timeout is None else max(0.0, timeout - (now() - began))

    def __enter__(self) -> Guard:
        guard = self.acquire()
        self._guards[threading.get_ident()] = guard
        return guard

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._guards.pop(threading.get_ident())._leave(kind)

    async def __aenter__(self) -> Guard:
        guard = await self.acquire_async()
        self._guards[asyncio.current_task()] = guard
        return guard

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._guards.pop(asyncio.current_task())._leave(kind)


class Guard:
    """A lock that is held until `release`, or until it is lost.

    The lock is lost when its lease expires because no node could be reached in time, or when it is broken by
    `mutua break`. Send the fencing token with every write: the resource should refuse a smaller one than it has seen.
    """

    def __init__(
        self, driver: Driver, name: bytes, timeout: float | None, value: bytes | None = None
    ) -> None:
        self._driver = driver
        self._outcome: Future[None] = Future()
        self._lost = threading.Event()
        self._reason: str | None = None
        self._callbacks: list[Callable[[str], object]] = []
        self._token = 0
        self._released = False
        self.name = name
        timeout = checked_timeout(timeout)
        with driver.mutex:
            self._request: Request = driver.session.acquire(
                now(), name, timeout, self._granted, self._failed, self._on_loss, value
            )
            driver.changed()

    @property
    def fencing_token(self) -> int:
        """A number that is greater than that of every earlier guard of the same name."""
        return self._token

    @property
    def lost(self) -> bool:
        """Whether the lock is lost. True a tenth of the lease before another client can hold it."""
        return self._reason is not None or not self._driver.is_good()

    @property
    def lost_reason(self) -> str | None:
        """Why the lock is lost; None while it is held."""
        return self._reason

    def check(self) -> None:
        """Raises LockLostError if the lock is lost or was released."""
        if self._released:
            raise LockLostError("the lock was released")
        if self.lost:
            raise LockLostError(f"the lock is lost: {self._reason or 'its lease expires'}")

    def on_lost(self, callback: Callable[[str], object]) -> None:
        """Calls a function with the reason when the lock is lost, on a thread of the client.

        At once if it is lost already. The function must not block.
        """
        with self._driver.mutex:
            if self._reason is None:
                self._callbacks.append(callback)
                return
        callback(self._reason)

    def wait_lost(self, timeout: float | None = None) -> bool:
        """Waits until the lock is lost; returns whether it is."""
        return self._lost.wait(timeout)

    async def wait_lost_async(self) -> str:
        """Waits until the lock is lost; returns why."""
        loop, lost = asyncio.get_running_loop(), asyncio.Event()
        self.on_lost(lambda _: loop.call_soon_threadsafe(lost.set))
        await lost.wait()
        return self._reason or ""

    def release(self) -> None:
        """Releases the lock; again, it does nothing."""
        with self._driver.mutex:
            self._released = True
            self._driver.session.release(now(), self._request)
            self._callbacks.clear()
            self._driver.changed()

    def _wait(self) -> Self:
        try:
            self._outcome.result()
        except BaseException:
            self.release()
            raise
        return self

    async def _wait_async(self) -> Self:
        try:
            await asyncio.wrap_future(self._outcome)
        except BaseException:
            self.release()
            raise
        return self

    def _leave(self, kind: type[BaseException] | None) -> None:
        """The end of a block. A lost lock is an error, unless there is another one."""
        try:
            if kind is None and not self._released:
                self.check()
        finally:
            self.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        _value: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._leave(kind)

    # Called by the session, under the mutex.

    def _granted(self, token: int) -> None:
        self._token = token
        if self._outcome.set_running_or_notify_cancel():
            self._outcome.set_result(None)

    def _failed(self, error: Error) -> None:
        if self._outcome.set_running_or_notify_cancel():
            self._outcome.set_exception(error)

    def _on_loss(self, why: str) -> None:
        self._reason = why
        if self._driver.exiting:
            return
        self._lost.set()
        for callback in self._callbacks:
            # A thread of its own: the session goes on whatever the callback does.
            threading.Thread(target=callback, args=(why,), daemon=True).start()


_default: dict[int, Client] = {}
_default_mutex = threading.Lock()


def default_client(timeout: float | None = None) -> Client:
    """The client of this process for the node of this host, which is found within the timeout, or a second."""
    timeout = checked_timeout(timeout)
    # Another thread may be looking for the node.
    if not _default_mutex.acquire(timeout=-1 if timeout is None else max(timeout, ANSWER)):
        raise UnreachableError("the node of this host does not answer")
    try:
        # A forked process has no threads of its parent, so it needs a session of its own.
        client = _default.get(os.getpid())
        if client is None or client._has_ended():
            client = Client(timeout=timeout)
            try:
                client._connect()
            except BaseException:
                client.close()
                raise
            _default.clear()
            _default[os.getpid()] = client
        return client
    finally:
        _default_mutex.release()


def lock(name: str | bytes, timeout: float | None = None) -> Lock:
    """The lock of this name at the node of this host, as `mutua lock` finds it.

    `with mutua.lock("nightly") as guard:` and `async with` wait at most `timeout` seconds, finding the node included;
    0 does not wait.
    """
    return Lock(default_client, name, timeout)
