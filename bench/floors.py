"""The floors: servers that do nothing but echo.

Run as ``python bench/floors.py http [certificate key]``, or with ``grpc``, ``frames``, or ``unix <socket>``.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys

import grpc
import uvicorn
import uvloop
from frames import FrameEcho
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

UNLIMITED = (("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1))


async def _echo_http(request: Request) -> Response:
    return Response(await request.body(), media_type="application/json")


class _AnnouncingServer(uvicorn.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        port = self.servers[0].sockets[0].getsockname()[1]
        print(f"ready on {port}", flush=True)


async def serve_http(certificate: str | None = None, key: str | None = None) -> None:
    """Serve a bare Starlette echo on a free port, over TLS where there is a certificate."""
    app = Starlette(routes=[Route("/echo", _echo_http, methods=["POST"])])
    config = uvicorn.Config(
        app,
        port=0,
        log_level="critical",
        access_log=False,
        http="httptools",
        ssl_certfile=certificate,
        ssl_keyfile=key,
    )
    await _AnnouncingServer(config).serve()


async def _echo_grpc(request: bytes, _: object) -> bytes:
    return request


async def serve_grpc() -> None:
    """Serve a bare ``grpc.aio`` unary echo on a free port."""
    server = grpc.aio.server(options=UNLIMITED)
    handler = grpc.unary_unary_rpc_method_handler(_echo_grpc)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench.Echo", {"Echo": handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(f"ready on {port}", flush=True)
    await server.wait_for_termination()


async def serve_frames(path: str = "") -> None:
    """Serve an echo of bare frames: on a free port, or on a Unix socket where there is a path for it."""
    loop = asyncio.get_running_loop()
    if path:
        server = await loop.create_unix_server(FrameEcho, path)
        port = 0
    else:
        server = await loop.create_server(FrameEcho, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
    print(f"ready on {port}", flush=True)
    await server.serve_forever()


SERVERS = {"http": serve_http, "grpc": serve_grpc, "frames": serve_frames, "unix": serve_frames}

if __name__ == "__main__":
    kind, *given = sys.argv[1:]
    with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
        uvloop.run(SERVERS[kind](*given))
