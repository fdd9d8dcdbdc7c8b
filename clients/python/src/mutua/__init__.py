"""Distributed locks with fencing tokens, through a Mutua node.

    import mutua

    with mutua.lock("nightly") as guard:
        write(guard.fencing_token)

The node is found as `mutua lock` finds it, or its endpoints are given to `Client`.
"""

from ._client import Client, Guard, Lock, default_client, lock
from ._errors import (
    ClosedError,
    ConfigError,
    Error,
    Holder,
    LockLostError,
    NotAcquiredError,
    UnavailableError,
    UnreachableError,
)

__all__ = [
    "Client",
    "ClosedError",
    "ConfigError",
    "Error",
    "Guard",
    "Holder",
    "Lock",
    "LockLostError",
    "NotAcquiredError",
    "UnavailableError",
    "UnreachableError",
    "default_client",
    "lock",
]
__version__ = "0.1.0"
