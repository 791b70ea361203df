"""Metrics of a gRPC service: its calls, its controllers, and what ``GET /metrics`` of a mutator or validator shows."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, assert_never

import grpc

from pratique.admission.controllers import Phase
from pratique.admission.results import Allowed, Denied, Failed, FailureKind, Outcome, OutcomeDecision, Patched
from pratique.processes.thread_pool import ControllerThreads
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
    MergedCollectors,
    ReloadCollector,
)

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric
    from prometheus_client.registry import Collector

    from pratique.hosting.running import HandlerRunner
    from pratique.hosting.services import HostedChain


_CONTROLLER_BUCKETS = (0.00005, 0.0001, 0.0005, 0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 30.0)
"""Seconds. The quickest built-in controllers take 5 microseconds; nothing has more than 30 s."""


class ControllerMetrics:
    """The controllers that one service hosts."""

    def __init__(self, phase: Phase, runners: Mapping[str, HandlerRunner]) -> None:
        """Start at zero; ``runners`` are all that are hosted, by name."""
        self._phase = phase.value
        self._runners = runners
        self._seconds = DurationHistogram(
            "pratique_controller_duration_seconds",
            "Time that controllers took, by name, phase and outcome.",
            _CONTROLLER_BUCKETS,
            ("name", "phase", "outcome"),
        )

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """Count what came of one call."""
        for one in outcomes:
            # Names that are not hosted are whatever the caller made up: series without end.
            name = one.controller if one.controller in self._runners else "unknown"
            self._seconds.observe(one.duration_seconds, name, self._phase, _outcome_label(one.decision))

    def collect(self) -> Iterator[Metric]:
        """Yield all of them, for a registry."""
        yield from self._seconds.collect()
        lanes: list[tuple[str, str, Callable[[ControllerThreads], int]]] = [
            ("threads", "Threads that run a controller, or wait for work.", lambda lane: lane.threads),
            ("queued_calls", "Calls of a controller that wait for a thread.", lambda lane: lane.waiting),
            (
                "stuck_threads",
                "Threads of a controller that go on though nobody waits for them any longer.",
                lambda lane: lane.abandoned,
            ),
        ]
        for name, documentation, read in lanes:
            yield from CallbackMetric(
                f"pratique_controller_{name}", documentation, functools.partial(self._of_lanes, read), "name"
            ).collect()

    def _of_lanes(self, read: Callable[[ControllerThreads], int]) -> dict[tuple[str, ...], float]:
        return {(one.name,): read(one.lane) for one in self._runners.values() if one.lane is not None}


def _outcome_label(decision: OutcomeDecision) -> str:
    match decision:
        case Allowed():
            return "allowed"
        case Patched():
            return "mutated"
        case Denied():
            return "denied"
        case Failed(kind):
            return "timeout" if kind is FailureKind.TIMEOUT else "failed"
        case _:
            assert_never(decision)


_CALL_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Seconds. A call of built-in controllers takes 0.5 to 5 ms, and none has more than 30 s."""
_UNARY = "unary"

_UNKNOWN_CODE = CODE_NAMES[grpc.StatusCode.UNKNOWN]
_SHED_CODE = CODE_NAMES[grpc.StatusCode.RESOURCE_EXHAUSTED]


class CallMetrics:
    """Counts the calls of every method that it stands round."""

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
        self._repeated = LabeledCounter(
            "pratique_service_repeated_calls_total",
            "Calls that the caller's gRPC made again because a service that was asked before broke off.",
            (),
        )
        self._shed = LabeledCounter(
            "pratique_service_shed_calls_total", "Calls refused because too many were in flight.", ()
        )
        self.in_flight = 0
        """Calls that are being answered now."""

    def collect(self) -> Iterator[Metric]:
        """Yield all of them, for a registry."""
        in_flight = CallbackMetric(
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

    def _counting(self, handler: BytesHandler, method: tuple[str, str, str]) -> BytesHandler:
        async def ring(request: bytes, context: Context) -> bytes:
            begun = time.perf_counter()
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
                self._end(method, code, time.perf_counter() - begun, context)

        return ring

    def _end(self, method: tuple[str, str, str], code: str, seconds: float, context: Context) -> None:
        self._handled.add(*method, code)
        self._seconds.observe(seconds, *method)
        if code == _SHED_CODE:
            self._shed.add()
        if is_retry(context):
            self._repeated.add()


def status_code_name(error: BaseException, context: Context) -> str:
    """The code with which a call ends by an error that reaches gRPC, by Go's name."""
    if isinstance(error, grpc.aio.AbortError):
        code: Any = context.code()  # a number, or of its enumeration
        return CODE_NAMES.get(code) or CODE_NAMES_BY_NUMBER.get(code, _UNKNOWN_CODE)
    if isinstance(error, asyncio.CancelledError):
        remaining: Any = context.time_remaining()  # None where the call has no deadline
        late = remaining is not None and remaining <= 0
        return CODE_NAMES[grpc.StatusCode.DEADLINE_EXCEEDED] if late else CANCELED
    return _UNKNOWN_CODE


_log = logging.getLogger(__name__)


class ServiceMetrics:
    """What one service counts. There is one only where somebody may ask for it."""

    def __init__(self, phase: Phase, hosted: HostedChain[Any], runners: Mapping[str, HandlerRunner]) -> None:
        """Start at zero."""
        self.calls = CallMetrics()
        """Stands round the methods."""
        self._controllers = ControllerMetrics(phase, runners)
        self.collectors: tuple[Collector, ...] = (
            self.calls,
            self._controllers,
            MergedCollectors([each for one in hosted.controllers for each in one.handlers.collectors]),
            ReloadCollector(hosted.reloads),
            hosted.held,
        )
        """All of it, but what there is only once a server runs."""

    @classmethod
    def of(
        cls,
        settings: ServerSettings,
        phase: Phase,
        hosted: HostedChain[Any],
        runners: Mapping[str, HandlerRunner],
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
        from pratique.telemetry.registry import create_registry  # noqa: PLC0415

        registry = create_registry()
        kept = () if server.tls is None else server.tls.kept
        for one in (*self.collectors, CertificateCollector(kept)):
            registry.register(one)
        serving = MetricsServer(registry, settings.metrics_host, settings.metrics_port or 0)
        _log.info("metrics are served", extra={"address": serving.address})
        try:
            yield
        finally:
            serving.close()
