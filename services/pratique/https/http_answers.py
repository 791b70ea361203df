"""HTTP answers: which of them hold a server's answer, and what is said of the others.

Sources: ``k8s.io/client-go/rest/{request,with_retry}.go`` and ``NewGenericServerResponse`` in
``k8s.io/apimachinery/pkg/api/errors/errors.go``.
"""

from __future__ import annotations

import dataclasses
import re

import msgspec

from pratique.errors import BadAnswerError
from pratique.https.media_types import MediaTypeError, parse_media_type
from pratique.statuses import Status, StatusDetails, go_quoted, internal_error

_JSON = "application/json"
_SHOWN_BYTES = 2048
"""How much of an answer's body is told at most."""

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
_OWN_TEXT = frozenset({403, 415})
"""Codes with which the server's text stands alone."""

_LONGEST_INTEGER = 19
"""Characters of a 64-bit number; Go reads no longer one."""
_INTEGER = re.compile(r"[+-]?[0-9]+")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """An HTTP response, read whole."""

    status: int
    """The code."""
    body: bytes
    """Decompressed."""
    content_type: str = ""
    """The header as it came; empty where it did not."""
    retry_after: str = ""
    """The header as it came; empty where it did not."""
    location: str = ""
    """The header as it came; empty where it did not."""

    @property
    def retry_seconds(self) -> int | None:
        """How long to wait before asking again; None where it must not be asked again."""
        retryable = self.status == 429 or self.status >= 500
        return self.retry_after_seconds if retryable else None

    @property
    def retry_after_seconds(self) -> int | None:
        """What the header asks for; None where it is no number."""
        if len(self.retry_after) > _LONGEST_INTEGER or not _INTEGER.fullmatch(self.retry_after):
            return None
        return max(0, int(self.retry_after))


def answered_body(answer: HttpAnswer) -> bytes:
    """The body of an answer that says something; of what type it claims to be does not matter.

    Raises:
        BadAnswerError: there is none, or the HTTP code is one of failure, which its ``status`` tells.
    """
    try:
        media_type = parse_media_type(answer.content_type) if answer.content_type else ""
    except MediaTypeError as error:
        status = internal_error(str(error))
        raise BadAnswerError(status.message, status.code, status) from None
    if not (200 <= answer.status <= 206 or answer.status == 101):
        told = _told(answer.body)
        status = _unexpected(answer, media_type) if told is None else told.as_status()
        raise BadAnswerError(status.message, status.code, status)
    if not answer.body:
        raise BadAnswerError(
            f"0-length response with status code: {answer.status} "
            f"and content type: {answer.content_type or _JSON}"
        )
    return answer.body


class _ToldDetails(msgspec.Struct, rename="camel"):
    retry_after_seconds: int | None = None


class _Told(msgspec.Struct):
    kind: str = ""
    api_version: str | None = msgspec.field(default=None, name="apiVersion")
    status: str | None = None
    message: str | None = None
    reason: str | None = None
    details: _ToldDetails | None = None
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


_told_decoder = msgspec.json.Decoder(_Told)


def _told(body: bytes) -> _Told | None:
    """The Kubernetes Status that tells a failure; None where the body holds no such thing."""
    try:
        told = _told_decoder.decode(body.decode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return None
    if (told.kind, told.api_version or "v1", told.status) != ("Status", "v1", "Failure"):
        return None
    return told


def _unexpected(answer: HttpAnswer, media_type: str) -> Status:
    """What is made of a failure that no Status tells."""
    reason = _REASONS.get(answer.status, "InternalError" if answer.status >= 500 else "")
    seconds = answer.retry_after_seconds
    return Status(
        status="Failure",
        message=_message(answer, media_type),
        reason=reason,
        details=StatusDetails(retry_after_seconds=seconds) if seconds else None,
        code=answer.status,
    )


def _message(answer: HttpAnswer, media_type: str) -> str:
    is_text = not answer.content_type or media_type.startswith("text/")
    text = answer.body[:_SHOWN_BYTES].decode("utf-8", "replace").strip() if is_text else "unknown"
    if answer.status in _OWN_TEXT:
        return text
    if answer.status == 406:
        return _UNACCEPTABLE if text in {"", "unknown"} else text
    if answer.status in _TEXTS:
        return _TEXTS[answer.status]
    if answer.status >= 500:
        return f"an error on the server ({go_quoted(text)}) has prevented the request from succeeding"
    return f"the server responded with the status code {answer.status} but did not return more information"
