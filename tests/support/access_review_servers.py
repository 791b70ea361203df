"""API servers that answer SubjectAccessReviews by a script, and stores whose reviews ask them."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from pratique.cluster.api_server import connect
from pratique.cluster.store import ObjectStore
from pratique.cluster.subject_access_reviews import SubjectAccessReviews


class AccessReviewServer(ThreadingHTTPServer):
    """Allows what ``ann`` does, and nothing else, once its script is used up."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script: list[tuple[int, dict[str, Any]]] = []
        """Code and body of the next answers; code 0 ends the connection without one."""
        self.asked: list[dict[str, Any]] = []
        """The specs of the reviews so far."""
        self.released = threading.Event()
        """Cleared, it lets callers wait."""
        self.released.set()
        self.arrived = threading.Event()
        """Set by the first question."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: AccessReviewServer

    def do_POST(self) -> None:
        spec = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["spec"]
        assert self.path == "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        self.server.asked.append(spec)
        self.server.arrived.set()
        self.server.released.wait(120)
        scripted = self.server.script.pop(0) if self.server.script else None
        code, body = scripted or (201, {"status": {"allowed": spec["user"] == "ann"}})
        if code == 0:
            self.close_connection = True
            return
        text = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def access_review_server() -> Iterator[AccessReviewServer]:
    """Run such a server until the block ends."""
    with AccessReviewServer() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server
        finally:
            server.released.set()
            server.shutdown()
            thread.join()


@contextlib.asynccontextmanager
async def asking(server: AccessReviewServer, folder: Path, *seconds: float) -> AsyncIterator[ObjectStore]:
    """Give a store whose reviews ask the server; ``seconds`` are how long answers are remembered."""
    path = folder / "kubeconfig"
    path.write_text(
        "{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}],"
        f" users: [{{name: a, user: {{}}}}], clusters: [{{name: a, cluster: {{server: 'http://127.0.0.1:"
        f"{server.server_port}'}}}}]}}"
    )
    connection = await connect(path)
    store = ObjectStore(assume_namespaces=True)
    store.access_reviews = reviews = SubjectAccessReviews(connection, *seconds)
    try:
        yield store
    finally:
        await reviews.close()
        await connection.close()
