"""HTTPS errors: what went wrong on the way to a server and back, as Go's ``net/http`` words it."""

from __future__ import annotations

import errno
import os
import re
import socket
import ssl

import aiohttp

from pratique.https.service_resolvers import UnresolvedError
from pratique.https.tls_contexts import CertificateRefusedError, NotTlsError

_ALERT = re.compile(r"ALERT_(?P<name>[A-Z_]+)\]")
_ALERTS = {
    "BAD_CERTIFICATE": "bad certificate",
    "CERTIFICATE_EXPIRED": "expired certificate",
    "CERTIFICATE_REQUIRED": "certificate required",
    "CERTIFICATE_REVOKED": "revoked certificate",
    "CERTIFICATE_UNKNOWN": "unknown certificate",
    "DECODE_ERROR": "error decoding message",
    "DECRYPT_ERROR": "error decrypting message",
    "UNKNOWN_CA": "unknown certificate authority",
    "PROTOCOL_VERSION": "protocol version not supported",
    "INSUFFICIENT_SECURITY": "insufficient security level",
    "NO_APPLICATION_PROTOCOL": "no application protocol",
}
"""What Go calls TLS alerts, where it is more than the name in small letters (``crypto/tls/alert.go``)."""

_NO_SUCH_HOST = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})
_ENDED = frozenset({None, errno.EPIPE})
"""Errors of connections that ended before they were answered. asyncio has no number for the ordinary end."""


def network_error(error: Exception, host: str, address: str) -> str:
    """Word an error that came instead of a response.

    ``host`` is the URL's; ``address`` is where the connection went or was to go, ``host:port``.
    """
    match error:
        case aiohttp.ClientConnectorDNSError():
            text = _lookup_error(error.os_error, host)
        case aiohttp.ClientConnectorCertificateError():
            text = _tls_error(error.certificate_error)
        case aiohttp.ClientConnectorError():
            text = _connect_error(error.os_error, address)
        case aiohttp.ServerDisconnectedError():
            text = "EOF"
        case aiohttp.ClientOSError():
            text = _read_error(error, address)
        case _:
            text = "net/http: HTTP/1.x transport connection broken: malformed HTTP response"
    return text


def is_reset(error: Exception) -> bool:
    """Tell whether the other side reset the connection: ``IsConnectionReset`` of ``k8s.io/apimachinery``."""
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    return isinstance(cause, OSError) and cause.errno == errno.ECONNRESET


def body_error(error: Exception) -> str:
    """Word an error that came in the middle of a response's body."""
    match error:
        case aiohttp.ClientPayloadError() if "Content-Encoding" in str(error) or "decode" in str(error):
            return "gzip: invalid header"
        case _:
            return "unexpected EOF"


def _lookup_error(error: OSError, host: str) -> str:
    if isinstance(error, socket.gaierror):
        known = error.errno in _NO_SUCH_HOST
        return f"dial tcp: lookup {host}: {'no such host' if known else 'server misbehaving'}"
    cause = error.__cause__
    return str(cause) if isinstance(cause, UnresolvedError) else f"dial tcp: lookup {host}: {_text(error)}"


def _connect_error(error: OSError, address: str) -> str:
    if isinstance(error, ssl.SSLError):
        return _tls_error(error)
    if isinstance(error, ConnectionResetError):
        return "EOF" if error.errno in _ENDED else _reset(address)
    return f"dial tcp {address}: connect: {_text(error)}"


def _read_error(error: OSError, address: str) -> str:
    alert = _ALERT.search(str(error))
    if alert is not None:
        return _alert(alert["name"])
    if error.errno in _ENDED:
        return "EOF"
    return _reset(address) if error.errno == errno.ECONNRESET else f"read tcp {address}: read: {_text(error)}"


def _reset(address: str) -> str:
    return f"read tcp {address}: read: connection reset by peer"


def _tls_error(error: Exception) -> str:
    if isinstance(error, CertificateRefusedError | NotTlsError):
        return str(error)
    alert = _ALERT.search(str(error))
    if alert is not None:
        return _alert(alert["name"])
    reason = error.reason if isinstance(error, ssl.SSLError) else ""
    if isinstance(error, ssl.SSLEOFError) or reason == "UNEXPECTED_EOF_WHILE_READING":
        return "EOF"
    return f"tls: {(reason or 'handshake failure').lower().replace('_', ' ')}"


def _alert(name: str) -> str:
    return f"remote error: tls: {_ALERTS.get(name) or name.lower().replace('_', ' ')}"


def _text(error: OSError) -> str:
    # Resolvers have errors of their own, which are negative.
    return os.strerror(error.errno).lower() if error.errno and error.errno > 0 else "connection refused"
