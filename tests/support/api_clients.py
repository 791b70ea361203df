"""Callers of an API server: JSON in, and the code, JSON and warnings of the answer out."""

from __future__ import annotations

import dataclasses
import http.client
import json
import re
import ssl
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_PATCHES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
_WARNING = re.compile(r'299 (?:-|\S+) "((?:[^"\\]|\\.)*)"')
"""A ``Warning`` header of RFC 7234, section 5.5, as API servers write it."""

_IDLE_SECONDS = 60
"""An API server closes a connection that was idle for 90 s."""


@dataclasses.dataclass(frozen=True, slots=True)
class Reply:
    """What an API server answered."""

    code: int
    body: Any
    """JSON; text where the answer is none, as of ``/readyz``."""
    warnings: list[str]


class Client:
    """One keep-alive connection of one user, to be used by one thread at a time."""

    def __init__(self, port: int, authority: Path, token: str, headers: Mapping[str, str]) -> None:
        self._headers = {"Authorization": f"Bearer {token}", "Accept": "application/json", **headers}
        context = ssl.create_default_context(cafile=str(authority))
        self._connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=60, context=context)
        self._used = time.monotonic()

    def ask(self, method: str, path: str, body: Any = None, *, patch: str = "merge", **headers: str) -> Reply:
        """Send a request; ``patch`` is the kind of a PATCH, and ``headers`` are for this request alone."""
        kind = _PATCHES[patch] if method == "PATCH" else "application/json"
        content = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        if time.monotonic() - self._used > _IDLE_SECONDS:
            self._connection.close()
        self._used = time.monotonic()
        self._connection.request(method, path, content, {**self._headers, "Content-Type": kind, **headers})
        with self._connection.getresponse() as answer:
            text = answer.read().decode()
            headed = ", ".join(answer.headers.get_all("Warning", []))
            warned = _WARNING.findall(headed.encode("latin-1").decode(errors="replace"))
            parsed = json.loads(text) if "json" in answer.headers.get("Content-Type", "") else text
            return Reply(answer.status, parsed, [re.sub(r"\\(.)", r"\1", warning) for warning in warned])

    def must(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request that has to succeed, and return the object that came back."""
        reply = self.ask(method, path, body)
        assert reply.code < 300, (method, path, reply.code, reply.body)
        return reply.body

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
