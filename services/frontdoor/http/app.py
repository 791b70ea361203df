"""The front door's application: which path leads where."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import Route

from frontdoor.http.authentication import AuthenticationMiddleware
from frontdoor.http.connection_account import UnauthenticatedConnections
from frontdoor.http.connections import Timeouts
from frontdoor.http.endpoints import DecisionEndpoint, EndpointContext
from frontdoor.http.listener import ListenerSecurity
from frontdoor.http.load import LoadLimits, Load
from frontdoor.http.metrics import Metrics
from frontdoor.http.pages import Pages, Probes
from frontdoor.http.responses import failure_status, method_not_allowed, not_found, status_reply
from pratique.admission.controllers import BOTH, MUTATE, VALIDATE
from pratique.processes.large_texts import LargeTextReader
from pratique.telemetry.file_metrics import CertificateCollector

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import TypeAlias

    from starlette.requests import Request

    from frontdoor.decision_logs.writers import DecisionLog
    from frontdoor.engines.engine import Engine
    from frontdoor.http.endpoints import BeginTrace
    from frontdoor.recording.recorders import Recorder
    from frontdoor.settings import FrontDoorSettings
    from pratique.admission.controllers import Phase
    from pratique.apimachinery.statuses import Status
    from pratique.https.tls import ReloadedCertificate
    from pratique.telemetry.tracers import Tracing

    _Handler: TypeAlias = Callable[[Request], Awaitable[Response]]

_DECISION_PATHS: dict[str, frozenset[Phase] | None] = {
    "/validate": VALIDATE,
    "/mutate": MUTATE,
    "/admit": BOTH,
    "/explain": None,
}
_STATUS_PATHS = ("/livez", "/readyz", "/healthz", "/metrics", "/version")


def build_app(
    engine: Engine,
    settings: FrontDoorSettings,
    recorder: Recorder | None = None,
    tracing: Tracing | None = None,
    decision_log: DecisionLog | None = None,
) -> Starlette:
    """Make the application.

    It closes neither the engine nor the recorder nor the decision log. ``app.state.draining``, once true, tells probes
    that it is going to stop.
    """
    listener_security = ListenerSecurity(settings)
    # An engine that asks its services over TLS keeps certificates, too.
    kept: tuple[ReloadedCertificate[Any], ...] = (*listener_security.kept, *getattr(engine, "kept", ()))
    metrics, probes = Metrics(), Probes(engine, kept, listener_security.closed, decision_log)
    for collector in (CertificateCollector(kept), *getattr(engine, "collectors", ())):
        metrics.show(collector)
    if recorder is not None:
        metrics.show_recording(recorder)
    if decision_log is not None:
        metrics.show_decision_log(decision_log)
    pages = Pages(metrics, [*_DECISION_PATHS, *_STATUS_PATHS])
    counted = _CountedHandlers(metrics)
    load = Load(_limits(settings, are_callers_known=listener_security.callers is not None))
    connections = UnauthenticatedConnections(settings)
    metrics.show_load(load)
    metrics.show_connections(connections)
    surroundings = EndpointContext(
        engine, settings, metrics, load, Timeouts(), LargeTextReader(), recorder, _trace_factory(tracing), decision_log
    )
    handlers = (probes.livez, probes.readyz, probes.healthz, pages.metrics, pages.version)
    app = Starlette(
        routes=[
            *(
                Route(path, DecisionEndpoint(path, phases, surroundings), methods=["POST"])
                for path, phases in _DECISION_PATHS.items()
            ),
            *(
                Route(path, counted.handler(path, handler))
                for path, handler in zip(_STATUS_PATHS, handlers, strict=True)
            ),
            Route("/", counted.handler("/", pages.index)),
        ],
        middleware=_middleware(listener_security, metrics),
        exception_handlers={HTTPException: counted.refuse, Exception: counted.fail},
    )
    app.router.redirect_slashes = False
    app.state.draining = False
    app.state.listener_security = listener_security
    app.state.connections = connections
    return app


def _limits(settings: FrontDoorSettings, *, are_callers_known: bool) -> LoadLimits:
    total, reserved = settings.max_in_flight_bytes, settings.reserved_in_flight_bytes
    if are_callers_known:
        return LoadLimits(total, reserved, 0, settings.max_caller_requests, settings.max_caller_bytes)
    # Of strangers' bodies half may be on their way, so that those that never end leave room for those that do.
    unfinished = min(total, max(total // 2, settings.max_body_bytes))
    return LoadLimits(total, reserved, unfinished, settings.max_address_requests, settings.max_address_bytes)


def _trace_factory(tracing: Tracing | None) -> BeginTrace | None:
    if tracing is None:
        return None
    from frontdoor.http.review_traces import ReviewTrace  # noqa: PLC0415 - imports OpenTelemetry

    return functools.partial(ReviewTrace, tracing)


def _middleware(listener_security: ListenerSecurity, metrics: Metrics) -> list[Middleware]:
    """What stands before all endpoints: nothing, where everybody may call."""
    if listener_security.callers is None:
        return []
    known = frozenset({*_DECISION_PATHS, *_STATUS_PATHS, "/"})
    return [Middleware(AuthenticationMiddleware, callers=listener_security.callers, metrics=metrics, known_paths=known)]


class _CountedHandlers:
    """Handlers whose answers are counted, those for errors included."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def handler(self, path: str, handler: _Handler) -> _Handler:
        async def counted(request: Request) -> Response:
            response = await handler(request)
            self._metrics.count_request(path, response.status_code)
            return response

        return counted

    async def refuse(self, request: Request, error: Exception) -> Response:
        """Answer what the router raises: no such path, or not with this method."""
        allow = (error.headers or {}).get("Allow") if isinstance(error, HTTPException) else None
        if allow is None:
            return self._tell(request, not_found())
        return self._tell(request, method_not_allowed(), {"Allow": ", ".join(sorted(allow.split(", ")))})

    async def fail(self, request: Request, error: Exception) -> Response:
        return self._tell(request, failure_status(error, _route_path(request)))

    def _tell(self, request: Request, status: Status, headers: dict[str, str] | None = None) -> Response:
        self._metrics.count_request(_route_path(request), status.code)
        return Response(status_reply(status).body, status.code, headers, "application/json")


def _route_path(request: Request) -> str:
    # Paths that clients make up would be series without end.
    route: Route | None = request.scope.get("route")
    return "other" if route is None else route.path
