"""A client of registries: manifests, blobs and referrers, by the OCI Distribution Specification 1.1.

A registry is not trusted. It is asked within bounds on time and bytes; what it serves counts by its digest alone; and
it can send this client, and its credentials, nowhere that the operator has not named: tokens are fetched, and redirects
followed, at hosts of the same :class:`RegistryHost` only.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urljoin, urlsplit

import cachetools
import msgspec

from pratique.admission.reviews import Deadline
from pratique.apimachinery.errors import BadAnswerError, CallError, PratiqueError, UnreachableError
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.prepared_types import prepared
from pratique.https.requests import HttpResponse, post_error
from pratique.images.references import ImageReference, is_digest
from pratique.images.registry_credentials import RegistryCredentials, RegistryLogin

if TYPE_CHECKING:
    from pratique.https.sessions import HttpsSession

MANIFEST_LIMIT = 4 * 1024 * 1024
"""The most bytes of a manifest: what registries must accept by the specification."""
BLOB_LIMIT = 1024 * 1024
"""The most bytes of a payload or bundle. A payload has some 300, and a bundle with everything some 10,000."""
_TOKEN_LIMIT = 64 * 1024

_INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
_MANIFEST_TYPES = (
    f"{_INDEX_TYPE}, application/vnd.oci.image.manifest.v1+json, "
    "application/vnd.docker.distribution.manifest.list.v2+json, "
    "application/vnd.docker.distribution.manifest.v2+json"
)
_MAX_REDIRECTS = 3
_RETRY_SECONDS = 0.2
"""The wait before a failed request is sent once more."""
_MAX_TOKENS = 1024
_DEFAULT_TOKEN_SECONDS = 60
"""How long a token is good if its server does not say: by the specification of docker's tokens."""
_TOKEN_MARGIN_SECONDS = 10
_MAX_TOKEN_SECONDS = 300
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_CHALLENGE = pattern(r'(?<![a-zA-Z])([a-zA-Z]+)="([^"]*)"')
_URL = pattern(r"https?://[A-Za-z0-9.:\[\]-]+(?:[/?][!-~]*)?")
_TOKEN = pattern(r"[!-~]{1,16384}")
"""What a header can hold."""


class RegistryError(PratiqueError):
    """A registry could not be asked, or its answer is unusable. The text begins with its host, and quotes no answer."""


class RegistryHost(msgspec.Struct, frozen=True):
    """How to reach one registry."""

    host: str
    """The host of references."""
    address: str = ""
    """Where its API is; empty means at the host."""
    token_hosts: tuple[str, ...] = ()
    """Other hosts that may issue tokens for it, and so see its credentials."""
    redirect_hosts: tuple[str, ...] = ()
    """Other hosts that may serve its blobs, without credentials; ``*.example.com`` names all below."""
    plain_http: bool = False

    @property
    def url(self) -> str:
        """The URL of its API, without a path."""
        return f"{'http' if self.plain_http else 'https'}://{self.address or self.host}"

    def may_issue_tokens(self, url: str) -> bool:
        """Whether credentials may be sent to a URL."""
        return self._is_same_scheme(url) and _authority(url) in {_authority(self.url), *self.token_hosts}

    def may_redirect_to(self, url: str) -> bool:
        """Whether a redirect to a URL is followed."""
        host = _authority(url)
        return self._is_same_scheme(url) and (
            self.is_own(url) or any(_names(pattern, host) for pattern in self.redirect_hosts)
        )

    def is_own(self, url: str) -> bool:
        """Whether a URL is of the registry itself."""
        return _authority(url) == _authority(self.url)

    def _is_same_scheme(self, url: str) -> bool:
        return url.startswith("http://" if self.plain_http else "https://")


def _authority(url: str) -> str:
    """Host and port of a URL; empty if it has a user or is unusual, so that two programs could read it differently."""
    if not _URL.fullmatch(url):
        return ""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return ""
    if not parts.hostname:
        return ""
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    usual = {"https": 443, "http": 80}.get(parts.scheme)
    return host if port in {None, usual} else f"{host}:{port}"


