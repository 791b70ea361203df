"""HTTPS backends: servers that a kubeconfig names, called as kube-apiserver calls its webhook backends.

Sources: ``LoadKubeconfig`` and ``NewGenericWebhook`` in ``k8s.io/apiserver/pkg/util/webhook/webhook.go``, and
``DefaultServerURL`` in ``k8s.io/client-go/rest/url_utils.go``.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

from pratique.admission.reviews import Deadline
from pratique.apimachinery.errors import BadAnswerError, CallError, ConfigurationError
from pratique.apimachinery.statuses import go_quoted
from pratique.apimachinery.urls import parse_url
from pratique.https.clients import HttpsClients, SessionKey, require_http_library
from pratique.https.credentials import Credentials, user_credentials
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


class HttpsBackend:
    """A server called over HTTPS, on connections that stay open."""

    def __init__(self, target: ResolvedContext) -> None:
        """Check the settings, without connecting yet.

        Raises:
            ConfigurationError: the URL, a certificate or the user's credentials are invalid, or the HTTP library is
                not installed.
        """
        require_http_library()
        self._authority, self._url = _address(target.server)
        self._credentials = _credentials(target)
        self._session_key = SessionKey(
            ca_bundle=_ca_bundle(target.server),
            certificate=self._credentials.certificate,
            to_services=False,
            verified=not target.server.insecure_skip_tls_verify,
            server_name=target.server.tls_server_name,
        )
        _check_certificates(self._session_key)
        self._clients = HttpsClients()
        self._session_acquired = False

    async def ask(self, body: bytes, deadline: Deadline) -> bytes:
        """Send one request, and return the body of the response, whatever its type.

        Raises:
            CallError: there was no response, or it is empty or an error; the text is that of Kubernetes' client.
        """
        if not self._session_acquired:
            self._clients.acquire(self._session_key)
            self._session_acquired = True
        session = self._clients.session(self._session_key)
        credentials = tuple(self._credentials.headers())
        request = HttpRequest(self._url, self._authority, body, _HEADERS, credentials)
        answer = await send_with_retries(session, request, deadline.sooner(_TIMEOUT_SECONDS))
        content = response_body(answer)
        if not 200 <= answer.status < 300:
            raise BadAnswerError(f"Error contacting webhook: {answer.status}", answer.status)
        return content

    async def close(self) -> None:
        """Close all connections."""
        if self._session_acquired:
            self._session_acquired = False
            await self._clients.release(self._session_key)


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


def _ca_bundle(server: KubeconfigCluster) -> bytes:
    bundle = server.certificate_authority_data
    if server.certificate_authority and not bundle:
        bundle = Path(server.certificate_authority).read_bytes()
    if bundle and server.insecure_skip_tls_verify:
        raise ConfigurationError("specifying a root certificates file with the insecure flag is not allowed")
    return bundle


def _check_certificates(kind: SessionKey) -> None:
    """Check the certificates at once: invalid ones would fail every call."""
    try:
        open_client_context(kind.ca_bundle, kind.certificate, verified=kind.verified)
    except CallError as error:
        raise ConfigurationError(str(error).removeprefix(_CLIENT_ERROR_PREFIX)) from None
