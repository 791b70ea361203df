"""The services that every gRPC server has: health (``grpc.health.v1``) and reflection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import Iterable

    import grpc

    from pratique.rpc.streams import Streams


class Health(health_pb2_grpc.HealthServicer):  # type: ignore[misc]  # generated without types
    """The health of a server and of each service on it."""

    def __init__(self, services: Iterable[str], streams: Streams) -> None:
        """Know ``services`` and, as the empty name, the server; all are healthy."""
        self._services = tuple(services)
        self._streams = streams
        self._servicer = health.aio.HealthServicer()  # type: ignore[attr-defined]  # the stubs lack its aio half

    async def begin(self) -> None:
        """Say SERVING from now on."""
        for name in self._services:
            await self._servicer.set(name, health_pb2.HealthCheckResponse.SERVING)

    async def end(self) -> None:
        """Say NOT_SERVING from now on, also to those who watch."""
        await self._servicer.enter_graceful_shutdown()

    def add_to(self, server: grpc.aio.Server) -> None:
        """Answer for health on ``server``."""
        health_pb2_grpc.add_HealthServicer_to_server(self, server)

    async def Check(self, request: Any, context: Any) -> Any:  # noqa: N802, D102 - as in the proto
        return await self._servicer.Check(request, context)

    async def Watch(self, request: Any, context: Any) -> None:  # noqa: N802, D102 - as in the proto
        with self._streams.open():
            await self._servicer.Watch(request, _Writer(self._streams, context))


class _Writer:
    """The part of a context that watches use."""

    def __init__(self, streams: Streams, context: Any) -> None:
        self._streams = streams
        self._context = context

    async def write(self, message: object) -> None:
        await self._streams.write(self._context, message)


class Reflection(reflection_pb2_grpc.ServerReflectionServicer):  # type: ignore[misc]  # likewise
    """Tells what a server offers, so that tools like grpcurl need no proto files."""

    def __init__(self, services: Iterable[str], streams: Streams) -> None:
        """Tell of ``services``."""
        names = (*services, reflection.SERVICE_NAME)
        self._servicer = reflection.aio.ReflectionServicer(names)  # type: ignore[attr-defined]  # likewise
        self._streams = streams

    def add_to(self, server: grpc.aio.Server) -> None:
        """Answer for reflection on ``server``."""
        reflection_pb2_grpc.add_ServerReflectionServicer_to_server(self, server)

    async def ServerReflectionInfo(  # noqa: N802, D102 - as in the proto
        self, request_iterator: Any, context: Any
    ) -> None:
        with self._streams.open():
            async for answer in self._servicer.ServerReflectionInfo(request_iterator, context):
                await self._streams.write(context, answer)
