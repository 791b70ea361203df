"""Callers: who may call. Any one of the ways that are configured lets a caller in.

Sources: ``k8s.io/apiserver/pkg/authentication/request/{union,x509,bearertoken}`` and
``k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/errors.go``.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
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

    def refusal(self, scope: Scope) -> Status | None:
        """Say why a request is not let in; None where it is, and then ``caller`` of its state says who calls.

        That is a pair: how the caller is known (``certificate``, ``token`` or ``basic``), and the name; a token has
        none.
        """
        client = self._client(scope)
        if client is not None and client.is_allowed:
            scope["state"]["caller"] = ("certificate", client.name)
            return None
        if self._is_authorized(scope):
            return None
        if client is None:
            return UNAUTHORIZED
        verb, path = scope["method"].lower(), scope["path"]
        who = f"User {statuses.go_quoted(client.name)} cannot {verb} path {statuses.go_quoted(path)}"
        return statuses.failure(403, "Forbidden", f"forbidden: {who}")

    def _client(self, scope: Scope) -> Client | None:
        peer: Peer | None = scope["state"].get("peer")
        if self.certificates is None or peer is None or not peer.chain:
            return None
        return self.certificates.client(peer.chain)

    def _is_authorized(self, scope: Scope) -> bool:
        given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        scheme, _, credentials = given.strip().partition(b" ")
        credentials = credentials.strip()
        match scheme.lower():
            case b"bearer" if self.tokens is not None:
                scope["state"]["caller"] = ("token", "")
                return self.tokens.value.match(credentials)
            case b"basic" if self.logins is not None:
                login = _decoded(credentials)
                scope["state"]["caller"] = ("basic", login.partition(b":")[0].decode("utf-8", "replace"))
                return self.logins.value.match(login)
            case _:
                return False


def _decoded(credentials: bytes) -> bytes:
    try:
        return base64.b64decode(credentials, validate=True)
    except binascii.Error:
        return b""
