"""HTTPS backends: servers that a kubeconfig names, called as kube-apiserver calls its webhook backends.

Sources: ``LoadKubeconfig`` and ``NewGenericWebhook`` in ``k8s.io/apiserver/pkg/util/webhook/webhook.go``, and
``DefaultServerURL`` in ``k8s.io/client-go/rest/url_utils.go``.
"""

from __future__ import annotations

import logging
from pathlib import Path
from urllib.parse import unquote

import msgspec

from pratique.admission.reviews import Deadline
from pratique.apimachinery.errors import BadAnswerError, CallError, ConfigurationError
from pratique.apimachinery.statuses import go_quoted
from pratique.apimachinery.urls import parse_url
from pratique.https.clients import HttpsClients, SessionKey, require_http_library
from pratique.https.credentials import ClientCertificate, Credentials, PemSource, user_credentials
from pratique.https.kubeconfigs import (
    KubeconfigCluster,
    ResolvedContext,
    load_kubeconfig,
    resolve_current_context,
)
from pratique.https.requests import HttpRequest, clean_path, response_body, send_with_retries
from pratique.https.tls_contexts import open_client_context

_TIMEOUT_SECONDS = 30
"""The timeout of one attempt, including redirects and reading the response."""

_HEADERS = (
    ("Accept", "application/json, */*"),
    ("Content-Type", "application/json"),
    ("User-Agent", "kube-apiserver"),
    ("Accept-Encoding", "gzip"),
)

_CLIENT_ERROR_PREFIX = "could not get REST client: "
"""The prefix of errors about credentials and certificates in webhook calls."""

_log = logging.getLogger(__name__)


class HttpsBackend:
    """A server called over HTTPS, on connections that stay open.

    Files with certificates and keys are read again when they change. What cannot be used leaves the last that could.
    """

    def __init__(self, target: ResolvedContext) -> None:
        """Check the settings, without connecting yet.

        Raises:
            ConfigurationError: the URL, a certificate or the user's credentials are invalid, or the HTTP library is
                not installed.
        """
        require_http_library()
        self._authority, self._url = _address(target.server)
        self._credentials = _credentials(target)
        self._certificates = _certificates(target.server, self._credentials.certificate)
        self._stamp = self._certificates.stamp
        self._session_key = self._certificates.session_key()
        self._clients = HttpsClients()
        self._acquired: SessionKey | None = None
        """The key of the session that stays open between calls."""

    async def ask(self, body: bytes, deadline: Deadline) -> bytes:
        """Send one request, and return the body of the response, whatever its type.

        Raises:
            CallError: there was no response, or it is empty or an error; the text is that of Kubernetes' client.
        """
        self._read_changed_certificates()
        key = self._session_key
        await self._keep_open(key)
        self._clients.acquire(key)
        try:
            credentials = tuple(self._credentials.headers())
            request = HttpRequest(self._url, self._authority, body, _HEADERS, credentials)
            session = self._clients.session(key)
            answer = await send_with_retries(session, request, deadline.sooner(_TIMEOUT_SECONDS))
        finally:
            await self._clients.release(key)
        content = response_body(answer)
        if not 200 <= answer.status < 300:
            raise BadAnswerError(f"Error contacting webhook: {answer.status}", answer.status)
        return content

    async def close(self) -> None:
        """Close all connections."""
        acquired, self._acquired = self._acquired, None
        if acquired is not None:
            await self._clients.release(acquired)

    def _read_changed_certificates(self) -> None:
        stamp = self._certificates.stamp
        if stamp == self._stamp:
            return
        # Taken before the files are read, so that the next call sees what changes meanwhile.
        self._stamp = stamp
        try:
            self._session_key = self._certificates.session_key()
        except ConfigurationError as error:
            _log.warning("certificates kept, the new ones cannot be used", extra={"reason": str(error)})

    async def _keep_open(self, key: SessionKey) -> None:
        """Keep the connections of this key open, and let those of another one end with the calls that use them."""
        replaced = self._acquired
        if replaced == key:
            return
        self._clients.acquire(key)
        self._acquired = key
        if replaced is not None:
            await self._clients.release(replaced)


class _Certificates(msgspec.Struct, frozen=True):
    """The certificates to trust and to present, which may be in files that change."""

    server: KubeconfigCluster
    authorities: PemSource
    own: ClientCertificate | None

    @property
    def stamp(self) -> tuple[object, ...]:
        """A value that changes with the files."""
        return (self.authorities.stamp, () if self.own is None else self.own.stamp)

    def session_key(self) -> SessionKey:
        """Read the files as they are now.

        Raises:
            ConfigurationError: one cannot be read or used: it would fail every call.
        """
        try:
            key = SessionKey(
                ca_bundle=self._trusted(),
                certificate=None if self.own is None else self.own.as_read(),
                to_services=False,
                verified=not self.server.insecure_skip_tls_verify,
                server_name=self.server.tls_server_name,
            )
            open_client_context(key.ca_bundle, key.certificate, verified=key.verified)
        except CallError as error:
            raise ConfigurationError(str(error).removeprefix(_CLIENT_ERROR_PREFIX)) from None
        return key

    def _trusted(self) -> bytes:
        if not (self.authorities.data or self.authorities.path):
            return b""
        bundle = self.authorities.read()
        if not bundle.strip():
            # Go, and an empty bundle here, would trust the system's authorities instead.
            raise ConfigurationError(f"certificate-authority: {self.authorities.path} is empty")
        return bundle


def open_backend(file: Path) -> HttpsBackend:
    """Open the backend that a kubeconfig file names.

    Raises:
        ConfigurationError: the file is invalid.
    """
    kubeconfig = load_kubeconfig(file)
    try:
        return HttpsBackend(resolve_current_context(kubeconfig))
    except ConfigurationError as error:
        raise ConfigurationError(f"{file}: {error}") from None


def _address(server: KubeconfigCluster) -> tuple[str, str]:
    """The authority of a server's URL, and the URL to call."""
    text = server.server if "://" in server.server else f"https://{server.server}"
    try:
        url = parse_url(text)
    except ValueError as error:
        raise ConfigurationError(f"server: {error}") from None
    if url.scheme != "https" or not url.host:
        raise ConfigurationError(f"server: {go_quoted(text)} must be the URL of an HTTPS server")
    authority = url.host if url.host.isascii() else url.host.encode("idna").decode()
    return authority, f"https://{authority}{clean_path(unquote(url.path))}?timeout={_TIMEOUT_SECONDS}s"


def _credentials(target: ResolvedContext) -> Credentials:
    try:
        return user_credentials(target.user_name, target.user)
    except CallError as error:
        raise ConfigurationError(str(error).removeprefix(_CLIENT_ERROR_PREFIX)) from None


def _certificates(server: KubeconfigCluster, own: ClientCertificate | None) -> _Certificates:
    authorities = PemSource(server.certificate_authority_data, server.certificate_authority)
    if (authorities.data or authorities.path) and server.insecure_skip_tls_verify:
        raise ConfigurationError("specifying a root certificates file with the insecure flag is not allowed")
    return _Certificates(server, authorities, own)
