"""Why a lock is not held."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Holder:
    """The holder of a lock, as it describes itself."""

    owner: str
    host: str
    pid: int
    command: str
    #: The node that serves it; empty if there is only one.
    node: str
    fencing_token: int
    #: For how long it has held the lock, in seconds.
    held_for: float

    def __str__(self) -> str:
        return f"{self.owner or 'a client'} (pid {self.pid} on {self.host})"


class Error(Exception):
    """The base of all errors of this package."""


class ConfigError(Error, ValueError):
    """An argument is invalid, or the node is not of the required cluster; repeating the call does not help."""


class UnreachableError(Error, ConnectionError):
    """No node can be reached. Nothing is held, and nothing waits."""


class DeniedError(Error, PermissionError):
    """A rule of the node refuses it; repeating the call does not help."""


class UnavailableError(Error):
    """The node cannot grant the lock now, for example because it has no majority."""


class ClosedError(Error):
    """The client was closed."""


class NotAcquiredError(Error, TimeoutError):
    """The lock is held by another client, and the wait is over or was not wanted."""

    def __init__(self, text: str, holder: Holder | None = None) -> None:
        super().__init__(text if holder is None else f"{text}: held by {holder}")
        self.holder = holder


class LockLostError(Error):
    """The lock was lost while it was held. The work that it protects must stop."""
