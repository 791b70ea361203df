"""Call metrics: what becomes of the calls of a gRPC server.

Names and labels are those of go-grpc-middleware's ``providers/prometheus``, which dashboards for gRPC know.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import grpc

from pratique.measures.series import Counts, Durations, Observed
from pratique.rpc.codes import CANCELED, NAMES, NAMES_BY_NUMBER, OK
from pratique.rpc.repetitions import is_repeated

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prometheus_client.metrics_core import Metric

    from pratique.rpc.handlers import Context, Handler

_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Seconds. A call of built-in controllers takes 0.5 to 5 ms, and none has more than 30 s."""
_UNARY = "unary"

_UNKNOWN = NAMES[grpc.StatusCode.UNKNOWN]
_SHED = NAMES[grpc.StatusCode.RESOURCE_EXHAUSTED]


class CallMetrics:
    """Counts the calls of every method that it stands round."""

    def __init__(self) -> None:
        """Start at zero."""
        method = ("grpc_type", "grpc_service", "grpc_method")
        self._started = Counts("grpc_server_started_total", "Calls that came, by method.", method)
        self._handled = Counts(
            "grpc_server_handled_total", "Calls that ended, by method and code.", (*method, "grpc_code")
        )
        self._seconds = Durations(
            "grpc_server_handling_seconds", "Time from a call to its answer, by method.", _BUCKETS, method
        )
        self._repeated = Counts(
            "pratique_service_repeated_calls_total",
            "Calls that the caller's gRPC made again because a service that was asked before broke off.",
            (),
        )
        self._shed = Counts(
            "pratique_service_shed_calls_total", "Calls refused because too many were in flight.", ()
        )
        self.in_flight = 0
        """Calls that are being answered now."""

    def collect(self) -> Iterator[Metric]:
        """Yield all of them, for a registry."""
        in_flight = Observed(
            "pratique_service_calls_in_flight", "Calls that are being answered now.", lambda: self.in_flight
        )
        for one in (self._started, self._handled, self._seconds, self._repeated, self._shed, in_flight):
            yield from one.collect()

    def round(self, service: str, methods: Mapping[str, Any]) -> dict[str, grpc.RpcMethodHandler[Any, Any]]:
        """Stand round every unary method of a service, outside all that is round it already."""
        return {
            name: grpc.unary_unary_rpc_method_handler(
                self._counting(method.unary_unary, (_UNARY, service, name)),
                method.request_deserializer,
                method.response_serializer,
            )
            for name, method in methods.items()
        }

    def _counting(self, handler: Handler, method: tuple[str, str, str]) -> Handler:
        async def ring(request: bytes, context: Context) -> bytes:
            begun = time.perf_counter()
            self.in_flight += 1
            self._started.add(*method)
            code = OK
            try:
                return await handler(request, context)
            except BaseException as error:
                code = code_of(error, context)
                raise
            finally:
                self.in_flight -= 1
                self._end(method, code, time.perf_counter() - begun, context)

        return ring

    def _end(self, method: tuple[str, str, str], code: str, seconds: float, context: Context) -> None:
        self._handled.add(*method, code)
        self._seconds.observe(seconds, *method)
        if code == _SHED:
            self._shed.add()
        if is_repeated(context):
            self._repeated.add()


def code_of(error: BaseException, context: Context) -> str:
    """The code with which a call ends by an error that reaches gRPC, by Go's name."""
    if isinstance(error, grpc.aio.AbortError):
        code: Any = context.code()  # a number, or of its enumeration
        return NAMES.get(code) or NAMES_BY_NUMBER.get(code, _UNKNOWN)
    if isinstance(error, asyncio.CancelledError):
        remaining: Any = context.time_remaining()  # None where the call has no deadline
        late = remaining is not None and remaining <= 0
        return NAMES[grpc.StatusCode.DEADLINE_EXCEEDED] if late else CANCELED
    return _UNKNOWN
