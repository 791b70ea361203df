"""The front door's application: which path leads to which handler, with its probes and pages."""

from __future__ import annotations

import asyncio
import functools
import platform
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from importlib.metadata import version
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from pratique.admission.controllers import BOTH, MUTATE, VALIDATE, Phase
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.statuses import Status, method_not_allowed
from pratique.https.tls import ReloadedCertificate
from pratique.processes.large_texts import LargeTextReader
from pratique.rpc.check_digests import CheckDigests
from pratique.telemetry.metrics import CertificateCollector
from pratique.telemetry.registry import CONTENT_TYPE
from pratique.telemetry.reloading_files import Reloaded
from pratique_frontdoor.engines.engine import Engine
from pratique_frontdoor.http.authentication import AuthenticationMiddleware
from pratique_frontdoor.http.codecs import VERSIONS
from pratique_frontdoor.http.connections import UnauthenticatedConnections
from pratique_frontdoor.http.endpoints import BeginTrace, DecisionEndpoint, EndpointContext, Timeouts
from pratique_frontdoor.http.listener import ListenerSecurity
from pratique_frontdoor.http.messages import (
    Load,
    LoadLimits,
    failure_status,
    not_found,
    status_reply,
)
from pratique_frontdoor.http.metrics import Metrics
from pratique_frontdoor.settings import FrontDoorSettings

if TYPE_CHECKING:
    from prometheus_client.registry import Collector
    from starlette.requests import Request

    from pratique.telemetry.tracers import Tracing
    from pratique_frontdoor.console.live import LiveDecisions
    from pratique_frontdoor.decision_logs.writers import DecisionLog
    from pratique_frontdoor.recording.recorders import Recorder


_Handler: TypeAlias = "Callable[[Request], Awaitable[Response]]"


READINESS_SECONDS = 0.8
"""How long the engine may check its readiness: less than the 1 s timeout of a kubelet's probe."""


def _checks(settings: FrontDoorSettings) -> CheckDigests | None:
    """Return what proves checks to the services; None if they would not believe it."""
    shows_certificate = settings.services_cert_file is not None
    return CheckDigests.of(settings.checks_key_file, authenticated=shows_certificate)


class Probes:
    """The three probes of a front door."""

    def __init__(
        self,
        engine: Engine,
        credentials: Sequence[ReloadedCertificate[Any]] = (),
        unavailable_reasons: Callable[[], Sequence[str]] = tuple,
        decision_log: DecisionLog | None = None,
    ) -> None:
        """Probe ``engine``.

        Args:
            engine: Decides reviews.
            credentials: Certificates and secrets that are reloaded.
            unavailable_reasons: Returns why no caller can be accepted.
            decision_log: The decision log, if there is one.
        """
        self._decision_log = decision_log
        self._engine = engine
        self._credentials = credentials
        self._unavailable_reasons = unavailable_reasons

    async def livez(self, request: Request) -> Response:
        """Report that the process is alive. A restart would not fix what the chain lacks."""
        return _report("livez", request, {"ping": ()})

    async def healthz(self, request: Request) -> Response:
        """Report whether the chain can decide."""
        return _report("healthz", request, {"ping": (), "chain": await self._unready()})

    async def readyz(self, request: Request) -> Response:
        """Report whether the chain can decide, the front door is not draining, and callers can be accepted."""
        draining = ("draining",) if request.app.state.draining else ()
        checks: dict[str, Sequence[str]] = {"ping": (), "chain": await self._unready(), "shutdown": draining}
        if reasons := self._unavailable_reasons():
            checks["callers"] = reasons
        # These warnings do not fail the probe: every other front door has the same files.
        watched = {"certificates": self._credentials, "files": getattr(self._engine, "reloaded", ())}
        warnings: dict[str, Sequence[str]] = {name: _warnings(of) for name, of in watched.items() if of}
        # Only an engine that calls services and webhooks has warnings.
        of_engine: Mapping[str, Sequence[str]] = getattr(self._engine, "warnings", dict)()
        warnings |= of_engine
        if self._decision_log is not None:
            failing = self._decision_log.failing
            reasons = (f"the decision log cannot be written: {failing}",) if failing else ()
            (checks if self._decision_log.required else warnings)["decision-log"] = reasons
        return _report("readyz", request, checks, warnings)

    async def _unready(self) -> Sequence[str]:
        try:
            async with asyncio.timeout(READINESS_SECONDS):
                return await self._engine.unready()
        except TimeoutError:
            return (f"the chain did not answer within {READINESS_SECONDS} s",)


