"""HTTPS exchanges: one POST, and the redirects and retries that follow from its answer.

Sources: Go's ``net/http/client.go`` ``do``; ``k8s.io/client-go/rest/{request,with_retry}.go``. Unlike there,
a redirect is followed to HTTPS only, and takes no credentials to another host.
"""

from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING
from urllib.parse import quote, urljoin, urlsplit

from pratique.errors import UnreachableError
from pratique.https.failed_posts import failed_post
from pratique.statuses import go_quoted

if TYPE_CHECKING:
    from pratique.calls import Deadline
    from pratique.https.http_answers import HttpAnswer
    from pratique.https.https_sessions import Session

Headers = tuple[tuple[str, str], ...]

_MOST_REDIRECTS = 10
_MOST_RETRIES = 10
_URL_CHARACTERS = "!#$%&'()*+,/:;=?@[]~"
"""What may stand in a URL, beside letters, digits and ``_.-``."""

_TO_GET = frozenset({301, 302, 303})
_AS_IT_WAS = frozenset({307, 308})


@dataclasses.dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request to a webhook."""

    url: str
    host: str
    """The Host header: ``host`` or ``host:port``."""
    body: bytes
    headers: Headers
    """Those that describe the body and the caller."""
    credentials: Headers
    """Those that prove who the caller is."""
    method: str = "POST"

    def redirected(self, answer: HttpAnswer, url: str) -> HttpRequest:
        """The request that follows from a redirect to ``url``."""
        host = urlsplit(url).netloc.rpartition("@")[2]
        credentials = self.credentials if host == self.host else ()
        headers = (*self.headers, ("Referer", self.url))
        if answer.status in _AS_IT_WAS:
            return HttpRequest(url, host, self.body, headers, credentials, self.method)
        headers = tuple(pair for pair in headers if pair[0] != "Content-Type")
        return HttpRequest(url, host, b"", headers, credentials, "GET")


async def exchange(session: Session, request: HttpRequest, deadline: Deadline) -> HttpAnswer:
    """Send a request until an answer comes that is not to be asked for again.

    Raises:
        CallError: none came; the text is Go's.
    """
    answer = await _follow(session, request, deadline)
    for _ in range(_MOST_RETRIES):
        if answer.retry_seconds is None:
            break
        await asyncio.sleep(min(answer.retry_seconds, deadline.remaining_seconds))
        answer = await _follow(session, request, deadline)
    return answer


async def _follow(session: Session, first: HttpRequest, deadline: Deadline) -> HttpAnswer:
    request, answer = first, await _send(session, first, deadline)
    for _ in range(_MOST_REDIRECTS - 1):
        if not _redirects(answer):
            return answer
        request = request.redirected(answer, _location(request, answer))
        answer = await _send(session, request, deadline)
    if _redirects(answer):
        raise UnreachableError(failed_post(answer.location, f"stopped after {_MOST_REDIRECTS} redirects"))
    return answer


def _location(request: HttpRequest, answer: HttpAnswer) -> str:
    try:
        return quote(urljoin(request.url, answer.location), safe=_URL_CHARACTERS)
    except ValueError as error:
        reason = f"failed to parse Location header {go_quoted(answer.location)}: {error}"
        raise UnreachableError(failed_post(request.url, reason)) from None


def _redirects(answer: HttpAnswer) -> bool:
    return answer.status in _TO_GET | _AS_IT_WAS and bool(answer.location)


async def _send(session: Session, request: HttpRequest, deadline: Deadline) -> HttpAnswer:
    if not request.url.startswith("https:"):
        scheme = urlsplit(request.url).scheme
        raise UnreachableError(failed_post(request.url, f"unsupported protocol scheme {go_quoted(scheme)}"))
    headers = (("Host", request.host), *request.headers, *request.credentials)
    return await session.send(request.method, request.url, headers, request.body, deadline)
