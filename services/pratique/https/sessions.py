"""HTTPS sessions: connections to servers that stay open between calls. Only this module uses the HTTP library."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import errno
import io
import ipaddress
import os
import socket
import ssl
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import aiohttp.abc
import multidict
import yarl
from aiohttp.connector import Connection

from pratique.admission.reviews import Deadline
from pratique.apimachinery.errors import BadAnswerError, CallTimeoutError, ResetError, UnreachableError
from pratique.apimachinery.patterns import pattern
from pratique.https.requests import HttpResponse, post_error
from pratique.https.service_resolvers import ServiceResolver, UnresolvedError
from pratique.https.tls_contexts import CertificateRefusedError, NotTlsError

_ALERT = pattern(r"ALERT_(?P<name>[A-Z_]+)\]")
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
"""Go's texts for TLS alerts, if they are not just the name in lower case (``crypto/tls/alert.go``)."""

_BROKEN = "net/http: HTTP/1.x transport connection broken"
_MAX_INFORMATIONAL = 5
"""Informational responses before a response: ``max1xxResponses`` of ``net/http/transport.go``."""


class _TooManyInformationalError(aiohttp.ClientError):
    """A server sends one informational response after another."""


class _LimitedResponse(aiohttp.ClientResponse):
    """A response that few informational ones precede. The library reads on, however many come."""

    async def start(self, connection: Connection) -> aiohttp.ClientResponse:
        protocol: Any = connection.protocol
        read, left = protocol.read, _MAX_INFORMATIONAL

        async def read_limited() -> Any:
            nonlocal left
            received = await read()
            code = received[0].code
            if 100 <= code < 200 and code != _SWITCHING_PROTOCOLS:
                left -= 1
            if left < 0:
                raise _TooManyInformationalError
            return received

        protocol.read = read_limited
        try:
            return await super().start(connection)
        finally:
            del protocol.read


_SWITCHING_PROTOCOLS = 101  # which no other response follows

_NO_SUCH_HOST = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})
_END_OF_CONNECTION = frozenset({None, errno.EPIPE})
"""The error numbers of connections that ended before a response. asyncio has none for an orderly end."""


def network_error(error: Exception, host: str, address: str) -> str:
    """Word the error of a request without response, as Go does.

    ``host`` is the URL's; ``address`` is the peer's, as ``host:port``.
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
        case _TooManyInformationalError():
            text = f"{_BROKEN}: net/http: too many 1xx informational responses"
        case aiohttp.ClientOSError():
            text = _read_error(error, address)
        case _:
            text = f"{_BROKEN}: malformed HTTP response"
    return text


def is_reset(error: Exception) -> bool:
    """Whether the peer reset the connection: ``IsConnectionReset`` of ``k8s.io/apimachinery``."""
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    return isinstance(cause, OSError) and cause.errno == errno.ECONNRESET


def body_error(error: Exception) -> str:
    """Word an error within a response's body, as Go does."""
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
    return (
        str(cause)
        if isinstance(cause, UnresolvedError)
        else f"dial tcp: lookup {host}: {_os_error_text(error)}"
    )


def _connect_error(error: OSError, address: str) -> str:
    if isinstance(error, ssl.SSLError):
        return _tls_error(error)
    if isinstance(error, ConnectionResetError):
        return "EOF" if error.errno in _END_OF_CONNECTION else _reset_text(address)
    return f"dial tcp {address}: connect: {_os_error_text(error)}"


def _read_error(error: OSError, address: str) -> str:
    alert = _ALERT.search(str(error))
    if alert is not None:
        return _alert_text(alert["name"])
    if error.errno in _END_OF_CONNECTION:
        return "EOF"
    return (
        _reset_text(address)
        if error.errno == errno.ECONNRESET
        else f"read tcp {address}: read: {_os_error_text(error)}"
    )


def _reset_text(address: str) -> str:
    return f"read tcp {address}: read: connection reset by peer"


def _tls_error(error: Exception) -> str:
    if isinstance(error, CertificateRefusedError | NotTlsError):
        return str(error)
    alert = _ALERT.search(str(error))
    if alert is not None:
        return _alert_text(alert["name"])
    reason = error.reason if isinstance(error, ssl.SSLError) else ""
    if isinstance(error, ssl.SSLEOFError) or reason == "UNEXPECTED_EOF_WHILE_READING":
        return "EOF"
    return f"tls: {(reason or 'handshake failure').lower().replace('_', ' ')}"


def _alert_text(name: str) -> str:
    return f"remote error: tls: {_ALERTS.get(name) or name.lower().replace('_', ' ')}"


def _os_error_text(error: OSError) -> str:
    # Resolvers have their own error numbers, which are negative.
    return os.strerror(error.errno).lower() if error.errno and error.errno > 0 else "connection refused"


BODY_LIMIT = 16 * 1024 * 1024
"""The most bytes of a decompressed response: twice what the largest patch of the largest object takes in Base64."""

_IDLE_SECONDS = 90.0
"""How long an idle connection stays open: Go's ``http.DefaultTransport``."""

_HEADER_LIMIT = 1024 * 1024
"""The most bytes of one response header. Go accepts ten times as many for all headers together."""

_SMALL_BODY = 512 * 1024
"""The largest body that is written at once; aiohttp warns above 1 MiB."""

_DEADLINE_EXCEEDED = "context deadline exceeded"
_READ_ERROR_PREFIX = "unexpected error when reading response body. Please retry. Original error: "

_attempted_addresses: contextvars.ContextVar[list[str]] = contextvars.ContextVar("attempted")
"""The addresses that the current call has tried to connect to."""


