"""Authenticates callers by certificate, bearer token, or user and password."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import functools
import hashlib
import hmac
import re
import ssl
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from pratique.apimachinery import statuses
from pratique.apimachinery.errors import PartlyUsableError
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.statuses import Status
from pratique.https.tls import ClientCertificateAuthenticator, ReloadedCertificate, TlsClient, client_chain
from pratique_frontdoor.http.messages import status_reply


@dataclasses.dataclass(frozen=True, slots=True)
class SecretDigests:
    """The SHA-256 digests of the secrets of one file. The secrets themselves are not kept.

    The duration of a comparison reveals nothing about how much of a guess is right: all digests have the same length,
    different secrets have unrelated digests, and each comparison runs to its end.
    """

    held: tuple[bytes, ...] = dataclasses.field(repr=False)

    @classmethod
    def of(cls, secrets: Iterable[bytes]) -> SecretDigests:
        """Return the digests of secrets."""
        return cls(tuple(_digest(secret) for secret in secrets))

    def match(self, presented: bytes) -> bool:
        """Return whether a presented value is one of the secrets."""
        digest = _digest(presented)
        found = False
        for held in self.held:
            found |= hmac.compare_digest(held, digest)
        return found


def _digest(secret: bytes) -> bytes:
    return hashlib.sha256(secret).digest()


_TOKEN = pattern(rb"[A-Za-z0-9._~+/-]+=*")
"""``b64token`` of RFC 6750: what can follow ``Bearer`` in a header."""
_LOGIN = pattern(rb"[^:\x00-\x1f\x7f]+:[^\x00-\x1f\x7f]+")
"""``user-pass`` of RFC 7617: no control characters, and no colon in the user. The password is not empty."""


def read_tokens(file: Path) -> SecretDigests:
    """Read bearer tokens.

    Raises:
        PartlyUsableError: the file cannot be read, has no token, or has an invalid line; the error has the tokens of
            the valid lines. A file that is missing, empty or unreadable has none, and accepts nobody.
    """
    return _read_secrets(
        file, "--token-file", _TOKEN, "a bearer token: letters, digits and . _ ~ + / - alone"
    )


def read_logins(file: Path) -> SecretDigests:
    """Read users and passwords.

    Raises:
        PartlyUsableError: as :func:`read_tokens`, with users.
    """
    return _read_secrets(file, "--basic-auth-file", _LOGIN, "user:password")


def _read_secrets(file: Path, flag: str, pattern: re.Pattern[bytes], expected: str) -> SecretDigests:
    try:
        content = file.read_bytes()
    except OSError as error:
        raise PartlyUsableError(f"{flag} {file}: {error.strerror}", SecretDigests(())) from None
    lines = [line.rstrip(b"\r") for line in content.split(b"\n")]
    bad = [number for number, line in enumerate(lines, 1) if line and not pattern.fullmatch(line)]
    secrets = SecretDigests.of(line for line in lines if pattern.fullmatch(line))
    if bad:
        raise PartlyUsableError(f"{flag} {file}: line {bad[0]}: expected {expected}", secrets)
    if not secrets.held:
        problem = f"is empty, so no caller could be accepted; expected {expected}, one per line"
        raise PartlyUsableError(f"{flag} {file}: {problem}", secrets)
    return secrets


class Peer:
    """The client of one TLS connection. Its certificates are read on first use, and only once."""

    def __init__(self, connection: ssl.SSLObject) -> None:
        """Use a connection whose handshake is complete."""
        self._connection = connection

    @functools.cached_property
    def chain(self) -> tuple[bytes, ...]:
        """The client's certificate and the intermediate ones, in DER; empty without one."""
        return client_chain(self._connection)


UNAUTHORIZED = statuses.failure(401, "Unauthorized", "Unauthorized")


class Callers(msgspec.Struct, frozen=True):
    """The configured credentials; None for those that are not configured."""

    certificates: ClientCertificateAuthenticator | None = None
    tokens: ReloadedCertificate[SecretDigests] | None = None
    logins: ReloadedCertificate[SecretDigests] | None = None

    def knows(self, peer: Peer) -> bool:
        """Return whether the certificate of a client is enough to accept it."""
        client = self._client(peer)
        return client is not None and client.is_allowed

    def identify(self, scope: Scope) -> str | Status:
        """Return the name of the caller of a request, or the Status of the refusal."""
        client = self._client(scope["state"].get("peer"))
        if client is not None and client.is_allowed:
            return f"certificate {client.name}"
        caller = self._caller(scope)
        if caller is not None:
            return caller
        if client is None:
            return UNAUTHORIZED
        verb, path = scope["method"].lower(), scope["path"]
        who = f"User {statuses.go_quoted(client.name)} cannot {verb} path {statuses.go_quoted(path)}"
        return statuses.failure(403, "Forbidden", f"forbidden: {who}")

    def _client(self, peer: Peer | None) -> TlsClient | None:
        if self.certificates is None or peer is None or not peer.chain:
            return None
        return self.certificates.authenticate(peer.chain)

    def _caller(self, scope: Scope) -> str | None:
        """Return the caller of a token or a password; a token is named by its digest, which reveals nothing of it."""
        given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        scheme, _, credentials = given.strip().partition(b" ")
        credentials = credentials.strip()
        match scheme.lower():
            case b"bearer" if self.tokens is not None:
                is_right = self.tokens.value.match(credentials)
                return f"token {hashlib.sha256(credentials).hexdigest()}" if is_right else None
            case b"basic" if self.logins is not None:
                login = _decode_login(credentials)
                is_right = self.logins.value.match(login)
                return f"user {login.partition(b':')[0].decode('latin-1')}" if is_right else None
            case _:
                return None


def _decode_login(credentials: bytes) -> bytes:
    try:
        return base64.b64decode(credentials, validate=True)
    except binascii.Error:
        return b""


PUBLIC_PATHS = frozenset({"/livez", "/readyz", "/healthz", "/version"})
"""Paths that need no credentials, as with kube-apiserver (``system:public-info-viewer``): a kubelet that probes has
none."""


_PAGES_FOR_BROWSERS = "/console"


class RequestCounter(Protocol):
    """What counts requests."""

    def count_request(self, path: str, code: int) -> None:
        """Count an HTTP request by its path and the code of its response."""


class AuthenticationMiddleware(msgspec.Struct, frozen=True):
    """ASGI middleware that passes on authenticated requests only."""

    app: ASGIApp
    callers: Callers
    metrics: RequestCounter
    known_paths: frozenset[str]
    """Paths that metrics may name."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        path, mark_authenticated = scope["path"], scope["state"].pop("mark_authenticated", None)
        if path in PUBLIC_PATHS:
            await self.app(scope, receive, send)
            return
        caller = self.callers.identify(scope)
        if isinstance(caller, str):
            scope["state"]["caller"] = caller
            if (
                mark_authenticated is not None
            ):  # only on the first request, and never after a client certificate
                mark_authenticated()
            await self.app(scope, receive, send)
            return
        await status_reply(caller, self._challenge(path)).send(send)
        self.metrics.count_request(path if path in self.known_paths else "other", caller.code)

    def _challenge(self, path: str) -> tuple[tuple[bytes, bytes], ...]:
        """Return the header that makes browsers ask for a user and a password, for pages that browsers show."""
        if self.callers.logins is None or not path.startswith(_PAGES_FOR_BROWSERS):
            return ()
        return ((b"www-authenticate", b'Basic realm="Pratique", charset="UTF-8"'),)
