"""HTTP requests and responses: the query, head and body of a request for a decision, and the response to it.

Bodies are read within limits on the bytes and reviews in flight, by caller and by priority. For each failure the
response is a ``Status``, whose code is the HTTP code.
"""

from __future__ import annotations

import asyncio
import collections
import enum
import functools
import logging
import secrets
from collections.abc import Callable, Iterable, Sequence
from email.message import Message
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs

import msgspec
from starlette.types import Receive, Send

from pratique.admission.controllers import BOTH, MUTATE, VALIDATE, Phase
from pratique.admission.reviews import Review
from pratique.apimachinery import durations, statuses
from pratique.apimachinery.errors import InputError, RefusalError, ReviewError
from pratique.apimachinery.json_values import encode
from pratique.apimachinery.statuses import Status
from pratique_frontdoor.chain.decisions import OutageError
from pratique_frontdoor.settings import FrontDoorSettings

PHASES = {"admit": BOTH, "mutate": MUTATE, "validate": VALIDATE}
"""The values of ``?phase=``."""

_BLAMES = {"true": True, "false": False}


class RequestError(InputError):
    """A request cannot be decided; ``status`` has the reason and the HTTP code."""

    def __init__(self, status: Status) -> None:
        """Refuse the request with ``status``."""
        super().__init__(status.message)
        self.status = status


class ClientGoneError(Exception):
    """The client closed the connection before its request was complete, so no response can be sent."""


class Query(msgspec.Struct, frozen=True):
    """The query of a request for a decision."""

    seconds: float
    """Seconds until the response must be sent."""
    phases: frozenset[Phase]
    """The phases of ``?phase=``; both without it."""
    blame: bool = False
    """Whether ``?blame=`` requests the blame."""


def query_reader(settings: FrontDoorSettings) -> Callable[[bytes], Query]:
    """Return a function that parses the query of a URL, given as bytes.

    It caches its last results, because an API server sends the same few queries again and again. It raises RequestError
    (400) on an invalid ``timeout``, ``phase`` or ``blame``.
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
    """Source: ``k8s.io/apiserver/pkg/endpoints/filters/request_deadline.go``; zero or less means the default."""
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
    """Check the headers of a request before its body is read.

    Raises:
        RequestError: the body is not JSON or is encoded (415), or is too large (413).
    """
    media_type = b""
    for name, value in headers:
        if name == b"content-type":
            media_type = value
        elif name == b"content-length":
            if int(value) > max_body_bytes:
                raise _too_large(max_body_bytes)
        elif name == b"content-encoding" and value.strip().lower() != b"identity":
            # An API server never encodes a review, and a decoder could be attacked with a decompression bomb.
            raise _unsupported_media_type("was encoded - accepted content encodings include: identity")
    if media_type != b"application/json" and not _is_utf8_json(media_type):
        raise _unsupported_media_type(
            "was in an unknown format - accepted media types include: application/json"
        )


def _is_utf8_json(media_type: bytes) -> bool:
    message = Message()
    message["content-type"] = media_type.decode("latin-1")
    charset = message.get_content_charset("utf-8")
    return message.get_content_type() == "application/json" and charset in {"utf-8", "utf8"}


async def read_body(receive: Receive, max_body_bytes: int, hold: Callable[[int], None]) -> list[bytes]:
    """Read a body in the pieces in which it arrives, and pass the size of each to ``hold``.

    Joining megabytes takes some milliseconds, so the event loop does not do it.

    Raises:
        RequestError: the body is too large (413), or ``hold`` refuses it.
        ClientGoneError: the client closed the connection before the end of the body.
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


_SYSTEM_NAMESPACES = frozenset({"kube-system", "kube-node-lease"})
_COMPONENTS = frozenset({"system:kube-controller-manager", "system:kube-scheduler"})
_KUBE_SYSTEM_ACCOUNTS = "system:serviceaccount:kube-system:"
_LEASES = ("coordination.k8s.io", "leases")
_NODE_RESOURCES = frozenset({("", "nodes"), _LEASES})


class PriorityLevel(enum.StrEnum):
    """The priority of a review, by the names of API Priority and Fairness."""

    EXEMPT = "exempt"
    """Administrators (``system:masters``) and the API server itself."""
    LEADER_ELECTION = "leader-election"
    """Leases of components: a component that loses its lease stops."""
    NODE_HIGH = "node-high"
    """Heartbeats of nodes; the Pods of a node without heartbeats are evicted."""
    SYSTEM = "system"
    """Other requests of nodes."""
    WORKLOAD_HIGH = "workload-high"
    """The controller manager, the scheduler, and service accounts in ``kube-system``."""
    ORDINARY = "ordinary"
    """Everybody else: ``workload-low`` and ``global-default``."""


