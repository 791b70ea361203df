"""Pages: what the front door shows of itself."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import version
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, Response

from frontdoor.codecs import VERSIONS
from frontdoor.metrics import CONTENT_TYPE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.requests import Request

    from frontdoor.metrics import Metrics
    from pratique.json_values import JSONObject

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