def _shown(url: str) -> str:
    """Where a URL leads, for a message."""
    scheme, host = url.partition(":")[0], _authority(url)
    return f"{scheme}://{host}" if host else "what is not a URL of HTTP"


def _joined(url: str, location: str) -> str:
    """The URL of a redirect; empty if it is malformed."""
    try:
        return urljoin(url, location)
    except ValueError:
        return ""


def _names(pattern: str, host: str) -> bool:
    if pattern.startswith("*."):
        return host.endswith(pattern[1:])
    return bool(host) and pattern == host


class Descriptor(msgspec.Struct, frozen=True, rename="camel"):
    """What a manifest says of a blob or of another manifest."""

    digest: str
    size: int = 0
    media_type: str = ""
    artifact_type: str = ""
    annotations: dict[str, str] | None = None


class Manifest(msgspec.Struct, frozen=True, rename="camel"):
    """A manifest or an index, as far as signatures need it."""

    layers: tuple[Descriptor, ...] = ()
    manifests: tuple[Descriptor, ...] = ()
    artifact_type: str = ""


_manifest_decoder = msgspec.json.Decoder(prepared(Manifest))


class _TokenResponse(msgspec.Struct, frozen=True):
    token: str = ""
    access_token: str = ""
    expires_in: float = _DEFAULT_TOKEN_SECONDS


_token_decoder = msgspec.json.Decoder(prepared(_TokenResponse))


class _Request(msgspec.Struct, frozen=True):
    """A request for something of a repository."""

    registry: RegistryHost
    repository: str
    path: str
    method: str = "GET"
    accept: str = "*/*"
    limit: int = MANIFEST_LIMIT

    @property
    def url(self) -> str:
        return f"{self.registry.url}/v2/{self.repository}/{self.path}"


@dataclasses.dataclass(frozen=True, slots=True)
class _Authorization:
    header: str = dataclasses.field(repr=False)
    good_until: float


