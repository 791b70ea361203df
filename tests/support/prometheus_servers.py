"""Prometheus servers: real HTTP servers on loopback that speak the query API, and answer as told.

::

    with serve(lambda question: vector(usage=100, samples=120)) as server:
        ...  # server.url, server.asked
"""

from __future__ import annotations

import contextlib
import dataclasses
import http.server
import json
import ssl
import threading
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import trustme


@dataclasses.dataclass(frozen=True)
class Question:
    """One request."""

    path: str
    query: str
    time: str
    headers: Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class Reply:
    """What is answered."""

    body: bytes
    code: int = 200
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    announced: int | None = None
    """The length that the head says, where it is another than the body's."""


@dataclasses.dataclass
class Server:
    """A server that runs."""

    url: str
    asked: list[Question]


def document(of: Any, code: int = 200) -> Reply:
    """A JSON document."""
    return Reply(json.dumps(of).encode(), code, {"Content-Type": "application/json"})


def vector(**values: object) -> Reply:
    """An instant vector with an element for each value, as the label ``answer`` names them."""
    result = [
        {"metric": {"answer": name}, "value": [1_435_781_430.781, str(value)]}
        for name, value in values.items()
    ]
    return document({"status": "success", "data": {"resultType": "vector", "result": result}})


def failure(error_type: str, error: str, code: int) -> Reply:
    """An error as Prometheus tells it."""
    return document({"status": "error", "errorType": error_type, "error": error}, code)


@contextlib.contextmanager
def serve(
    answer: Callable[[Question], Reply], certificate: trustme.LeafCert | None = None
) -> Iterator[Server]:
    """Serve until the block ends, over TLS with a certificate.

    ``answer`` runs in a thread of its own for each connection.
    """
    asked: list[Question] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            form = urllib.parse.parse_qs(body, strict_parsing=True)
            (query,), (time,) = form["query"], form["time"]
            asked.append(Question(self.path, query, time, dict(self.headers.items())))
            with contextlib.suppress(ConnectionError):
                self._reply(answer(asked[-1]))

        def _reply(self, reply: Reply) -> None:
            self.send_response(reply.code)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            length = len(reply.body) if reply.announced is None else reply.announced
            self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.write(reply.body)
            self.close_connection = reply.announced is not None

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base class has it
            """Stay silent."""

    class Listener(http.server.ThreadingHTTPServer):
        request_queue_size = 64  # who comes when it is full comes again a second later

        def handle_error(self, *_: object) -> None:
            """Stay silent: a client that refuses the certificate breaks off."""

    server = Listener(("127.0.0.1", 0), Handler)
    host = "http://127.0.0.1"
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate.configure_cert(context)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        host = "https://localhost"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield Server(f"{host}:{server.server_address[1]}", asked)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
