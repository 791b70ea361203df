"""Who calls the front door: by certificate, bearer token, or user and password."""

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
from typing import TYPE_CHECKING, Any

from pratique.apimachinery import statuses
from pratique.apimachinery.errors import PartlyUsableError
from pratique.apimachinery.statuses import Status
from pratique.https.tls import ClientCertificateAuthenticator, ReloadedCertificate, TlsClient
from pratique_frontdoor.http.messages import status_reply
from pratique_frontdoor.http.metrics import Metrics

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send


@dataclasses.dataclass(frozen=True, slots=True)
class SecretDigests:
    """The SHA-256 digests of the secrets of one file. The secrets themselves are not kept.

    How long a comparison takes tells nothing of how much of a guess is right: digests that differ at all differ
    everywhere, all have the same length, and each one is looked at to its end.
    """

    held: tuple[bytes, ...] = dataclasses.field(repr=False)

    @classmethod
    def of(cls, secrets: Iterable[bytes]) -> SecretDigests:
        """Digest secrets."""
        return cls(tuple(_digest(secret) for secret in secrets))

    def match(self, presented: bytes) -> bool:
        """Tell whether what somebody has presented is one of the secrets."""
        digest = _digest(presented)
        found = False
        for held in self.held:
            found |= hmac.compare_digest(held, digest)
        return found


def _digest(secret: bytes) -> bytes:
    return hashlib.sha256(secret).digest()


_TOKEN = re.compile(rb"[A-Za-z0-9._~+/-]+=*")
"""``b64token`` of RFC 6750: what can stand behind ``Bearer`` in a header."""
_LOGIN = re.compile(rb"[^:\x00-\x1f\x7f]+:[^\x00-\x1f\x7f]+")
"""``user-pass`` of RFC 7617: no control characters, and no colon in the user. An empty password is none."""


def read_tokens(file: Path) -> SecretDigests:
    """Read bearer tokens.

    Raises:
        PartlyUsableError: the file cannot be read, holds no token, or a line that is none; brings the tokens of the
            other lines. A file that is gone, empty or unreadable has none, and lets nobody in.
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
        problem = f"is empty: nobody could call; expected {expected}, one a line"
        raise PartlyUsableError(f"{flag} {file}: {problem}", secrets)
    return secrets


_DER = 2
"""``_ssl.ENCODING_DER``."""


class Peer:
    """The other side of one connection. It is looked at when somebody asks, and only once."""

    def __init__(self, connection: ssl.SSLObject) -> None:
        """The handshake is over."""
        self._connection = connection

    @functools.cached_property
    def chain(self) -> tuple[bytes, ...]:
        """Its certificate and those that lead from it to an authority, in DER; empty where it has shown none."""
        own = self._connection.getpeercert(binary_form=True)
        if own is None:
            return ()
        return (own, *(one for one in _certificate_chain(self._connection) if one != own))


def _certificate_chain(connection: Any) -> list[bytes]:
    """All that was shown. Python's own method for it comes with 3.13; before, there is what lies beneath it."""
    if hasattr(connection, "get_unverified_chain"):
        return list(connection.get_unverified_chain())
    chain: list[Any] = getattr(getattr(connection, "_sslobj", None), "get_unverified_chain", list)()
    return [one.public_bytes(_DER) for one in chain or ()]


UNAUTHORIZED = statuses.failure(401, "Unauthorized", "Unauthorized")


@dataclasses.dataclass(frozen=True, slots=True)
class Callers:
    """The ways in; None for those that there are not."""

    certificates: ClientCertificateAuthenticator | None = None
    tokens: ReloadedCertificate[SecretDigests] | None = None
    logins: ReloadedCertificate[SecretDigests] | None = None

    def knows(self, peer: Peer) -> bool:
        """Whether its certificate alone lets the other side of a connection in."""
        client = self._client(peer)
        return client is not None and client.is_allowed

    def identify(self, scope: Scope) -> str | Status:
        """Name the caller that a request is from, or say why it is not let in."""
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
        """Who has a token or a password; a token is named by its digest, of which nothing follows."""
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
"""What everybody may see, as with kube-apiserver (``system:public-info-viewer``): a kubelet that probes shows nothing
by which it could be known."""


@dataclasses.dataclass(frozen=True, slots=True)
class AuthenticationMiddleware:
    """An ASGI application before another one."""

    app: ASGIApp
    callers: Callers
    metrics: Metrics
    known_paths: frozenset[str]
    """Those that may be named in metrics."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        path, let_in = scope["path"], scope["state"].pop("let_in", None)
        if path in PUBLIC_PATHS:
            await self.app(scope, receive, send)
            return
        caller = self.callers.identify(scope)
        if isinstance(caller, str):
            scope["state"]["caller"] = caller
            if (
                let_in is not None
            ):  # which it is with the first request alone, and with none after a certificate
                let_in()
            await self.app(scope, receive, send)
            return
        await status_reply(caller).send(send)
        self.metrics.count_request(path if path in self.known_paths else "other", caller.code)