class RegistryClient:
    """Asks registries, each over connections that stay open."""

    def __init__(
        self,
        session: HttpsSession,
        registries: Mapping[str, RegistryHost] = MappingProxyType({}),
        credentials: RegistryCredentials | None = None,
    ) -> None:
        """Use ``session``, which the caller closes.

        Args:
            session: Sends the requests.
            registries: How to reach those registries that are not simply at their host, by host.
            credentials: Users and passwords of registries; None calls all of them anonymously.
        """
        self._session = session
        self._registries = registries
        self._credentials = credentials or RegistryCredentials()
        self._authorizations: cachetools.LRUCache[tuple[str, str], _Authorization] = cachetools.LRUCache(
            _MAX_TOKENS
        )

    async def resolve(self, image: ImageReference, deadline: Deadline) -> str | None:
        """Return the digest that a tag names now; None if there is no such tag.

        Raises:
            RegistryError: the registry gives no usable answer.
        """
        request = self._manifest_request(image, image.tag, "HEAD")
        response = await self._send(request, deadline)
        if response.status == 404:
            return None
        digest = response.headers.get("Docker-Content-Digest", "")
        if is_digest(digest):
            return digest
        found = await self._get(self._manifest_request(image, image.tag), deadline)
        return None if found is None else _digest(found)

    async def manifest(self, image: ImageReference, reference: str, deadline: Deadline) -> Manifest | None:
        """Return the manifest with a tag or digest in the repository of an image; None if there is none.

        Raises:
            RegistryError: the registry gives no usable answer.
        """
        request = self._manifest_request(image, reference)
        content = await self._get(request, deadline)
        if content is None:
            return None
        if is_digest(reference):
            _check_digest(request.registry, content, reference)
        return _decoded(request.registry, content)

    async def referrers(
        self, image: ImageReference, digest: str, deadline: Deadline
    ) -> tuple[Descriptor, ...]:
        """Return what refers to a manifest: from the API of the specification, or from its tag if there is no API.

        Raises:
            RegistryError: the registry gives no usable answer.
        """
        registry = self._registry(image)
        request = _Request(registry, image.repository, f"referrers/{digest}", accept=_INDEX_TYPE)
        content = await self._get(request, deadline)
        if content is not None:
            return _decoded(registry, content).manifests
        index = await self.manifest(image, digest.replace(":", "-"), deadline)
        return () if index is None else index.manifests

    async def blob(self, image: ImageReference, descriptor: Descriptor, deadline: Deadline) -> bytes:
        """Return a blob of the repository of an image.

        Raises:
            RegistryError: the registry gives no usable answer, or the blob is too large or another one.
        """
        registry = self._registry(image)
        if not is_digest(descriptor.digest):
            raise RegistryError(f"{registry.host}: names a blob by what is not a digest of SHA-256")
        if not 0 <= descriptor.size <= BLOB_LIMIT:
            raise RegistryError(f"{registry.host}: a signature has more than {BLOB_LIMIT} bytes")
        request = _Request(registry, image.repository, f"blobs/{descriptor.digest}", limit=BLOB_LIMIT)
        content = await self._get(request, deadline)
        if content is None:
            raise RegistryError(f"{registry.host}: does not have a blob of a signature that it lists")
        _check_digest(registry, content, descriptor.digest)
        return content

    def _registry(self, image: ImageReference) -> RegistryHost:
        return self._registries.get(image.host) or RegistryHost(image.host)

    def _manifest_request(self, image: ImageReference, reference: str, method: str = "GET") -> _Request:
        path = f"manifests/{reference}"
        return _Request(self._registry(image), image.repository, path, method, _MANIFEST_TYPES)

    async def _get(self, request: _Request, deadline: Deadline) -> bytes | None:
        response = await self._send(request, deadline)
        return None if response.status == 404 else response.body

    async def _send(self, request: _Request, deadline: Deadline) -> HttpResponse:
        """Send a request, authorized if need be; the response is a success or 404."""
        registry, key = request.registry, (request.registry.host, request.repository)
        authorization = self._authorizations.get(key)
        if authorization is None or authorization.good_until <= time.monotonic():
            authorization = None
        response = await self._follow(request, authorization, deadline)
        if response.status == 401:
            authorization = await self._authorize(request, response, deadline)
            self._authorizations[key] = authorization
            response = await self._follow(request, authorization, deadline)
        if response.status not in {200, 404}:
            raise RegistryError(f"{registry.host}: {self._refusal(registry, response.status)}")
        return response

    def _refusal(self, registry: RegistryHost, status: int) -> str:
        text = f"answered {_described(status)}"
        if (
            status in {401, 403}
            and self._credentials.has_helpers
            and not self._credentials.login(registry.host)
        ):
            text += "; programs that know credentials (credHelpers, credsStore) are not run"
        return text

    async def _follow(
        self, request: _Request, authorization: _Authorization | None, deadline: Deadline
    ) -> HttpResponse:
        """Send a request, and follow redirects to hosts that are named."""
        registry, url = request.registry, request.url
        for _ in range(_MAX_REDIRECTS + 1):
            header = authorization.header if authorization is not None and registry.is_own(url) else ""
            response = await self._exchange(registry, request, url, header, deadline)
            if response.status not in _REDIRECTS:
                return response
            url = _joined(url, response.location)
            if not registry.may_redirect_to(url):
                raise RegistryError(
                    f"{registry.host}: redirects to {_shown(url)}, which is not in its redirectHosts"
                )
        raise RegistryError(f"{registry.host}: redirects more than {_MAX_REDIRECTS} times")

    async def _exchange(
        self, registry: RegistryHost, request: _Request, url: str, header: str, deadline: Deadline
    ) -> HttpResponse:
        """Send one request; once more if the registry is overloaded, or its connection was of no use."""
        try:
            response = await self._exchange_once(registry, request, url, header, deadline)
            if response.status < 500 and response.status != 429:
                return response
        except UnreachableError:
            pass
        await asyncio.sleep(min(_RETRY_SECONDS, deadline.remaining_seconds))
        try:
            return await self._exchange_once(registry, request, url, header, deadline)
        except UnreachableError as error:
            raise RegistryError(f"{registry.host}: {str(error).removeprefix(post_error(url, ''))}") from None

    async def _exchange_once(
        self, registry: RegistryHost, request: _Request, url: str, header: str, deadline: Deadline
    ) -> HttpResponse:
        headers = [("Accept", request.accept), ("User-Agent", "pratique")]
        if header:
            headers.append(("Authorization", header))
        try:
            return await self._session.send(
                request.method, url, headers, b"", deadline, body_limit=request.limit
            )
        except UnreachableError:
            raise
        except BadAnswerError as error:
            raise RegistryError(f"{registry.host}: {error}") from None
        except ValueError:  # of the libraries that look names up
            raise RegistryError(f"{registry.host}: is not a name that can be looked up") from None
        except CallError:
            raise RegistryError(f"{registry.host}: did not answer in time") from None

    async def _authorize(
        self, request: _Request, response: HttpResponse, deadline: Deadline
    ) -> _Authorization:
        """Get what a registry asks for: a token of its server, or the user and password themselves."""
        registry = request.registry
        login = self._credentials.login(registry.host)
        challenge = response.headers.get("WWW-Authenticate", "")
        scheme, parameters = challenge.partition(" ")[0].lower(), dict(_CHALLENGE.findall(challenge))
        if scheme == "basic" and login is not None:
            return _Authorization(login.header, time.monotonic() + _MAX_TOKEN_SECONDS)
        if scheme != "bearer":
            raise RegistryError(f"{registry.host}: {self._refusal(registry, response.status)}")
        realm = parameters.get("realm", "")
        if not registry.may_issue_tokens(realm):
            raise RegistryError(
                f"{registry.host}: sends for tokens to {_shown(realm)}, which is not in its tokenHosts"
            )
        return await self._fetch_token(request, realm, parameters.get("service", ""), login, deadline)

    async def _fetch_token(
        self, request: _Request, realm: str, service: str, login: RegistryLogin | None, deadline: Deadline
    ) -> _Authorization:
        registry = request.registry
        # The scope is ours, not the registry's: it could ask for one that can do more.
        query = urlencode({"service": service, "scope": f"repository:{request.repository}:pull"})
        url = f"{realm}{'&' if urlsplit(realm).query else '?'}{query}"
        wanted = msgspec.structs.replace(request, method="GET", accept="application/json", limit=_TOKEN_LIMIT)
        response = await self._exchange(registry, wanted, url, login.header if login else "", deadline)
        if response.status != 200:
            raise RegistryError(
                f"{registry.host}: its server of tokens {self._refusal(registry, response.status)}"
            )
        try:
            answer = _token_decoder.decode(response.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise RegistryError(f"{registry.host}: its server of tokens gave none") from None
        token = answer.token or answer.access_token
        if not _TOKEN.fullmatch(token):
            raise RegistryError(f"{registry.host}: its server of tokens gave none")
        seconds = min(answer.expires_in, _MAX_TOKEN_SECONDS) - _TOKEN_MARGIN_SECONDS
        return _Authorization(f"Bearer {token}", time.monotonic() + seconds)


def _described(status: int) -> str:
    """Describe the status of a response."""
    names = {
        401: "that it needs credentials",
        403: "that access is forbidden",
        429: "that there are too many requests",
    }
    return f"{status}: {names[status]}" if status in names else str(status)


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _check_digest(registry: RegistryHost, content: bytes, digest: str) -> None:
    if _digest(content) != digest:
        raise RegistryError(
            f"{registry.host}: served something else than what has the digest that was asked for"
        )


def _decoded(registry: RegistryHost, content: bytes) -> Manifest:
    try:
        return _manifest_decoder.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise RegistryError(f"{registry.host}: served what is not a manifest") from None
