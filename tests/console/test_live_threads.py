"""Where pages of the console of a front door are made: reviews go before those who look at them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from starlette.types import Message, Scope

from pratique_frontdoor.console.app import build_live_console
from pratique_frontdoor.console.live import LiveDecisions
from pratique_frontdoor.console.playground import DecidedReview
from support.blame_cases import decided
from support.services.reviews import POD, review_of
from support.watched_documents import WatchedDocument


class OneDecision(LiveDecisions):
    """Keeps one decision, and tells in which threads its object is read."""

    def __init__(self) -> None:
        super().__init__()
        self.document = WatchedDocument(json.dumps(POD).encode())

    def decision(self, number: int) -> DecidedReview:
        added = {"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}}
        return DecidedReview(f"Pod {number}", review_of().with_object(self.document), decided(POD, [added]))


async def get(live: LiveDecisions, path: str) -> tuple[int, bytes]:
    """Get a page as the front door would; its code and text."""
    sent: list[Message] = []
    scope: Scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "root_path": "",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
    }

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    await build_live_console(live, lambda: "", loopback_only=False)(scope, receive, send)
    body = b"".join(message.get("body", b"") for message in sent)
    code: Any = sent[0]["status"]
    return code, body


def test_the_page_of_a_decision_is_made_in_the_threads_of_large_reviews() -> None:
    live = OneDecision()
    code, page = asyncio.run(get(live, "/decisions/1"))
    assert (code, b"seen" in page) == (200, True)
    assert set(live.document.threads) == {"pratique-large-reviews"}
