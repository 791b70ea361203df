"""Collectors of traces: real servers that take spans by OTLP, over gRPC or HTTP, and remember them."""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import http.server
import threading
from collections.abc import Iterator, Mapping
from concurrent import futures
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
    TraceServiceServicer,
    add_TraceServiceServicer_to_server,
)

from support.waiting import within

PATIENCE_SECONDS = 120


@dataclasses.dataclass(frozen=True, slots=True)
class Span:
    """A span that was received."""

    service: str
    name: str
    trace: str
    id: str
    parent: str
    begun: int
    ended: int
    attributes: Mapping[str, Any]
    failed: bool


class Collector:
    """What was received."""

    def __init__(self) -> None:
        """Begin without anything."""
        self.requests: list[ExportTraceServiceRequest] = []
        self.headers: list[dict[str, str]] = []
        self.endpoint = ""

    @property
    def raw(self) -> bytes:
        """All of it, as it came."""
        return b"".join(request.SerializeToString() for request in self.requests)

    @property
    def spans(self) -> list[Span]:
        """All spans."""
        return [
            span
            for request in list(self.requests)
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in _spans(_attributes(resource.resource.attributes), scope.spans)
        ]

    def named(self, name: str) -> list[Span]:
        """The spans of that name."""
        return [span for span in self.spans if span.name == name]

    def wait_for(self, count: int, name: str = "") -> list[Span]:
        """Wait for so many spans, of that name where one is given."""
        assert within(PATIENCE_SECONDS, lambda: len(self._found(name)) >= count), self.spans
        return self._found(name)

    def _found(self, name: str) -> list[Span]:
        return self.named(name) if name else self.spans


def _spans(resource: Mapping[str, Any], spans: Any) -> Iterator[Span]:
    for span in spans:
        yield Span(
            resource["service.name"],
            span.name,
            span.trace_id.hex(),
            span.span_id.hex(),
            span.parent_span_id.hex(),
            span.start_time_unix_nano,
            span.end_time_unix_nano,
            _attributes(span.attributes),
            span.status.code == span.status.STATUS_CODE_ERROR,
        )


def _attributes(given: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in given}


@contextlib.contextmanager
def collecting_over_grpc() -> Iterator[Collector]:
    """Run a collector that speaks gRPC."""
    collector = Collector()

    class Servicer(TraceServiceServicer):
        def Export(self, request: Any, context: Any) -> Any:  # noqa: N802 - as in the proto
            collector.headers.append(dict(context.invocation_metadata()))
            collector.requests.append(request)
            return ExportTraceServiceResponse()

    server = grpc.server(futures.ThreadPoolExecutor(2))
    add_TraceServiceServicer_to_server(Servicer(), server)  # type: ignore[no-untyped-call] # generated without types
    collector.endpoint = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield collector
    finally:
        server.stop(None).wait()


@contextlib.contextmanager
def collecting_over_http(status: int = 200) -> Iterator[Collector]:
    """Run a collector that speaks HTTP, and answers with that status."""
    collector = Collector()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers["Content-Encoding"] == "gzip":
                body = gzip.decompress(body)
            collector.headers.append(dict(self.headers))
            collector.requests.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(status)
            self.end_headers()

        def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - its name
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join()