def priority_of(review: Review) -> PriorityLevel:
    """Return the priority of a review."""
    user, resource = review.user, (review.resource.group, review.resource.resource)
    if "system:masters" in user.groups or user.username == "system:apiserver":
        return PriorityLevel.EXEMPT
    is_component = user.username in _COMPONENTS or user.username.startswith(_KUBE_SYSTEM_ACCOUNTS)
    is_node = "system:nodes" in user.groups
    if is_node:
        return PriorityLevel.NODE_HIGH if resource in _NODE_RESOURCES else PriorityLevel.SYSTEM
    if resource == _LEASES and (is_component or review.namespace in _SYSTEM_NAMESPACES):
        return PriorityLevel.LEADER_ELECTION
    return PriorityLevel.WORKLOAD_HIGH if is_component else PriorityLevel.ORDINARY


MIN_REVIEW_BYTES = 64 * 1024
"""The minimum a complete review counts for: small reviews cost objects and tasks, not bytes."""
SMALL_BODY_BYTES = 256 * 1024
"""Up to this size, an incomplete body may use the reserve, as its priority is not known yet. A Node with fifty images
and their names has 30 KiB."""
UNREAD = "unread"
"""The label for the priority of a review whose body is incomplete."""


class LoadLimits(msgspec.Struct, frozen=True):
    """How many bytes and reviews may be held. 0 is no limit, except in the first."""

    total_bytes: int
    """Bytes of all reviews together."""
    reserved_bytes: int = 0
    """Additional bytes for urgent reviews."""
    unfinished_bytes: int = 0
    """Bytes of incomplete bodies, part of the total."""
    holder_requests: int = 0
    """Reviews in flight of one caller, or of one address if callers are not authenticated."""
    holder_bytes: int = 0
    """Bytes of those reviews."""


class Load:
    """The bytes that all requests together hold."""

    __slots__ = (
        "_bytes_of",
        "_limits",
        "_requests_of",
        "held_bytes",
        "refused",
        "reviews",
        "unfinished_bytes",
    )

    def __init__(self, limits: LoadLimits) -> None:
        """Start with nothing held."""
        self._limits = limits
        self.held_bytes = 0
        self.unfinished_bytes = 0
        self.reviews = 0
        """Requests in flight."""
        self.refused: collections.Counter[tuple[str, ...]] = collections.Counter()
        """Refused requests, by the priority of the review and by the limit."""
        self._bytes_of: collections.Counter[str] = collections.Counter()
        self._requests_of: collections.Counter[str] = collections.Counter()

    @property
    def limit_bytes(self) -> int:
        """The bytes that reviews that are not urgent may hold."""
        return self._limits.total_bytes

    @property
    def shed(self) -> int:
        """The number of refused requests."""
        return self.refused.total()

    def begin_request(self, holder: str) -> None:
        """Count a request."""
        self.reviews += 1
        self._requests_of[holder] += 1

    def end_request(self, holder: str, size: int) -> None:
        """Forget a request, and release what it held."""
        self.reviews -= 1
        self._requests_of[holder] -= 1
        self._bytes_of[holder] -= size
        self.held_bytes -= size
        if not self._requests_of[holder]:
            del self._requests_of[holder], self._bytes_of[holder]

    def take(self, size: int, holder: str, priority: PriorityLevel | None, *, may_use_reserve: bool) -> None:
        """Hold more bytes.

        Raises:
            RequestError: a limit would be exceeded (503); nothing has changed then.
        """
        reason = self._excess(size, holder, priority, may_use_reserve=may_use_reserve)
        if reason:
            self.refused[priority or UNREAD, reason] += 1
            text = "the server is currently unable to handle the request: too many reviews are in flight"
            raise RequestError(statuses.service_unavailable(text))
        self.held_bytes += size
        self._bytes_of[holder] += size

    def _excess(
        self, size: int, holder: str, priority: PriorityLevel | None, *, may_use_reserve: bool
    ) -> str | None:
        """Return the limit that would be exceeded; None if there is none."""
        limits = self._limits
        reserved = limits.reserved_bytes if may_use_reserve else 0
        if self.held_bytes + size > limits.total_bytes + reserved:
            return "total"
        if priority is None:
            too_many = limits.unfinished_bytes and self.unfinished_bytes + size > limits.unfinished_bytes
            return "unfinished" if too_many else None
        if priority is not PriorityLevel.ORDINARY:
            return None
        if limits.holder_requests and self._requests_of[holder] > limits.holder_requests:
            return "caller"
        if limits.holder_bytes and self._bytes_of[holder] + size > limits.holder_bytes:
            return "caller"
        return None