def _warnings(reloaded: Sequence[Reloaded[Any]]) -> Sequence[str]:
    return [warning for files in reloaded if (warning := files.warning())]


def _report(
    probe: str,
    request: Request,
    checks: Mapping[str, Sequence[str]],
    warnings: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Response:
    reasons = [reason for found in checks.values() for reason in found]
    if "verbose" in request.query_params:
        lines = [line for check, found in checks.items() for line in _check_lines(check, found)]
        lines += [line for check, found in warnings.items() for line in _warning_lines(check, found)]
        text = "\n".join([*lines, f"{probe} check {'failed' if reasons else 'passed'}", ""])
    else:
        text = "\n".join(reasons) or "ok"
    return PlainTextResponse(
        text, status_code=503 if reasons else 200, headers={"X-Content-Type-Options": "nosniff"}
    )


def _check_lines(check: str, reasons: Sequence[str]) -> list[str]:
    return [f"[-]{check} failed: {reason}" for reason in reasons] or [f"[+]{check} ok"]


def _warning_lines(check: str, warnings: Sequence[str]) -> list[str]:
    return [f"[+]{check} ok, but: {warning}" for warning in warnings] or [f"[+]{check} ok"]


_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}  # Go's names for them


class Pages:
    """The pages of a front door."""

    def __init__(self, metrics: Metrics, paths: Iterable[str]) -> None:
        """Serve ``metrics``, and an index of ``paths``."""
        self._metrics = metrics
        self._index: JSONObject = {"paths": sorted(paths)}
        self._version = _version()

    async def metrics(self, _: Request) -> Response:
        """``GET /metrics``."""
        return Response(self._metrics.text(), headers={"Content-Type": CONTENT_TYPE})

    async def version(self, _: Request) -> Response:
        """``GET /version``."""
        return JSONResponse(self._version)

    async def index(self, _: Request) -> Response:
        """``GET /``, as the API server answers it."""
        return JSONResponse(self._index)


def _version() -> JSONObject:
    """Return ``k8s.io/apimachinery/pkg/version.Info`` as far as it applies, and Pratique's own fields.

    ``gitVersion`` is the release in Kubernetes' format, because clients parse that field.
    """
    release = version("pratique")
    major, minor, *_ = release.split(".")
    machine = platform.machine().lower()
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"v{release}",
        "compiler": platform.python_implementation(),
        "platform": f"{sys.platform}/{_ARCHITECTURES.get(machine, machine)}",
        "pythonVersion": platform.python_version(),
        "admissionReviewVersions": [api_version.rpartition("/")[2] for api_version in VERSIONS],
    }


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
    *,
    live: LiveDecisions | None = None,
    collectors: Iterable[Collector] = (),
) -> Starlette:
    """Build the ASGI application, which also shows the metrics of ``collectors``.

    With ``live``, it has a console that shows those decisions.

    It closes neither the engine nor the recorder nor the decision log. While ``app.state.draining`` is true, readiness
    probes fail.
    """
    listener_security = ListenerSecurity(settings)
    # An engine that calls its services over TLS has certificates as well.
    credentials: tuple[ReloadedCertificate[Any], ...] = (
        *listener_security.reloaded_credentials,
        *getattr(engine, "reloaded_credentials", ()),
    )
    metrics, probes = (
        Metrics(),
        Probes(engine, credentials, listener_security.unavailable_reasons, decision_log),
    )
    of_engine = getattr(engine, "collectors", ())
    for collector in (CertificateCollector(credentials), *of_engine, *collectors):
        metrics.show(collector)
    if recorder is not None and settings.record is not None:
        metrics.show_recording(recorder)
    if decision_log is not None:
        metrics.show_decision_log(decision_log)
    pages = Pages(metrics, [*_DECISION_PATHS, *_STATUS_PATHS])
    counted = _CountedHandlers(metrics)
    are_callers_known = listener_security.callers is not None
    load = Load(_limits(settings, are_callers_known=are_callers_known))
    connections = UnauthenticatedConnections(settings)
    metrics.show_load(load)
    metrics.show_connections(connections)
    context = EndpointContext(
        engine,
        settings,
        metrics,
        load,
        Timeouts(),
        LargeTextReader(),
        _checks(settings),
        recorder,
        _trace_factory(tracing),
        decision_log,
    )
    handlers = (probes.livez, probes.readyz, probes.healthz, pages.metrics, pages.version)
    app = Starlette(
        routes=[
            *(
                Route(path, DecisionEndpoint(path, phases, context), methods=["POST"])
                for path, phases in _DECISION_PATHS.items()
            ),
            *(
                Route(path, counted.handler(path, handler))
                for path, handler in zip(_STATUS_PATHS, handlers, strict=True)
            ),
            Route("/", counted.handler("/", pages.index)),
            *(() if live is None else _console(live, metrics, engine, are_callers_known=are_callers_known)),
        ],
        middleware=_middleware(listener_security, metrics),
        exception_handlers={HTTPException: counted.refuse, Exception: counted.fail},
    )
    app.router.redirect_slashes = False
    app.state.draining = False
    app.state.listener_security = listener_security
    app.state.connections = connections
    return app


