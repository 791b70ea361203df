"""What peers need of a Kubernetes API server to start, and no more: ``python bench/peers/api_server.py``.

kopf looks up which resources there are. Pepr applies a PeprStore of its own, and waits until a watch shows it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from typing import Any

import uvicorn
import uvloop
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

Object = dict[str, Any]

PODS = {
    "name": "pods",
    "singularName": "pod",
    "kind": "Pod",
    "namespaced": True,
    "verbs": ["get", "list", "watch"],
}
NAMESPACES = {
    "name": "namespaces",
    "singularName": "namespace",
    "kind": "Namespace",
    "namespaced": False,
    "verbs": ["get", "list", "watch"],
}
STORES: dict[str, Object] = {}
"""By name."""
CHANGED = asyncio.Condition()


async def versions(_: Request) -> Response:
    return JSONResponse({"kind": "APIVersions", "versions": ["v1"]})


async def core(_: Request) -> Response:
    return JSONResponse({"kind": "APIResourceList", "groupVersion": "v1", "resources": [PODS, NAMESPACES]})


async def groups(_: Request) -> Response:
    return JSONResponse({"kind": "APIGroupList", "groups": []})


async def version(_: Request) -> Response:
    return JSONResponse({"major": "1", "minor": "37", "gitVersion": "v1.37.0"})


async def stores(request: Request) -> Response:
    """List them, or watch them: the stream stays open, as an API server's does."""
    name = request.query_params.get("fieldSelector", "").removeprefix("metadata.name=")
    if request.query_params.get("watch"):
        return StreamingResponse(_watch(name), media_type="application/json")
    items = [store for key, store in STORES.items() if key == name or not name]
    return JSONResponse(
        {
            "apiVersion": "pepr.dev/v1",
            "kind": "PeprStoreList",
            "metadata": {"resourceVersion": "1"},
            "items": items,
        }
    )


async def _watch(name: str) -> AsyncIterator[bytes]:
    async with CHANGED:
        await CHANGED.wait_for(lambda: name in STORES)
    yield json.dumps({"type": "ADDED", "object": STORES[name]}).encode() + b"\n"
    await asyncio.Event().wait()


async def store(request: Request) -> Response:
    """Give one, or keep what was applied."""
    name = request.path_params["name"]
    if request.method == "GET":
        if name not in STORES:
            return JSONResponse({"kind": "Status", "status": "Failure", "code": 404}, 404)
        return JSONResponse(STORES[name])
    applied = await request.json()
    if isinstance(applied, dict):
        applied["metadata"] |= {"uid": name, "resourceVersion": "1"}
        async with CHANGED:
            STORES[name] = applied
            CHANGED.notify_all()
    return JSONResponse(STORES[name])


async def nothing(request: Request) -> Response:
    """Whatever else is asked for does not exist, and whatever is sent is as good as kept."""
    if request.method == "GET":
        return JSONResponse({"kind": "Status", "status": "Failure", "code": 404}, 404)
    return JSONResponse(await request.json())


_STORES = "/apis/pepr.dev/v1/namespaces/pepr-system/peprstores"
_ANY = ["GET", "POST", "PUT", "PATCH"]
APP = Starlette(
    routes=[
        Route("/api", versions),
        Route("/api/v1", core),
        Route("/apis", groups),
        Route("/version", version),
        Route(_STORES, stores),
        Route(f"{_STORES}/{{name}}", store, methods=_ANY),
        Route("/{rest:path}", nothing, methods=_ANY),
    ]
)


class _AnnouncingServer(uvicorn.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        print(f"ready on {self.servers[0].sockets[0].getsockname()[1]}", flush=True)


if __name__ == "__main__":
    config = uvicorn.Config(APP, port=0, log_level="critical", access_log=False, timeout_graceful_shutdown=0)
    with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
        uvloop.run(_AnnouncingServer(config).serve())
