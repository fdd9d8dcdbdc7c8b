"""Why a connection fails, where gRPC's words do not say it: the endpoint is asked in other ways."""

from __future__ import annotations

import socket
import ssl

#: How long each question may take, in seconds.
_LIMIT = 1.0
_MEMBER = (
    "a member's address is not for clients: use its socket or the address of `--listen`, with https:// if the node has"
    " certificates"
)
#: The codes of OpenSSL for a certificate that is for another host name or IP address.
_OTHER_HOST = (62, 64)


def why_closed(address: str) -> str | None:
    """Why what serves the address does not serve a client without TLS."""
    try:
        connection = _connection(address)
    except OSError:
        # It has ended since.
        return None
    if _ask_http(connection).startswith(b"HTTP/"):
        return "it is not a node of Mutua, but another HTTP service"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with _handshake(address, context) as stream:
            if stream.selected_alpn_protocol() == "h2":
                return "it serves TLS: use https://, with MUTUA_CA, MUTUA_CERT and MUTUA_KEY"
    except OSError:
        pass
    return f"the connection is closed at once: {_MEMBER}"


def why_not_secure(address: str, context: ssl.SSLContext) -> str | None:
    """Why what serves the address does not serve a client with TLS."""
    try:
        with _handshake(address, context) as stream:
            if stream.selected_alpn_protocol() != "h2":
                return f"it serves TLS for something else: {_MEMBER}"
            # The server checks the client's certificate after the handshake.
            stream.recv(1)
    except ssl.SSLCertVerificationError as error:
        if error.verify_code in _OTHER_HOST:
            return f"the node's certificate is for another host ({error.verify_message})"
        return f"the node's certificate is not of the CA that MUTUA_CA names ({error.verify_message})"
    except ssl.SSLError as error:
        reason = error.reason or ""
        if "ALERT" in reason:
            why = reason.partition("ALERT_")[2].lower().replace("_", " ")
            return (
                f"the node refuses the certificate that MUTUA_CERT names ({why}): is it of the node's CA, and still"
                " valid?"
            )
        if reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL"):
            return "it does not serve TLS: if it is a node without certificates, use http://"
    except OSError:
        pass
    return None


def _handshake(address: str, context: ssl.SSLContext) -> ssl.SSLSocket:
    context.set_alpn_protocols(["h2"])
    connection = _connection(address)
    try:
        return context.wrap_socket(connection, server_hostname=_split(address)[0])
    except BaseException:
        connection.close()
        raise


def _ask_http(connection: socket.socket) -> bytes:
    try:
        with connection:
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return connection.recv(16)
    except OSError:
        return b""


def _connection(address: str) -> socket.socket:
    return socket.create_connection(_split(address), _LIMIT)


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)
