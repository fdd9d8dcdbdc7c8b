"""Endpoints as people write them, and the one of this host."""

from __future__ import annotations

import difflib
import os
import re
import ssl
import stat
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import grpc

from . import _diagnosis
from ._arguments import text
from ._errors import ConfigError, Error, UnreachableError
from ._proto import locks_pb2 as pb

#: The system's configuration, and the notice that this host runs a member of a cluster.
_SYSTEM_CONFIG = Path("/etc/mutua/mutua.toml")
_NOTICE = Path("/var/lib/mutua-member")
#: How long a node may take to accept a connection, in seconds.
CONNECT_LIMIT = 3.0
#: What gRPC says when a server closes the connection at once, or speaks another protocol.
_CLOSED = ("recvmsg", "Socket closed", "Connection reset", "Broken pipe", "HTTP2", "HTTP/2", "http1")
#: What it says when there is no secure connection.
_INSECURE = ("andshake", "TSI_", "ALPN", "SSL", "Unwrap", *_CLOSED)
#: What it says when there is no socket, or when nobody listens there.
_MISSING = ("No such file or directory", "Connection refused")
_START = "start one with `mutua node`, or with `mutua lock`, which starts the node of this user"
#: A client connects by itself to the next endpoint, so gRPC must not wait for long.
_OPTIONS = [
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
]


#: The keys of a configuration.
KEYS = frozenset(
    "cluster node clustered listen data insecure metrics_listen metrics_names audit log_level socket members locks"
    " access limits tls".split()
)


@dataclass(frozen=True)
class Required:
    """The cluster that a node must be of, because of this setting."""

    cluster: str
    by: str

    def check(self, endpoint: str, about: pb.AboutResponse | pb.Opened) -> None:
        """Raises ConfigError unless a node that reports this is of the cluster."""
        # A node that lists no other member reports the cluster that it would be in.
        if about.scope == pb.SCOPE_CLUSTER and about.cluster == self.cluster:
            return
        found = {
            pb.SCOPE_LOCAL: "this user's node, whose locks are local",
            pb.SCOPE_CLUSTER: f"node {about.node} of cluster {about.cluster}",
            pb.SCOPE_NODE: f"node {about.node}, which is in no cluster: its configuration lists no other member of"
            f" {about.cluster}, so its locks exclude no other host",
        }
        self.refuse(f"{endpoint} is {found.get(about.scope, 'a node that reports no cluster')}")

    def refuse(self, but: str) -> NoReturn:
        """Raises ConfigError."""
        raise ConfigError(f"{self.by} requires a node of cluster {self.cluster}, but {but}")


def required(cluster: str | None, is_found: bool) -> Required | None:
    """The cluster of a client. MUTUA_CLUSTER is obeyed where the environment finds the node."""
    given = None if cluster is None else Required(text(cluster, "cluster"), "the client")
    name = os.environ.get("MUTUA_CLUSTER") if is_found else None
    if not name:
        return given
    variable = Required(name, "MUTUA_CLUSTER")
    if given is not None and given.cluster != name:
        variable.refuse(f"the client requires one of {given.cluster}")
    return variable


@dataclass(frozen=True)
class Found:
    """An endpoint of this host."""

    endpoint: str
    #: What is wrong with the configuration: no node can be started with it.
    fault: str | None = None


def default(wanted: Required | None) -> Found:
    """The endpoint that `mutua lock` uses: MUTUA_SOCKET, the configured node, or the user's own."""
    socket = os.environ.get("MUTUA_SOCKET")
    if socket:
        return Found(f"unix:{Path(socket).absolute()}")
    named = os.environ.get("MUTUA_CONFIG")
    config = Path(named) if named else _SYSTEM_CONFIG
    if named or config.exists():
        return _configured(config)
    if wanted is not None:
        wanted.refuse("no configuration was found, and this user's node is local")
    if _NOTICE.exists() and _NOTICE.stat().st_uid in (0, os.geteuid()):
        raise ConfigError(
            f"this host runs a {_NOTICE.read_text().strip()}: a local lock would not exclude its"
            " clients; name the node's endpoint, or set MUTUA_SOCKET"
        )
    return Found(f"unix:{_own_directory()}/locks.sock")