class HttpsSession:
    """Connections that share one TLS context."""

    def __init__(
        self, context: ssl.SSLContext, resolve: ServiceResolver | None, server_name: str = ""
    ) -> None:
        """Open no connection yet.

        ``resolve`` finds addresses; None leaves names to DNS. ``server_name`` is the name that a server's certificate
        must have; empty means the URL's host.
        """
        self._server_name = server_name or None
        self._connector = aiohttp.TCPConnector(
            ssl=context,
            limit=0,
            resolver=_Resolver(resolve),
            use_dns_cache=False,
            keepalive_timeout=_IDLE_SECONDS,
            socket_factory=_open_socket,
        )
        self._session = aiohttp.ClientSession(
            connector=self._connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
            max_line_size=_HEADER_LIMIT,
            max_field_size=_HEADER_LIMIT,
            response_class=_LimitedResponse,
        )

    async def send(
        self,
        method: str,
        url: str,
        headers: Iterable[tuple[str, str]],
        body: bytes,
        deadline: Deadline,
        *,
        body_limit: int = BODY_LIMIT,
    ) -> HttpResponse:
        """Send one request and read its response, of which the body may have ``body_limit`` bytes.

        Raises:
            CallTimeoutError: the deadline passed.
            UnreachableError: there was no response.
            BadAnswerError: the response was cut off, or is too large.
        """
        try:
            # An idle connection would be written to before the timeout takes effect.
            if deadline.passed:
                raise TimeoutError  # noqa: TRY301  # handled below, like a later timeout
            async with asyncio.timeout(deadline.remaining_seconds):
                response = await self._start(method, url, headers, body)
        except TimeoutError:
            raise CallTimeoutError(post_error(url, _DEADLINE_EXCEEDED)) from None
        async with response:
            try:
                async with asyncio.timeout(deadline.remaining_seconds):
                    return await _read_response(response, body_limit)
            except TimeoutError:
                raise CallTimeoutError(f"{_READ_ERROR_PREFIX}{_DEADLINE_EXCEEDED}") from None

    async def _start(
        self, method: str, url: str, headers: Iterable[tuple[str, str]], body: bytes
    ) -> aiohttp.ClientResponse:
        target = _target(url)
        attempted: list[str] = []
        _attempted_addresses.set(attempted)
        try:
            return await self._session.request(
                method,
                target,
                headers=multidict.CIMultiDict(headers),
                data=_payload(body),
                allow_redirects=False,
                server_hostname=self._server_name,
            )
        except aiohttp.ClientError as error:
            address = attempted[0] if attempted else target.authority
            reason = network_error(error, target.host or "", address)
            raise (ResetError if is_reset(error) else UnreachableError)(post_error(url, reason)) from None

    async def close(self) -> None:
        """Close all connections at once, without waiting for peers that are slow to close theirs."""
        await self._connector.close(abort_ssl=True)
        await self._session.close()


def _target(url: str) -> yarl.URL:
    target = yarl.URL(url, encoded=True)
    # yarl validates the port only on access.
    with contextlib.suppress(ValueError):
        if target.port is not None:
            return target
    port = urlsplit(url).netloc.rpartition(":")[2]
    raise UnreachableError(post_error(url, f"dial tcp: address {port}: invalid port"))


def _payload(body: bytes) -> bytes | io.BytesIO | None:
    return (body if len(body) <= _SMALL_BODY else io.BytesIO(body)) if body else None


async def _read_response(response: aiohttp.ClientResponse, limit: int) -> HttpResponse:
    content = bytearray()
    try:
        async for chunk in response.content.iter_any():
            content += chunk
            if len(content) > limit:
                raise BadAnswerError(f"response body is larger than {limit} bytes")
    except aiohttp.ClientError as error:
        raise BadAnswerError(f"{_READ_ERROR_PREFIX}{body_error(error)}") from None
    headers = response.headers
    return HttpResponse(
        status=response.status,
        body=bytes(content),
        content_type=headers.get("Content-Type", ""),
        retry_after=headers.get("Retry-After", ""),
        location=headers.get("Location", ""),
        headers=headers,
    )


def _open_socket(address_info: tuple[Any, ...]) -> socket.socket:
    family, kind, protocol, _, address = address_info
    host = f"[{address[0]}]" if family == socket.AF_INET6 else address[0]
    _attempted_addresses.get([]).append(f"{host}:{address[1]}")
    return socket.socket(family, kind, protocol)


class _Resolver(aiohttp.abc.AbstractResolver):
    """Uses the service resolver first, then DNS. Addresses are not cached, because Services may move."""

    def __init__(self, resolve: ServiceResolver | None) -> None:
        self._resolve = resolve

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[aiohttp.abc.ResolveResult]:
        try:
            found, found_port = self._resolve(host, port) if self._resolve else (host, port)
        except UnresolvedError as error:
            raise OSError(None, str(error)) from error
        if _is_address(found):
            return [_resolve_result(host, found, found_port)]
        loop = asyncio.get_running_loop()
        try:
            infos = await loop.getaddrinfo(found, found_port, family=family, type=socket.SOCK_STREAM)
        except UnicodeError:
            # A label is empty or too long, so that no DNS server can know the name.
            raise socket.gaierror(socket.EAI_NONAME, "no such host") from None
        return [_resolve_result(host, str(info[4][0]), found_port) for info in infos]

    async def close(self) -> None:
        """Hold nothing."""


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _resolve_result(hostname: str, address: str, port: int) -> aiohttp.abc.ResolveResult:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return aiohttp.abc.ResolveResult(
        hostname=hostname,
        host=address,
        port=port,
        family=family,
        proto=socket.IPPROTO_TCP,
        flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
    )
