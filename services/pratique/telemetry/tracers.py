"""Spans by OpenTelemetry's SDK. Only :mod:`pratique.telemetry.tracing` imports this module, if tracing is on."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Mapping
from importlib.metadata import entry_points, version
from typing import TYPE_CHECKING

from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter
from opentelemetry.trace import NonRecordingSpan, Span, SpanKind, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from pratique.telemetry.tracing import TraceMetadata

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.util.types import AttributeValue

_log = logging.getLogger(__name__)

_EXPORTERS = {"grpc": "otlp_proto_grpc", "http/protobuf": "otlp_proto_http"}
"""The entry points of OpenTelemetry's exporter packages, by protocol."""
_FLUSH_SECONDS = 2.0
"""How long a process waits at its end for the last spans to be sent. A hanging collector must not delay it further."""
_WARNING_SECONDS = 60.0
"""The minimum interval between warnings about a failing exporter, which fails every five seconds until it is fixed."""


class Tracing:
    """Creates spans, and exports them in a background thread."""

    def __init__(self, provider: TracerProvider) -> None:
        """Use :meth:`open`."""
        self._provider = provider
        self._tracer = provider.get_tracer("pratique", version("pratique"))
        self._propagator = TraceContextTextMapPropagator()

    @classmethod
    def open(cls, service: str, exporter: str, protocol: str) -> Tracing:
        """Export spans by ``exporter``: ``otlp`` over ``protocol``, or ``console``, which is standard error."""
        _replace_sdk_logs()
        service_resource = {"service.name": f"pratique-{service}", "service.version": version("pratique")}
        # The SDK itself reads sampler, limits and batch sizes from the environment.
        provider = TracerProvider(
            resource=Resource(service_resource).merge(OTELResourceDetector().detect()), shutdown_on_exit=False
        )
        provider.add_span_processor(BatchSpanProcessor(_exporter(exporter, protocol)))
        return cls(provider)

    def parent(self, headers: Mapping[str, str]) -> Context:
        """The trace context in a caller's ``traceparent`` and ``tracestate`` headers; an empty one without them."""
        return self._propagator.extract(headers)

    def start(
        self, name: str, parent: Context, kind: SpanKind, begun: int, attributes: Mapping[str, AttributeValue]
    ) -> Span:
        """Start a span; ``begun`` is in nanoseconds since 1970."""
        return self._tracer.start_span(name, parent, kind, attributes, start_time=begun)

    def child_context(self, span: Span) -> Context:
        """The context for children of a span."""
        return set_span_in_context(NonRecordingSpan(span.get_span_context()))

    def metadata_for(self, span: Span) -> TraceMetadata:
        """The metadata of calls made within a span."""
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier, self.child_context(span))
        return tuple(carrier.items())

    def close(self) -> None:
        """Export the remaining spans and shut down, without waiting long."""
        closing = threading.Thread(target=self._provider.shutdown, daemon=True)
        closing.start()
        closing.join(_FLUSH_SECONDS)


def _exporter(name: str, protocol: str) -> SpanExporter:
    if name == "console":
        return ConsoleSpanExporter(out=sys.stderr)
    (found,) = entry_points(group="opentelemetry_traces_exporter", name=_EXPORTERS[protocol])
    exporter: SpanExporter = found.load()()
    return exporter


class _ExportWarnings(logging.Handler):
    """Replaces the SDK's warnings, which quote responses, by a rare warning of our own."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._silent_until = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        now = time.monotonic()
        if now >= self._silent_until:
            self._silent_until = now + _WARNING_SECONDS
            _log.warning("traces are lost: they cannot be sent", extra={"reason": record.name})


def _replace_sdk_logs() -> None:
    sdk = logging.getLogger("opentelemetry")
    sdk.handlers[:] = [_ExportWarnings()]
    sdk.propagate = False
