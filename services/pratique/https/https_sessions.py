"""HTTPS sessions: connections to servers, kept open between calls. Only this file opens any."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import io
import ipaddress
import socket
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import aiohttp
import aiohttp.abc
import multidict
import yarl

from pratique.errors import BadAnswerError, CallTimeoutError, ResetError, UnreachableError
from pratique.https.failed_posts import failed_post
from pratique.https.http_answers import HttpAnswer
from pratique.https.https_errors import body_error, is_reset, network_error
from pratique.https.service_resolvers import UnresolvedError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable

    from pratique.calls import Deadline
    from pratique.https.service_resolvers import Resolve

BODY_LIMIT = 16 * 1024 * 1024
"""Bytes of an answer, decompressed: twice what a legal patch of a legal object takes, Base64 included."""

_IDLE_SECONDS = 90.0
"""How long an idle connection is kept: Go's ``http.DefaultTransport``."""

_HEADER_LIMIT = 1024 * 1024
"""Bytes of one header of an answer. Go takes ten times as many for all together."""

_SMALL_BODY = 512 * 1024
"""Bytes that are written at once; aiohttp warns of more than 1 MiB."""

_EXCEEDED = "context deadline exceeded"
_BROKEN_OFF = "unexpected error when reading response body. Please retry. Original error: "

_dialed: contextvars.ContextVar[list[str]] = contextvars.ContextVar("dialed")
"""The addresses that the call at hand has tried to connect to."""


class Session:
    """Connections that share one TLS context."""

    def __init__(self, context: ssl.SSLContext, resolve: Resolve | None, server_name: str = "") -> None:
        """Open no connection yet.

        ``resolve`` finds addresses; None leaves names to DNS. ``server_name`` is what a server's certificate must
        bear; empty means the URL's host.
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
        )

    async def send(
        self, method: str, url: str, headers: Iterable[tuple[str, str]], body: bytes, deadline: Deadline
    ) -> HttpAnswer:
        """Send one request and read its answer.

        Raises:
            CallTimeoutError: the deadline came first.
            UnreachableError: no answer came.
            BadAnswerError: the answer broke off, or is too large.
        """
        try:
            # A connection that is at hand would be written to before any timeout is noticed.
            if deadline.passed:
                raise TimeoutError  # noqa: TRY301  # told below, like one that comes later
            async with asyncio.timeout(deadline.remaining_seconds):
                response = await self._start(method, url, headers, body)
        except TimeoutError:
            raise CallTimeoutError(failed_post(url, _EXCEEDED)) from None
        async with response:
            try:
                async with asyncio.timeout(deadline.remaining_seconds):
                    return await _read(response)
            except TimeoutError:
                raise CallTimeoutError(f"{_BROKEN_OFF}{_EXCEEDED}") from None

    async def _start(
        self, method: str, url: str, headers: Iterable[tuple[str, str]], body: bytes
    ) -> aiohttp.ClientResponse:
        target = _target(url)
        dialed: list[str] = []
        _dialed.set(dialed)
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
            address = dialed[0] if dialed else target.authority
            reason = network_error(error, target.host or "", address)
            raise (ResetError if is_reset(error) else UnreachableError)(failed_post(url, reason)) from None

    async def close(self) -> None:
        """Close all connections, at once: peers that are slow to say goodbye are not waited for."""
        await self._connector.close(abort_ssl=True)
        await self._session.close()


def _target(url: str) -> yarl.URL:
    target = yarl.URL(url, encoded=True)
    # The port is looked at only when it is asked for.
    with contextlib.suppress(ValueError):
        if target.port is not None:
            return target
    port = urlsplit(url).netloc.rpartition(":")[2]
    raise UnreachableError(failed_post(url, f"dial tcp: address {port}: invalid port"))


def _payload(body: bytes) -> bytes | io.BytesIO | None:
    return (body if len(body) <= _SMALL_BODY else io.BytesIO(body)) if body else None


async def _read(response: aiohttp.ClientResponse) -> HttpAnswer:
    content = bytearray()
    try:
        async for chunk in response.content.iter_any():
            content += chunk
            if len(content) > BODY_LIMIT:
                raise BadAnswerError(f"response body is larger than {BODY_LIMIT} bytes")
    except aiohttp.ClientError as error:
        raise BadAnswerError(f"{_BROKEN_OFF}{body_error(error)}") from None
    headers = response.headers
    return HttpAnswer(
        status=response.status,
        body=bytes(content),
        content_type=headers.get("Content-Type", ""),
        retry_after=headers.get("Retry-After", ""),
        location=headers.get("Location", ""),
    )


def _open_socket(address_info: tuple[Any, ...]) -> socket.socket:
    family, kind, protocol, _, address = address_info
    host = f"[{address[0]}]" if family == socket.AF_INET6 else address[0]
    _dialed.get([]).append(f"{host}:{address[1]}")
    return socket.socket(family, kind, protocol)


class _Resolver(aiohttp.abc.AbstractResolver):
    """Asks the seam first, DNS then. Addresses are not remembered, so that services may move."""

    def __init__(self, resolve: Resolve | None) -> None:
        self._resolve = resolve

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[aiohttp.abc.ResolveResult]:
        try:
            found, found_port = self._resolve(host, port) if self._resolve else (host, port)
        except UnresolvedError as error:
            raise OSError(None, str(error)) from error
        if _is_address(found):
            return [_result(host, found, found_port)]
        loop = asyncio.get_running_loop()
        try:
            infos = await loop.getaddrinfo(found, found_port, family=family, type=socket.SOCK_STREAM)
        except UnicodeError:
            # A label that is empty or too long, which no server needs to be asked about.
            raise socket.gaierror(socket.EAI_NONAME, "no such host") from None
        return [_result(host, str(info[4][0]), found_port) for info in infos]

    async def close(self) -> None:
        """Hold nothing."""


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _result(hostname: str, address: str, port: int) -> aiohttp.abc.ResolveResult:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return aiohttp.abc.ResolveResult(
        hostname=hostname,
        host=address,
        port=port,
        family=family,
        proto=socket.IPPROTO_TCP,
        flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
    )