def _configured(config: Path) -> Found:
    try:
        values = tomllib.loads(config.read_text())
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read the configuration {config}: {error}") from error
    data = values.get("data") or f"{config.stem}-{values.get('node', '')}.data"
    socket = values.get("socket") or f"{data}/locks.sock"
    return Found(f"unix:{config.absolute().parent / str(socket)}", _fault(config, values))


def _fault(config: Path, values: dict[str, Any]) -> str | None:
    unknown = next((key for key in values if key not in KEYS), None)
    if unknown is None:
        return None
    near = difflib.get_close_matches(unknown, KEYS, 1)
    hint = f": is it `{near[0]}`?" if near else ""
    return f"the configuration {config} has the unknown key `{unknown}`{hint}"


def _own_directory() -> str:
    """The directory of this user's node. Any user can create one of this name first."""
    directory = f"/tmp/mutua-{os.geteuid()}"
    try:
        found = os.lstat(directory)
    except OSError:
        raise UnreachableError(f"no node runs at unix:{directory}/locks.sock: {_START}") from None
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


def connect(endpoint: str, limit: float, wanted: Required | None) -> grpc.Channel:
    """A connection to a node of the required cluster; nothing else was requested yet.

    Raises UnreachableError or ConfigError.
    """
    opened = channel(endpoint)
    try:
        # This call fails with the cause as soon as the connection does.
        about = opened.unary_unary(
            "/mutua.v1.Locks/About",
            request_serializer=pb.AboutRequest.SerializeToString,
            response_deserializer=pb.AboutResponse.FromString,
        )
        reply = about(pb.AboutRequest(), timeout=limit)
        if wanted is not None:
            wanted.check(endpoint, reply)
    except grpc.RpcError as error:
        opened.close()
        raise _refused(endpoint, error) from error
    except BaseException:
        opened.close()
        raise
    return opened


def _refused(endpoint: str, error: grpc.RpcError) -> Error:
    if error.code() is grpc.StatusCode.UNIMPLEMENTED:
        return ConfigError(f"{endpoint} is not a node of Mutua")
    if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        return UnreachableError(f"{endpoint} does not answer")
    details = str(error.details())
    # What precedes the cause are gRPC's words for any failure.
    cause = re.sub("^[A-Z_]+: ", "", details.rpartition("last error: ")[2])
    scheme, _, address = endpoint.partition("://")
    why = None
    if endpoint.startswith("unix:"):
        missing = next((one for one in _MISSING if one in details), None)
        if missing is not None:
            return UnreachableError(f"no node runs at {endpoint} ({missing}): {_START}")
    elif scheme == "https" and any(words in details for words in _INSECURE):
        why = _diagnosis.why_not_secure(address, _context()[0])
    elif scheme == "http" and any(words in details for words in _CLOSED):
        why = _diagnosis.why_closed(address)
    return UnreachableError(f"{endpoint}: {why or cause}")


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
    return grpc.ssl_channel_credentials(*_context()[1])


def _context() -> tuple[ssl.SSLContext, list[bytes]]:
    """What the files of a client hold: CA, key and certificate. They are read each time, so that renewed certificates
    are used, and checked here, as gRPC does not say what is wrong with them.
    """
    contents, paths = [], []
    for variable in ("MUTUA_CA", "MUTUA_KEY", "MUTUA_CERT"):
        path = os.environ.get(variable)
        if not path:
            raise ConfigError(f"https endpoints need {variable}, the path of a PEM file")
        try:
            content = Path(path).read_bytes()
        except OSError as error:
            raise ConfigError(f"{variable}: {error}") from error
        what = "PRIVATE KEY" if variable == "MUTUA_KEY" else "CERTIFICATE"
        if what.encode() not in content:
            raise ConfigError(f"{variable}: {path} holds no {what.lower()} in PEM")
        contents.append(content)
        paths.append(path)
    ca, key, certificate = paths
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Whether keys are long enough is for gRPC and the node to decide.
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    try:
        context.load_verify_locations(ca)
        # Without a password it would ask for one at the terminal.
        context.load_cert_chain(certificate, key, password="")
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            why = f"the key {key} (MUTUA_KEY) is not that of the certificate {certificate} (MUTUA_CERT)"
        else:
            why = f"MUTUA_CA, MUTUA_KEY or MUTUA_CERT cannot be used: {error.reason or error}"
        raise ConfigError(why) from error
    return context, contents