def _console(
    live: LiveDecisions, metrics: Metrics, engine: Engine, *, are_callers_known: bool
) -> list[BaseRoute]:
    from pratique_frontdoor.console.app import LIVE_ROOT, build_live_console  # noqa: PLC0415 - imports jinja2

    async def lead_on(request: Request) -> Response:
        del request
        return RedirectResponse(f"{LIVE_ROOT}/")

    console = build_live_console(
        live,
        lambda: metrics.text().decode(),
        getattr(engine, "quota_usage", None),
        loopback_only=not are_callers_known,
    )
    return [Route(LIVE_ROOT, lead_on), Mount(LIVE_ROOT, console)]


def _limits(settings: FrontDoorSettings, *, are_callers_known: bool) -> LoadLimits:
    total, reserved = settings.max_in_flight_bytes, settings.reserved_in_flight_bytes
    if are_callers_known:
        return LoadLimits(total, reserved, 0, settings.max_caller_requests, settings.max_caller_bytes)
    # Unfinished bodies of unauthenticated clients may take half, so that bodies that never end leave room for others.
    unfinished = min(total, max(total // 2, settings.max_body_bytes))
    return LoadLimits(total, reserved, unfinished, settings.max_address_requests, settings.max_address_bytes)


def _trace_factory(tracing: Tracing | None) -> BeginTrace | None:
    if tracing is None:
        return None
    from pratique_frontdoor.http.review_traces import ReviewTrace  # noqa: PLC0415 - imports OpenTelemetry

    return functools.partial(ReviewTrace, tracing)


def _middleware(listener_security: ListenerSecurity, metrics: Metrics) -> list[Middleware]:
    """Return the middleware: none if everybody may call."""
    if listener_security.callers is None:
        return []
    known = frozenset({*_DECISION_PATHS, *_STATUS_PATHS, "/"})
    return [
        Middleware(
            AuthenticationMiddleware, callers=listener_security.callers, metrics=metrics, known_paths=known
        )
    ]


class _CountedHandlers:
    """Counts the responses of handlers, including those for errors."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def handler(self, path: str, handler: _Handler) -> _Handler:
        async def counted(request: Request) -> Response:
            response = await handler(request)
            self._metrics.count_request(path, response.status_code)
            return response

        return counted

    async def refuse(self, request: Request, error: Exception) -> Response:
        """Answer what the router raises: an unknown path, or a method that is not allowed."""
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
    # Unknown paths as labels would create an unbounded number of time series.
    route: Route | None = request.scope.get("route")
    return "other" if route is None else route.path
