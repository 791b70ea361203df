"""Callers: who may call. Any one of the ways that are configured lets a caller in.

Sources: ``k8s.io/apiserver/pkg/authentication/request/{union,x509,bearertoken}`` and
``k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/errors.go``.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import hashlib
from typing import TYPE_CHECKING

from pratique import statuses

if TYPE_CHECKING:
    from starlette.types import Scope

    from frontdoor.authentication.digests import Digests
    from frontdoor.authentication.peers import Peer
    from pratique.statuses import Status
    from pratique.tls.clients import Client, ClientCertificates
    from pratique.tls.kept import Kept

UNAUTHORIZED = statuses.failure(401, "Unauthorized", "Unauthorized")


@dataclasses.dataclass(frozen=True, slots=True)
class Callers:
    """The ways in; None for those that there are not."""

    certificates: ClientCertificates | None = None
    tokens: Kept[Digests] | None = None
    logins: Kept[Digests] | None = None

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

    def _client(self, peer: Peer | None) -> Client | None:
        if self.certificates is None or peer is None or not peer.chain:
            return None
        return self.certificates.client(peer.chain)

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
                login = _decoded(credentials)
                is_right = self.logins.value.match(login)
                return f"user {login.partition(b':')[0].decode('latin-1')}" if is_right else None
            case _:
                return None


def _decoded(credentials: bytes) -> bytes:
    try:
        return base64.b64decode(credentials, validate=True)
    except binascii.Error:
        return b""
