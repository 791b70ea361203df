"""HTTPS clients: sessions shared by all servers that are trusted and shown the same."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pratique.https.credentials import ClientCertificate
from pratique.https.service_resolvers import ServiceResolver, resolve_by_dns

if TYPE_CHECKING:
    import ssl

    from pratique.https.sessions import HttpsSession


@dataclasses.dataclass(frozen=True, slots=True)
class SessionKey:
    """What sets sessions apart."""

    ca_bundle: bytes
    """CA certificates, PEM; empty means the system's."""
    certificate: ClientCertificate | None
    """The certificate to show."""
    to_services: bool
    """True where hosts are services of the cluster."""
    verified: bool = True
    """False where the server's certificate is not looked at."""
    server_name: str = ""
    """The name to expect in the server's certificate; empty means the URL's host."""


@dataclasses.dataclass(slots=True)
class _Shared:
    context: ssl.SSLContext
    stamp: tuple[object, ...]
    session: HttpsSession
    users: int = 0


class HttpsClients:
    """All sessions of one front door."""

    def __init__(self, resolve: ServiceResolver = resolve_by_dns) -> None:
        """``resolve`` finds the addresses of the cluster's services."""
        self._resolve = resolve
        self._shared: dict[SessionKey, _Shared] = {}

    def join(self, kind: SessionKey) -> None:
        """Begin to use the session of a kind, which is opened if it is not there. Needs a running event loop.

        Raises:
            CallError: its certificates cannot be used.
        """
        if kind not in self._shared:
            self._shared[kind] = self._open(kind)
        self._shared[kind].users += 1

    def session(self, kind: SessionKey) -> HttpsSession:
        """The session of a kind that has been joined.

        New connections show the certificate as it is now in its files.

        Raises:
            CallError: the certificate cannot be used any more.
        """
        shared = self._shared[kind]
        if kind.certificate is not None and kind.certificate.stamp != shared.stamp:
            from pratique.https.tls_contexts import present  # noqa: PLC0415  # see _open

            present(shared.context, kind.certificate)
            shared.stamp = kind.certificate.stamp
        return shared.session

    async def leave(self, kind: SessionKey) -> None:
        """Use the session of a kind no more; the last to leave closes it."""
        shared = self._shared[kind]
        shared.users -= 1
        if not shared.users:
            del self._shared[kind]
            await shared.session.close()

    def _open(self, kind: SessionKey) -> _Shared:
        # Here, because the HTTP library is slow to import, and most chains call no webhooks.
        from pratique.https.sessions import HttpsSession  # noqa: PLC0415
        from pratique.https.tls_contexts import open_client_context  # noqa: PLC0415

        context = open_client_context(kind.ca_bundle, kind.certificate, verified=kind.verified)
        stamp = kind.certificate.stamp if kind.certificate is not None else ()
        resolve = self._resolve if kind.to_services else None
        return _Shared(context, stamp, HttpsSession(context, resolve, kind.server_name))
