"""Call traces: a span for each call of a gRPC server, in the trace that the call's metadata name."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import grpc
from opentelemetry.trace import SpanKind, StatusCode

from pratique.rpc.handlers import OK, BytesHandler, Context
from pratique.rpc.metrics import status_code_name

if TYPE_CHECKING:
    from pratique.telemetry.tracers import Tracing

_CATALOGUE_SERVICE = "pratique.admission.v1.CatalogueService"
_TRACE_HEADERS = frozenset({"traceparent", "tracestate"})


class CallTraces:
    """Traces the calls of every method that it wraps. Spans contain nothing from messages or error texts."""

    def __init__(self, tracing: Tracing) -> None:
        """Create spans with ``tracing``."""
        self._tracing = tracing

    def wrap(self, service: str, methods: Mapping[str, Any]) -> dict[str, grpc.RpcMethodHandler[Any, Any]]:
        """Wrap every unary method of a service, outside its other wrappers.

        The catalogue is not traced: front doors read it for every readiness probe, not for reviews.
        """
        if service == _CATALOGUE_SERVICE:
            return dict(methods)
        return {
            name: grpc.unary_unary_rpc_method_handler(
                self._traced(method.unary_unary, service, name),
                method.request_deserializer,
                method.response_serializer,
            )
            for name, method in methods.items()
        }

    def _traced(self, handler: BytesHandler, service: str, method: str) -> BytesHandler:
        attributes = {"rpc.system": "grpc", "rpc.service": service, "rpc.method": method}
        name = f"{service}/{method}"

        async def traced(request: bytes, context: Context) -> bytes:
            metadata = context.invocation_metadata() or ()
            headers = {key: str(value) for key, value in metadata if key in _TRACE_HEADERS}
            parent = self._tracing.parent(headers)
            span = self._tracing.start(name, parent, SpanKind.SERVER, time.time_ns(), attributes)
            code = OK
            try:
                return await handler(request, context)
            except BaseException as error:
                code = status_code_name(error, context)
                span.set_status(StatusCode.ERROR)
                raise
            finally:
                span.set_attribute("rpc.response.status_code", code)
                span.end()

        return traced
