"""Pages and probes: what the front door shows of itself."""

from __future__ import annotations

import asyncio
import platform
import sys
from importlib.metadata import version
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, PlainTextResponse, Response

from frontdoor.http.codecs import VERSIONS
from pratique.telemetry.registry import CONTENT_TYPE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from starlette.requests import Request

    from frontdoor.decision_logs.writers import DecisionLog
    from frontdoor.engines.engine import Engine
    from frontdoor.http.metrics import Metrics
    from pratique.apimachinery.json_values import JSONObject
    from pratique.https.tls import ReloadedCertificate
    from pratique.telemetry.reloading import Reloaded

READINESS_SECONDS = 0.8
"""How long the engine may look for reasons: less than the 1 s after which a kubelet gives a probe up."""


class Probes:
    """The three probes of one front door."""

    def __init__(
        self,
        engine: Engine,
        kept: Sequence[ReloadedCertificate[Any]] = (),
        closed: Callable[[], Sequence[str]] = tuple,
        decision_log: DecisionLog | None = None,
    ) -> None:
        """Probe ``engine``.

        Args:
            engine: Decides reviews.
            kept: Certificates and secrets, which may need to be renewed.
            closed: Says why nobody may call.
            decision_log: What is written of decisions, which may fail.
        """
        self._decision_log = decision_log
        self._engine = engine
        self._kept = kept
        self._closed = closed

    async def livez(self, request: Request) -> Response:
        """Alive: whoever reads this was answered. A restart would not bring back what the chain lacks."""
        return _report("livez", request, {"ping": ()})

    async def healthz(self, request: Request) -> Response:
        """Able to decide."""
        return _report("healthz", request, {"ping": (), "chain": await self._unready()})

    async def readyz(self, request: Request) -> Response:
        """Able to decide, and willing to: not draining, and not closed to everybody."""
        draining = ("draining",) if request.app.state.draining else ()
        checks: dict[str, Sequence[str]] = {"ping": (), "chain": await self._unready(), "shutdown": draining}
        if closed := self._closed():
            checks["callers"] = closed
        # What they warn of is no reason to send reviews elsewhere: every other front door has the same files.
        watched = {"certificates": self._kept, "files": getattr(self._engine, "reloaded", ())}
        warnings: dict[str, Sequence[str]] = {name: _warnings(of) for name, of in watched.items() if of}
        # Only an engine that asks services and webhooks has something to say of them.
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
    return [warning for one in reloaded if (warning := one.warning())]


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
    """The pages of one front door."""

    def __init__(self, metrics: Metrics, paths: Iterable[str]) -> None:
        """Show ``metrics``, and an index of ``paths``."""
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
    """Make what ``k8s.io/apimachinery/pkg/version.Info`` has, as far as it is known, and what Pratique adds.

    ``gitVersion`` is the release, written as Kubernetes writes its own, because clients parse that field.
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
