"""Requests: what of an HTTP request matters to a review, and what is wrong with it."""

from __future__ import annotations

import dataclasses
import functools
from email.message import Message
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from pratique.admission.controllers import BOTH, MUTATE, VALIDATE, Phase
from pratique.apimachinery import durations, statuses
from pratique.apimachinery.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from starlette.types import Receive

    from frontdoor.settings import FrontDoorSettings
    from pratique.apimachinery.statuses import Status

PHASES = {"admit": BOTH, "mutate": MUTATE, "validate": VALIDATE}
"""What ``?phase=`` may be."""

_BLAMES = {"true": True, "false": False}


class RequestError(InputError):
    """A request cannot be answered with a decision; ``status`` says why, and gives the HTTP code."""

    def __init__(self, status: Status) -> None:
        """Refuse with ``status``."""
        super().__init__(status.message)
        self.status = status


class ClientGoneError(Exception):
    """The client closed the connection before its request was complete. There is nobody to answer."""


@dataclasses.dataclass(frozen=True, slots=True)
class Query:
    """The query of a request for a decision."""

    seconds: float
    """Time until the answer has to leave."""
    phases: frozenset[Phase]
    """What ``?phase=`` asks for; both phases where it is not there."""
    blame: bool = False
    """Whether ``?blame=`` asks who changed what."""


def query_reader(settings: FrontDoorSettings) -> Callable[[bytes], Query]:
    """Make the function that reads the query of a URL, as bytes.

    It remembers what it read last, because an API server sends the same few queries again and again. It
    raises RequestError (400) on a bad ``timeout``, ``phase`` or ``blame``.
    """
    return functools.lru_cache(maxsize=64)(functools.partial(_read_query, settings))


def _read_query(settings: FrontDoorSettings, query: bytes) -> Query:
    parameters = parse_qs(query.decode("latin-1"), keep_blank_values=True)
    return Query(
        seconds=_seconds(parameters.get("timeout", [""])[0], settings),
        phases=_phases(parameters.get("phase", ["admit"])[0]),
        blame=_blame(parameters.get("blame", ["false"])[0]),
    )


def _seconds(timeout: str, settings: FrontDoorSettings) -> float:
    """As ``k8s.io/apiserver/pkg/endpoints/filters/request_deadline.go``: zero or less means no wish."""
    seconds = settings.default_timeout_seconds
    if timeout:
        try:
            asked = durations.parse(timeout).seconds
        except InputError as error:
            text = f"invalid timeout specified in the request URL - {error}"
            raise RequestError(statuses.bad_request(text)) from None
        if asked > 0:
            seconds = min(asked, settings.max_timeout_seconds)
    return seconds - min(settings.answer_margin_seconds, seconds / 10)


def _phases(phase: str) -> frozenset[Phase]:
    try:
        return PHASES[phase]
    except KeyError:
        raise _unsupported_value("phase", phase, PHASES) from None


def _blame(blame: str) -> bool:
    try:
        return _BLAMES[blame]
    except KeyError:
        raise _unsupported_value("blame", blame, _BLAMES) from None


def _unsupported_value(parameter: str, value: str, supported: Iterable[str]) -> RequestError:
    values = ", ".join(statuses.go_quoted(known) for known in supported)
    text = f"{parameter}: Unsupported value: {statuses.go_quoted(value)}: supported values: {values}"
    return RequestError(statuses.bad_request(text))


def check_head(headers: Sequence[tuple[bytes, bytes]], max_body_bytes: int) -> None:
    """Refuse a body by its headers, before it is read.

    Raises:
        RequestError: it is not JSON, or in an encoding (415), or too long (413).
    """
    media_type = b""
    for name, value in headers:
        if name == b"content-type":
            media_type = value
        elif name == b"content-length":
            if int(value) > max_body_bytes:
                raise _too_large(max_body_bytes)
        elif name == b"content-encoding" and value.strip().lower() != b"identity":
            # An API server never encodes a review, and whoever decodes one can be made to decode a bomb.
            raise _unsupported_media_type("was encoded - accepted content encodings include: identity")
    if media_type != b"application/json" and not _is_utf8_json(media_type):
        raise _unsupported_media_type("was in an unknown format - accepted media types include: application/json")


def _is_utf8_json(media_type: bytes) -> bool:
    message = Message()
    message["content-type"] = media_type.decode("latin-1")
    charset = message.get_content_charset("utf-8")
    return message.get_content_type() == "application/json" and charset in {"utf-8", "utf8"}


async def read_body(receive: Receive, max_body_bytes: int, hold: Callable[[int], None]) -> list[bytes]:
    """Read a body in the pieces in which it comes, and tell ``hold`` the size of each.

    To put megabytes together takes some milliseconds, and is not for an event loop.

    Raises:
        RequestError: it is too long (413), or ``hold`` refuses it.
        ClientGoneError: the connection closed before the end.
    """
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        piece: bytes = message["body"]
        size += len(piece)
        if size > max_body_bytes:
            raise _too_large(max_body_bytes)
        hold(len(piece))
        pieces.append(piece)
        if not message["more_body"]:
            return pieces


def _too_large(max_body_bytes: int) -> RequestError:
    text = f"Request entity is too large: limit is {max_body_bytes}"
    return RequestError(statuses.failure(413, "RequestEntityTooLarge", text))


def _unsupported_media_type(complaint: str) -> RequestError:
    text = f"the body of the request {complaint}"
    return RequestError(statuses.failure(415, "UnsupportedMediaType", text))
