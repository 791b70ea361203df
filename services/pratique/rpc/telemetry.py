"""The metrics of a gRPC server: its calls, and everything that ``GET /metrics`` shows of a mutator or a validator."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING, Any

import grpc

from pratique.rpc.controller_metrics import ControllerMetrics
from pratique.rpc.handlers import CANCELED, NAMES, NAMES_BY_NUMBER, OK, is_repeated
from pratique.telemetry.file_metrics import CertificateMetrics, ReloadMetrics
from pratique.telemetry.metrics import Counts, Durations, Merged, Observed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from prometheus_client.metrics_core import Metric
    from prometheus_client.registry import Collector

    from pratique.admission.controllers import Phase
    from pratique.admission.outcomes import Outcome
    from pratique.hosting.running import Runner
    from pratique.hosting.services import Hosting
    from pratique.rpc.handlers import Context, Handler
    from pratique.rpc.servers import RpcServer, ServerSettings

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


_log = logging.getLogger(__name__)


class ServiceMetrics:
    """What one service counts. There is one only where somebody may ask for it."""

    def __init__(self, phase: Phase, hosted: Hosting[Any], runners: Mapping[str, Runner]) -> None:
        """Start at zero."""
        self.calls = CallMetrics()
        """Stands round the methods."""
        self._controllers = ControllerMetrics(phase, runners)
        self.collectors: tuple[Collector, ...] = (
            self.calls,
            self._controllers,
            Merged([each for one in hosted.controllers for each in one.halves.collectors]),
            ReloadMetrics(hosted.reloads),
            hosted.held,
        )
        """All of it, but what there is only once a server runs."""

    @classmethod
    def of(
        cls, settings: ServerSettings, phase: Phase, hosted: Hosting[Any], runners: Mapping[str, Runner]
    ) -> ServiceMetrics | None:
        """What a service counts; None where it is told to show nothing."""
        return None if settings.metrics_port is None else cls(phase, hosted, runners)

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """Count what came of one call, in the next turn of the loop, when the answer is on its way."""
        asyncio.get_running_loop().call_soon(self._controllers.observe, outcomes)

    @contextlib.contextmanager
    def served(self, settings: ServerSettings, server: RpcServer) -> Iterator[None]:
        """Show them until this ends.

        Raises:
            ConfigurationError: the address cannot be listened on.
        """
        # Here, because HTTP is for those that are asked over it.
        from pratique.telemetry.metrics_server import MetricsServer  # noqa: PLC0415
        from pratique.telemetry.registry import open_registry  # noqa: PLC0415

        registry = open_registry()
        kept = () if server.tls is None else server.tls.kept
        for one in (*self.collectors, CertificateMetrics(kept)):
            registry.register(one)
        serving = MetricsServer(registry, settings.metrics_host, settings.metrics_port or 0)
        _log.info("metrics are served", extra={"address": serving.address})
        try:
            yield
        finally:
            serving.close()
