"""Responses: what leaves the front door, and the Status that says of each failure what it was."""

from __future__ import annotations

import dataclasses
import logging
import secrets
from typing import TYPE_CHECKING

from frontdoor.chain.outages import OutageError
from frontdoor.http.requests import RequestError
from pratique.apimachinery import statuses
from pratique.apimachinery.errors import ReviewError
from pratique.apimachinery.json_values import encode

if TYPE_CHECKING:
    import asyncio

    from starlette.types import Send

    from pratique.apimachinery.statuses import Status

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class JSONReply:
    """An answer with a JSON body."""

    code: int
    """HTTP status code."""
    body: bytes
    """JSON text."""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    """Headers beside those that tell about the body, names in lower case."""

    async def send(self, send: Send) -> None:
        """Send it whole."""
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(self.body)),
            *self.headers,
        ]
        await send({"type": "http.response.start", "status": self.code, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


def status_reply(status: Status, headers: tuple[tuple[bytes, bytes], ...] = ()) -> JSONReply:
    """Tell of a failure; the Status' code is the HTTP code."""
    return JSONReply(status.code, encode(statuses.to_document(status)), headers)


def not_found() -> Status:
    """404, in the words of ``NewGenericServerResponse``."""
    return statuses.failure(404, "NotFound", "the server could not find the requested resource")


def method_not_allowed() -> Status:
    """405, in the words of ``NewGenericServerResponse``."""
    text = "the server does not allow this method on the requested resource"
    return statuses.failure(405, "MethodNotAllowed", text)


def shutting_down() -> Status:
    """503, for what is still undecided when the time for draining is over."""
    return statuses.service_unavailable("the server is shutting down")


def failure_status(error: Exception, path: str) -> Status:
    """Find the Status for what was raised while a request was answered.

    ============================ ==== =======================================================================
    raised                       code meaning
    ============================ ==== =======================================================================
    ReviewError                  400  not JSON, not an AdmissionReview, no request or uid
    RequestError                 its  what the HTTP request itself has wrong, or overload (503)
    OutageError                  its  the mutator or the validators: 504 where time ran out, 503 otherwise
    TimeoutError                 504  the time that the caller gave, or the default, is over
    anything else                500  a fault of Pratique, logged under an id; the caller is told the id
    ============================ ==== =======================================================================
    """
    if isinstance(error, RequestError | OutageError):
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
        "a request could not be answered", exc_info=error, extra={"error_id": error_id, "path": path}
    )
    return statuses.internal_error(f"unexpected failure of the front door, logged as {error_id}")


_INFORMATIONAL = b"HTTP/1.1 1"
"""How a head begins that another follows: ``100 Continue``."""


class ResponseWriter:
    """Writes one response that has a body to a connection: its head together with what comes next."""

    __slots__ = ("_head", "_is_begun", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        """Write to ``transport``; nothing has been."""
        self._transport = transport
        self._head: bytes | None = None
        self._is_begun = False

    def write(self, data: bytes) -> None:
        """Write, or keep what is the head; a connection that is being closed gets nothing more."""
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
        """Close the connection when all is written, be it a head that nothing follows."""
        if self._head is not None:
            self._transport.write(self._head)
            self._head = None
        self._transport.close()

    def is_closing(self) -> bool:
        """Whether the connection is closed, or about to be."""
        return self._transport.is_closing()
