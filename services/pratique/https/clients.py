"""HTTPS clients: sessions, each shared by all servers with the same CA bundle and client certificate."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import msgspec

from pratique.apimachinery.errors import ConfigurationError
from pratique.https.credentials import ClientCertificate
from pratique.https.service_resolvers import ServiceResolver, resolve_by_dns

if TYPE_CHECKING:
    import ssl

    from pratique.https.sessions import HttpsSession


class SessionKey(msgspec.Struct, frozen=True):
    """The properties that distinguish sessions."""

    ca_bundle: bytes
    """CA certificates, PEM; empty means the system's."""
    certificate: ClientCertificate | None
    """The client certificate."""
    to_services: bool
    """Whether hosts are Services of the cluster."""
    verified: bool = True
    """Whether to verify the server's certificate."""
    server_name: str = ""
    """The name to expect in the server's certificate; empty means the URL's host."""


class _SharedSession(msgspec.Struct):
    context: ssl.SSLContext
    stamp: tuple[object, ...]
    session: HttpsSession
    users: int = 0


def require_http_library() -> None:
    """Check that calls can be made, before the first one is.

    Raises:
        ConfigurationError: the HTTP library is not installed; the text says how to install it.
    """
    if importlib.util.find_spec("aiohttp") is None:
        raise ConfigurationError(
            "calls over HTTPS need aiohttp, which is not installed: pip install 'pratique[services]'"
        )


class HttpsClients:
    """All sessions of one process."""

    def __init__(self, resolve: ServiceResolver = resolve_by_dns) -> None:
        """``resolve`` finds the addresses of the cluster's Services."""
        self._resolve = resolve
        self._shared: dict[SessionKey, _SharedSession] = {}

    def acquire(self, key: SessionKey) -> None:
        """Start using the session of a key, and open it if needed. Needs a running event loop.

        Raises:
            CallError: its certificates are invalid.
        """
        if key not in self._shared:
            self._shared[key] = self._open(key)
        self._shared[key].users += 1

    def session(self, key: SessionKey) -> HttpsSession:
        """The session of a key in use.

        New connections present the certificate that its files hold now.

        Raises:
            CallError: the certificate is no longer valid.
        """
        shared = self._shared[key]
        if key.certificate is not None and key.certificate.stamp != shared.stamp:
            from pratique.https.tls_contexts import load_client_certificate  # noqa: PLC0415  # see _open

            load_client_certificate(shared.context, key.certificate)
            shared.stamp = key.certificate.stamp
        return shared.session

    async def release(self, key: SessionKey) -> None:
        """Stop using the session of a key; the last user closes it."""
        shared = self._shared[key]
        shared.users -= 1
        if not shared.users:
            del self._shared[key]
            await shared.session.close()

    def _open(self, key: SessionKey) -> _SharedSession:
        # Imported late: the HTTP library is slow to import, and most chains call no webhooks.
        from pratique.https.sessions import HttpsSession  # noqa: PLC0415
        from pratique.https.tls_contexts import open_client_context  # noqa: PLC0415

        context = open_client_context(key.ca_bundle, key.certificate, verified=key.verified)
        stamp = key.certificate.stamp if key.certificate is not None else ()
        resolve = self._resolve if key.to_services else None
        return _SharedSession(context, stamp, HttpsSession(context, resolve, key.server_name))
