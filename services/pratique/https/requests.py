"""HTTP requests with redirects and retries, and their responses, with the errors of Kubernetes' REST client.

Sources: ``net/http/client.go`` and ``mime/mediatype.go`` of Go, and ``k8s.io/client-go/rest/request.go``.
"""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote, urljoin, urlsplit

import msgspec

from pratique.apimachinery.errors import BadAnswerError, UnreachableError
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.prepared_types import prepared
from pratique.apimachinery.statuses import Status, StatusDetails, go_quoted, internal_error

if TYPE_CHECKING:
    from pratique.admission.reviews import Deadline
    from pratique.https.sessions import HttpsSession

_WORD = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_PARAMETER = pattern(rf'\s*;\s*(?P<name>{_WORD})\s*=\s*(?P<value>{_WORD}|"(?:[^"\\\r\n]|\\.)*")')
_TOKEN = pattern(_WORD)


class MediaTypeError(ValueError):
    """A text is not a media type. The message is Go's."""


def parse_media_type(text: str) -> str:
    """Parse a Content-Type. Gives the media type in lower case, without parameters.

    Raises:
        MediaTypeError: it is malformed.
    """
    base = text.partition(";")[0]
    media_type = base.lower().strip()
    _check_media_type(media_type)
    rest = text[len(base) :]
    seen: dict[str, str] = {}
    while rest.strip() not in {"", ";"}:
        found = _PARAMETER.match(rest)
        if found is None:
            raise MediaTypeError("mime: invalid media parameter")
        name, value = found["name"].lower(), found["value"]
        if seen.setdefault(name, value) != value:
            raise MediaTypeError("mime: duplicate parameter name")
        rest = rest[found.end() :]
    return media_type


def _check_media_type(media_type: str) -> None:
    kind = _TOKEN.match(media_type)
    if kind is None:
        raise MediaTypeError("mime: no media type")
    rest = media_type[kind.end() :]
    if not rest:
        return
    if not rest.startswith("/"):
        raise MediaTypeError("mime: expected slash after first token")
    subtype = _TOKEN.match(rest, 1)
    if subtype is None:
        raise MediaTypeError("mime: expected token after slash")
    if subtype.end() != len(rest):
        raise MediaTypeError("mime: unexpected content after media subtype")


_PATH_CHARACTERS = "/$&+,:;=@~"
"""The characters that Go does not escape in a path, besides letters, digits and ``_.-``."""


def clean_path(path: str) -> str:
    """Clean and escape a path: no ``.`` and ``..``, single slashes, one at the start and none at the end."""
    # Two slashes at the start are special in POSIX but not in Go.
    return quote(posixpath.normpath("/" + path.lstrip("/")), safe=_PATH_CHARACTERS)


def post_error(url: str, reason: str) -> str:
    """Word the failure of a POST as Go's ``url.Error`` does."""
    return f"Post {go_quoted(url)}: {reason}"


_DEFAULT_CONTENT_TYPE = "application/json"
_MAX_SHOWN_BYTES = 2048
"""How many bytes of a response's body an error message shows at most."""

_TEXTS = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, "
    "but may still be processing the request",
}
_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    409: "AlreadyExists",  # of a POST
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    503: "ServiceUnavailable",
    504: "Timeout",
}
_UNACCEPTABLE = "the server was unable to respond with a content type that the client supports"
_CODES_WITH_SERVER_TEXT = frozenset({403, 415})
"""Codes for which the message is the response's text."""

_MAX_INTEGER_LENGTH = 19
"""The characters of a 64-bit number; Go reads no longer ones."""
_INTEGER = pattern(r"[+-]?[0-9]+")


class HttpResponse(msgspec.Struct, frozen=True, kw_only=True):
    """An HTTP response with its whole body."""

    status: int
    """The HTTP code."""
    body: bytes
    """The decompressed body."""
    content_type: str = ""
    """The header as received; empty if absent."""
    retry_after: str = ""
    """The header as received; empty if absent."""
    location: str = ""
    """The header as received; empty if absent."""
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    """All headers as received; names count in any case."""

    @property
    def retry_seconds(self) -> int | None:
        """How long to wait before a retry; None if the response must not be retried."""
        retryable = self.status == 429 or self.status >= 500
        return self.retry_after_seconds if retryable else None

    @property
    def retry_after_seconds(self) -> int | None:
        """The seconds in ``Retry-After``; None if it is not a number."""
        if len(self.retry_after) > _MAX_INTEGER_LENGTH or not _INTEGER.fullmatch(self.retry_after):
            return None
        return max(0, int(self.retry_after))


def response_body(response: HttpResponse) -> bytes:
    """The body of a successful response, whatever its content type.

    Raises:
        BadAnswerError: the body is empty, or the HTTP code means failure, which the error's ``status`` describes.
    """
    try:
        media_type = parse_media_type(response.content_type) if response.content_type else ""
    except MediaTypeError as error:
        status = internal_error(str(error))
        raise BadAnswerError(status.message, status.code, status) from None
    if not (200 <= response.status <= 206 or response.status == 101):
        status_body = _decode_status(response.body)
        status = _status_of_failure(response, media_type) if status_body is None else status_body.as_status()
        raise BadAnswerError(status.message, status.code, status)
    if not response.body:
        raise BadAnswerError(
            f"0-length response with status code: {response.status} "
            f"and content type: {response.content_type or _DEFAULT_CONTENT_TYPE}"
        )
    return response.body


