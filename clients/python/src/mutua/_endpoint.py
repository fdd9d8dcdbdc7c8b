"""Endpoints as people write them, and the one of this host."""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Iterable
from pathlib import Path

import grpc

from ._arguments import text
from ._errors import ConfigError, UnreachableError

#: The system's configuration, and the notice that this host runs a member of a cluster.
_SYSTEM_CONFIG = Path("/etc/mutua/mutua.toml")
_NOTICE = Path("/var/lib/mutua-member")
#: How long a node may take to accept a connection, in seconds.
CONNECT_LIMIT = 3.0
#: A client connects by itself to the next endpoint, so gRPC must not wait for long.
_OPTIONS = [
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
]


def default() -> str:
    """The endpoint that `mutua lock` uses: MUTUA_SOCKET, the configured node, or the user's own."""
    socket = os.environ.get("MUTUA_SOCKET")
    if socket:
        return f"unix:{Path(socket).absolute()}"
    named = os.environ.get("MUTUA_CONFIG")
    config = Path(named) if named else _SYSTEM_CONFIG
    if named or config.exists():
        return f"unix:{_socket_of(config)}"
    if _NOTICE.exists() and _NOTICE.stat().st_uid in (0, os.geteuid()):
        raise ConfigError(
            f"this host runs a {_NOTICE.read_text().strip()}: a local lock would not exclude its"
            " clients; name the node's endpoint, or set MUTUA_SOCKET"
        )
    return f"unix:{_own_directory()}/locks.sock"


def _socket_of(config: Path) -> Path:
    try:
        values = tomllib.loads(config.read_text())
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read the configuration {config}: {error}") from error
    data = values.get("data") or f"{config.stem}-{values.get('node', '')}.data"
    return config.absolute().parent / str(data) / "locks.sock"


def _own_directory() -> str:
    """The directory of this user's node. Any user can create one of this name first."""
    directory = f"/tmp/mutua-{os.geteuid()}"
    try:
        found = os.lstat(directory)
    except OSError:
        raise UnreachableError(
            f"no node runs at {directory}: start one (`mutua node`), or name an endpoint"
        ) from None
    private = stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o077
    if found.st_uid != os.geteuid() or not private:
        raise ConfigError(f"{directory} is not a directory of this user with mode 0700")
    return directory


def check_all(endpoints: str | Iterable[str]) -> list[str]:
    """Returns the endpoints, at least one, if they are valid."""
    if isinstance(endpoints, (str, bytes)) or not isinstance(endpoints, Iterable):
        endpoints = [endpoints]
    checked = [check(endpoint) for endpoint in endpoints]
    if not checked:
        raise ConfigError("no endpoint is given")
    return checked


def check(endpoint: str) -> str:
    """Returns an endpoint if it is valid."""
    text(endpoint, "endpoint")
    why = None
    if endpoint.startswith("unix:"):
        path = endpoint.removeprefix("unix:").removeprefix("//")
        if path:
            return f"unix:{Path(path).absolute()}"
        why = "the path is empty"
    else:
        scheme, _, address = endpoint.rpartition("://")
        host, _, port = address.rstrip("/").rpartition(":")
        if scheme not in ("", "http", "https"):
            why = f"{scheme} is not supported"
        elif not host:
            why = "the host or the port is missing"
        elif not port.isdecimal() or not 0 < int(port) < 65536:
            why = f"invalid port `{port}`"
        else:
            return f"{scheme or 'http'}://{host}:{port}"
    raise ConfigError(
        f"invalid endpoint `{endpoint}`: {why}; use unix:PATH, HOST:PORT or https://HOST:PORT"
    )


def channel(endpoint: str) -> grpc.Channel:
    """A channel to a checked endpoint; it connects when it is used."""
    if endpoint.startswith("unix:"):
        # The name that gRPC makes of a path is refused by strict servers.
        return grpc.insecure_channel(endpoint, [*_OPTIONS, ("grpc.default_authority", "localhost")])
    scheme, _, address = endpoint.partition("://")
    if scheme == "http":
        return grpc.insecure_channel(address, _OPTIONS)
    return grpc.secure_channel(address, _credentials(), _OPTIONS)


def _credentials() -> grpc.ChannelCredentials:
    """The files are read each time, so that renewed certificates are used."""
    contents = []
    for variable in ("MUTUA_CA", "MUTUA_KEY", "MUTUA_CERT"):
        path = os.environ.get(variable)
        if not path:
            raise ConfigError(f"https endpoints need {variable}, the path of a PEM file")
        try:
            contents.append(Path(path).read_bytes())
        except OSError as error:
            raise ConfigError(f"{variable}: {error}") from error
    ca, key, certificate = contents
    return grpc.ssl_channel_credentials(ca, key, certificate)