class LoadShare:
    """What one request holds until its ``with`` block ends."""

    __slots__ = ("_bytes", "_holder", "_load", "_unfinished")

    def __init__(self, load: Load, holder: str = "") -> None:
        """Start with nothing held; ``holder`` is the caller, or the address if callers are not authenticated."""
        self._load = load
        self._holder = holder
        self._bytes = 0
        self._unfinished = 0

    def hold(self, size: int) -> None:
        """Hold more bytes of a body; raises RequestError (503) if a limit would be exceeded."""
        small = self._bytes + size <= SMALL_BODY_BYTES
        self._load.take(size, self._holder, None, may_use_reserve=small)
        self._bytes += size
        self._unfinished += size
        self._load.unfinished_bytes += size

    def complete(self, priority: PriorityLevel = PriorityLevel.ORDINARY) -> None:
        """Count the request as a review; until then, a client that sends nothing costs nothing.

        Raises RequestError (503) if that exceeds a limit for a review of that priority.
        """
        more = max(0, MIN_REVIEW_BYTES - self._bytes)
        is_urgent = priority is not PriorityLevel.ORDINARY
        self._load.take(more, self._holder, priority, may_use_reserve=is_urgent)
        self._bytes += more
        self._finish()

    def _finish(self) -> None:
        self._load.unfinished_bytes -= self._unfinished
        self._unfinished = 0

    def __enter__(self) -> Self:
        self._load.begin_request(self._holder)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._finish()
        self._load.end_request(self._holder, self._bytes)


_logger = logging.getLogger(__name__)


class JSONReply(msgspec.Struct, frozen=True):
    """A response with a JSON body."""

    code: int
    """HTTP status code."""
    body: bytes
    """The JSON text."""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    """Headers other than those about the body, with names in lower case."""

    async def send(self, send: Send) -> None:
        """Send the response."""
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(self.body)),
            *self.headers,
        ]
        await send({"type": "http.response.start", "status": self.code, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


def status_reply(status: Status, headers: tuple[tuple[bytes, bytes], ...] = ()) -> JSONReply:
    """Return a response for a failure; its HTTP code is the code of the Status."""
    return JSONReply(status.code, encode(statuses.to_document(status)), headers)


def not_found() -> Status:
    """Return a 404 with the message of ``NewGenericServerResponse``."""
    return statuses.failure(404, "NotFound", "the server could not find the requested resource")


def shutting_down() -> Status:
    """Return a 503 for reviews that are undecided when the time for draining is over."""
    return statuses.service_unavailable("the server is shutting down")


def failure_status(error: Exception, path: str) -> Status:
    """Return the Status for an exception that was raised while a request was handled.

    ============================ ==== =======================================================================
    raised                       code meaning
    ============================ ==== =======================================================================
    ReviewError                  400  not JSON, not an AdmissionReview, no request or uid
    RequestError                 its  what the HTTP request itself has wrong, or overload (503)
    RefusalError                 its  objects of a live cluster that are not confirmed (503)
    OutageError                  its  the mutator or the validators: 504 where time ran out, 503 otherwise
    TimeoutError                 504  the time that the caller gave, or the default, is over
    anything else                500  a fault of Pratique, logged under an id that the caller gets
    ============================ ==== =======================================================================
    """
    if isinstance(error, RequestError | OutageError | RefusalError):
        return error.status
    if isinstance(error, ReviewError):
        return statuses.bad_request(str(error))
    if isinstance(error, TimeoutError):
        # k8s.io/apiserver/pkg/endpoints/handlers/finisher/finisher.go
        return statuses.timeout(
            "request did not complete within requested timeout - context deadline exceeded"
        )
    return _internal_error(error, path)


def _internal_error(error: Exception, path: str) -> Status:
    error_id = secrets.token_hex(8)
    _logger.error(
        "a request failed with an internal error", exc_info=error, extra={"error_id": error_id, "path": path}
    )
    return statuses.internal_error(f"unexpected failure of the front door, logged as {error_id}")


_INFORMATIONAL = b"HTTP/1.1 1"
"""How the head of an informational response starts, which another head follows: ``100 Continue``."""


class ResponseWriter:
    """Writes one response with a body to a connection, its head together with the first part of the body."""

    __slots__ = ("_head", "_is_begun", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        """Start with nothing written to ``transport``."""
        self._transport = transport
        self._head: bytes | None = None
        self._is_begun = False

    def write(self, data: bytes) -> None:
        """Write data, but hold the head back; a closing connection gets nothing more."""
        if self._transport.is_closing():
            return
        if self._head is not None:
            head, self._head = self._head, None
            self._transport.writelines((head, data))
        elif self._is_begun or data.startswith(_INFORMATIONAL):
            self._transport.write(data)
        else:
            self._head, self._is_begun = data, True

    def close(self) -> None:
        """Close the connection when everything is written, including a head without a body."""
        if self._head is not None:
            self._transport.write(self._head)
            self._head = None
        self._transport.close()

    def is_closing(self) -> bool:
        """Whether the connection is closed, or about to be."""
        return self._transport.is_closing()