class _StatusDetailsBody(msgspec.Struct, rename="camel"):
    retry_after_seconds: int | None = None


class _StatusBody(msgspec.Struct):
    kind: str = ""
    api_version: str | None = msgspec.field(default=None, name="apiVersion")
    status: str | None = None
    message: str | None = None
    reason: str | None = None
    details: _StatusDetailsBody | None = None
    code: int | None = None

    def as_status(self) -> Status:
        seconds = (self.details and self.details.retry_after_seconds) or 0
        details = StatusDetails(retry_after_seconds=seconds) if seconds else None
        return Status(
            status="Failure",
            message=self.message or "",
            reason=self.reason or "",
            details=details,
            code=self.code or 0,
        )


_status_decoder = msgspec.json.Decoder(prepared(_StatusBody))


def _decode_status(body: bytes) -> _StatusBody | None:
    """Decode a Kubernetes Status of a failure; None if the body is something else."""
    try:
        status = _status_decoder.decode(body.decode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return None
    if (status.kind, status.api_version or "v1", status.status) != ("Status", "v1", "Failure"):
        return None
    return status


def _status_of_failure(response: HttpResponse, media_type: str) -> Status:
    """Make the Status of a failed response whose body is not one."""
    reason = _REASONS.get(response.status, "InternalError" if response.status >= 500 else "")
    seconds = response.retry_after_seconds
    return Status(
        status="Failure",
        message=_message(response, media_type),
        reason=reason,
        details=StatusDetails(retry_after_seconds=seconds) if seconds else None,
        code=response.status,
    )


def _message(response: HttpResponse, media_type: str) -> str:
    is_text = not response.content_type or media_type.startswith("text/")
    text = response.body[:_MAX_SHOWN_BYTES].decode("utf-8", "replace").strip() if is_text else "unknown"
    if response.status in _CODES_WITH_SERVER_TEXT:
        return text
    if response.status == 406:
        return _UNACCEPTABLE if text in {"", "unknown"} else text
    if response.status in _TEXTS:
        return _TEXTS[response.status]
    if response.status >= 500:
        return f"an error on the server ({go_quoted(text)}) has prevented the request from succeeding"
    return f"the server responded with the status code {response.status} but did not return more information"


Headers = tuple[tuple[str, str], ...]

_MAX_REDIRECTS = 10
_MAX_RETRIES = 10
_URL_CHARACTERS = "!#$%&'()*+,/:;=?@[]~"
"""The characters that a URL may contain besides letters, digits and ``_.-``."""

_REDIRECTS_AS_GET = frozenset({301, 302, 303})
_REDIRECTS_WITH_BODY = frozenset({307, 308})


class HttpRequest(msgspec.Struct, frozen=True):
    """An HTTP request."""

    url: str
    host: str
    """The Host header: ``host`` or ``host:port``."""
    body: bytes
    headers: Headers
    """The headers that describe the body and the client."""
    credentials: Headers
    """The headers that authenticate the client."""
    method: str = "POST"

    def redirected(self, response: HttpResponse, url: str) -> HttpRequest:
        """The request to send after a redirect to ``url``."""
        host = urlsplit(url).netloc.rpartition("@")[2]
        credentials = self.credentials if host == self.host else ()
        headers = (*self.headers, ("Referer", self.url))
        if response.status in _REDIRECTS_WITH_BODY:
            return HttpRequest(url, host, self.body, headers, credentials, self.method)
        headers = tuple(pair for pair in headers if pair[0] != "Content-Type")
        return HttpRequest(url, host, b"", headers, credentials, "GET")


async def send_with_retries(session: HttpsSession, request: HttpRequest, deadline: Deadline) -> HttpResponse:
    """Send a request, follow redirects, and retry until a response must not be retried.

    Raises:
        CallError: there was no response; the text is Go's.
    """
    response = await _follow_redirects(session, request, deadline)
    for _ in range(_MAX_RETRIES):
        if response.retry_seconds is None:
            break
        await asyncio.sleep(min(response.retry_seconds, deadline.remaining_seconds))
        response = await _follow_redirects(session, request, deadline)
    return response


async def _follow_redirects(session: HttpsSession, first: HttpRequest, deadline: Deadline) -> HttpResponse:
    request, response = first, await _send(session, first, deadline)
    for _ in range(_MAX_REDIRECTS - 1):
        if not _is_redirect(response):
            return response
        request = request.redirected(response, _location(request, response))
        response = await _send(session, request, deadline)
    if _is_redirect(response):
        raise UnreachableError(post_error(response.location, f"stopped after {_MAX_REDIRECTS} redirects"))
    return response


def _location(request: HttpRequest, response: HttpResponse) -> str:
    try:
        return quote(urljoin(request.url, response.location), safe=_URL_CHARACTERS)
    except ValueError as error:
        reason = f"failed to parse Location header {go_quoted(response.location)}: {error}"
        raise UnreachableError(post_error(request.url, reason)) from None


def _is_redirect(response: HttpResponse) -> bool:
    return response.status in _REDIRECTS_AS_GET | _REDIRECTS_WITH_BODY and bool(response.location)


async def _send(session: HttpsSession, request: HttpRequest, deadline: Deadline) -> HttpResponse:
    if not request.url.startswith("https:"):
        scheme = urlsplit(request.url).scheme
        raise UnreachableError(post_error(request.url, f"unsupported protocol scheme {go_quoted(scheme)}"))
    headers = (("Host", request.host), *request.headers, *request.credentials)
    return await session.send(request.method, request.url, headers, request.body, deadline)
