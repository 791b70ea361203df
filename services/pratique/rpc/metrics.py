"""Metrics of a gRPC service: calls, controllers, and ``GET /metrics`` of a mutator or a validator."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import grpc

from pratique.admission.late_reviews import late_reviews_metric
from pratique.admission.results import Outcome
from pratique.rpc.handlers import (
    CANCELED,
    CODE_NAMES,
    CODE_NAMES_BY_NUMBER,
    OK,
    BytesHandler,
    Context,
    is_retry,
)
from pratique.rpc.servers import RpcServer, ServerSettings
from pratique.telemetry.metrics import (
    CallbackMetric,
    CertificateCollector,
    DurationHistogram,
    LabeledCounter,
)

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric
    from prometheus_client.registry import Collector


_CALL_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""In seconds. A call of built-in controllers takes 0.5 to 5 ms, and no call lasts longer than 30 s."""
_UNARY = "unary"

_UNKNOWN_CODE = CODE_NAMES[grpc.StatusCode.UNKNOWN]
_SHED_CODE = CODE_NAMES[grpc.StatusCode.RESOURCE_EXHAUSTED]


class CallMetrics:
    """Counts the calls of every method that it wraps."""

    def __init__(self) -> None:
        """Start at zero."""
        method = ("grpc_type", "grpc_service", "grpc_method")
        self._started = LabeledCounter("grpc_server_started_total", "Calls that came, by method.", method)
        self._handled = LabeledCounter(
            "grpc_server_handled_total", "Calls that ended, by method and code.", (*method, "grpc_code")
        )
        self._seconds = DurationHistogram(
            "grpc_server_handling_seconds",
            "Time from a call to its answer, by method.",
            _CALL_BUCKETS,
            method,
        )
        self._retried = LabeledCounter(
            "pratique_service_repeated_calls_total",
            "Calls that the caller's gRPC made again because a service that was asked before broke off.",
            (),
        )
        self._shed = LabeledCounter(
            "pratique_service_shed_calls_total", "Calls refused because too many were in flight.", ()
        )
        self.in_flight = 0
        """The number of calls in progress."""

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics, for a registry."""
        in_flight = CallbackMetric(
            "pratique_service_calls_in_flight", "Calls that are being answered now.", lambda: self.in_flight
        )
        for metric in (self._started, self._handled, self._seconds, self._retried, self._shed, in_flight):
            yield from metric.collect()

    def wrap(self, service: str, methods: Mapping[str, Any]) -> dict[str, grpc.RpcMethodHandler[Any, Any]]:
        """Wrap every unary method of a service, outside its other wrappers."""
        return {
            name: grpc.unary_unary_rpc_method_handler(
                self._counted(method.unary_unary, (_UNARY, service, name)),
                method.request_deserializer,
                method.response_serializer,
            )
            for name, method in methods.items()
        }

    def _counted(self, handler: BytesHandler, method: tuple[str, str, str]) -> BytesHandler:
        async def counted(request: bytes, context: Context) -> bytes:
            started = time.perf_counter()
            self.in_flight += 1
            self._started.add(*method)
            code = OK
            try:
                return await handler(request, context)
            except BaseException as error:
                code = status_code_name(error, context)
                raise
            finally:
                self.in_flight -= 1
                self._end(method, code, time.perf_counter() - started, context)

        return counted

    def _end(self, method: tuple[str, str, str], code: str, seconds: float, context: Context) -> None:
        self._handled.add(*method, code)
        self._seconds.observe(seconds, *method)
        if code == _SHED_CODE:
            self._shed.add()
        if is_retry(context):
            self._retried.add()


def status_code_name(error: BaseException, context: Context) -> str:
    """Return the Go name of the status code with which an exception ends a call."""
    if isinstance(error, grpc.aio.AbortError):
        code: Any = context.code()  # an int or a grpc.StatusCode
        return CODE_NAMES.get(code) or CODE_NAMES_BY_NUMBER.get(code, _UNKNOWN_CODE)
    if isinstance(error, asyncio.CancelledError):
        remaining: Any = context.time_remaining()  # None if the call has no deadline
        late = remaining is not None and remaining <= 0
        return CODE_NAMES[grpc.StatusCode.DEADLINE_EXCEEDED] if late else CANCELED
    return _UNKNOWN_CODE


_log = logging.getLogger(__name__)


class OutcomeCollector(Protocol):
    """Metrics of what the hosted controllers did."""

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """Count the outcomes of one call."""

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics, for a registry."""


class ServiceMetrics:
    """The metrics of a mutator or a validator. A service without a metrics port has none."""

    def __init__(self, controllers: OutcomeCollector, collectors: Iterable[Collector]) -> None:
        """Start at zero, with the metrics of the hosted controllers and others of the service."""
        self.calls = CallMetrics()
        """The metrics of the server's calls."""
        self._controllers = controllers
        self.collectors: tuple[Collector, ...] = (self.calls, controllers, *collectors)
        """All metrics except those of the running server."""

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """Count the outcomes of one call, in the loop's next iteration, so that the answer is sent first."""
        asyncio.get_running_loop().call_soon(self._controllers.observe, outcomes)

    @contextlib.contextmanager
    def served(self, settings: ServerSettings, server: RpcServer, *others: Collector) -> Iterator[None]:
        """Serve ``GET /metrics``, with the metrics of ``others``, until the context ends.

        Raises:
            ConfigurationError: the server cannot listen on the address.
        """
        # Imported here because services without a metrics port need no HTTP.
        from pratique.telemetry.metrics_server import MetricsServer  # noqa: PLC0415
        from pratique.telemetry.registry import create_registry  # noqa: PLC0415

        registry = create_registry()
        certificates = () if server.tls is None else server.tls.files
        shown = (*self.collectors, *others, late_reviews_metric(), CertificateCollector(certificates))
        for collector in shown:
            registry.register(collector)
        metrics_server = MetricsServer(registry, settings.metrics_host, settings.metrics_port or 0)
        _log.info("metrics are served", extra={"address": metrics_server.address})
        try:
            yield
        finally:
            metrics_server.close()
