"""Tracers: OpenTelemetry's SDK as a service uses it. Only :mod:`pratique.telemetry.tracing` imports this."""

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
"""As OpenTelemetry's packages call them."""
_FLUSH_SECONDS = 2.0
"""How long the end of a process waits for the last spans to go out. A collector that hangs must not keep it."""
_WARNING_SECONDS = 60.0
"""How long nothing more is said of an exporter that fails: it does every five seconds, until somebody sees to it."""


class Tracing:
    """Makes spans, and sends them in a thread of its own."""

    def __init__(self, provider: TracerProvider) -> None:
        """Use :meth:`open`."""
        self._provider = provider
        self._tracer = provider.get_tracer("pratique", version("pratique"))
        self._propagator = TraceContextTextMapPropagator()

    @classmethod
    def open(cls, service: str, exporter: str, protocol: str) -> Tracing:
        """Send spans by ``exporter``: ``otlp`` by ``protocol``, or ``console``, which is standard error."""
        _replace_sdk_logs()
        ours = {"service.name": f"pratique-{service}", "service.version": version("pratique")}
        # Sampler, limits and batches are read from the environment by the SDK itself.
        provider = TracerProvider(
            resource=Resource(ours).merge(OTELResourceDetector().detect()), shutdown_on_exit=False
        )
        provider.add_span_processor(BatchSpanProcessor(_exporter(exporter, protocol)))
        return cls(provider)

    def parent(self, headers: Mapping[str, str]) -> Context:
        """The context that a caller gives in ``traceparent`` and ``tracestate``; a new one where it gives none."""
        return self._propagator.extract(headers)

    def start(
        self, name: str, parent: Context, kind: SpanKind, begun: int, attributes: Mapping[str, AttributeValue]
    ) -> Span:
        """Begin a span; ``begun`` is in nanoseconds since 1970."""
        return self._tracer.start_span(name, parent, kind, attributes, start_time=begun)

    def child_context(self, span: Span) -> Context:
        """The context of what happens within a span."""
        return set_span_in_context(NonRecordingSpan(span.get_span_context()))

    def carried(self, span: Span) -> TraceMetadata:
        """What calls say that are made within a span."""
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier, self.child_context(span))
        return tuple(carrier.items())

    def close(self) -> None:
        """Send what is there, and no more; but do not wait long for it."""
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
    """Says that something is wrong with traces, rarely, and without what the SDK says: that quotes answers."""

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
