"""Distributed locks and elections with fencing tokens, through a Mutua node.

    import mutua

    with mutua.lock("nightly") as guard:
        write(guard.fencing_token)

The node is found as `mutua lock` finds it, or its endpoints are given to `Client`.
"""

import os as _os
import sys as _sys

# gRPC logs each failed handshake to stderr; the errors of this package say why. The variable counts when gRPC is
# loaded, so children of the program do not get it.
if "grpc" not in _sys.modules and "GRPC_VERBOSITY" not in _os.environ:
    _os.environ["GRPC_VERBOSITY"] = "NONE"
    import grpc as _grpc

    del _os.environ["GRPC_VERBOSITY"]

from ._client import Client, Guard, Lock, default_client, lock
from ._election import Election, Leader, Leadership
from ._errors import (
    ClosedError,
    ConfigError,
    DeniedError,
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
    "DeniedError",
    "Election",
    "Error",
    "Guard",
    "Holder",
    "Leader",
    "Leadership",
    "Lock",
    "LockLostError",
    "NotAcquiredError",
    "UnavailableError",
    "UnreachableError",
    "default_client",
    "lock",
]
__version__ = "0.1.0"
