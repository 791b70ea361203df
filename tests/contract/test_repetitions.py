"""A call that gRPC makes again says so: whoever charges must not do so twice."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
from grpc.aio import ServicerContext

from pratique.admission.results import Allowed, Outcome
from pratique.admission.reviews import Call, Deadline, Review
from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource
from pratique.apimachinery.requests import Operation
from pratique.rpc.handlers import is_retry
from pratique.rpc.messages import validate_response
from pratique_frontdoor.transports.grpc import GrpcTransport

REVIEW = Review(
    uid="1",
    operation=Operation.CREATE,
    kind=GroupVersionKind("", "v1", "Pod"),
    resource=GroupVersionResource("", "v1", "pods"),
)


def test_the_second_attempt_is_a_retry() -> None:
    repeated: list[bool] = []

    async def validate(_: bytes, context: ServicerContext[Any, Any]) -> bytes:
        repeated.append(is_retry(context))
        if len(repeated) == 1:
            await context.abort(grpc.StatusCode.UNAVAILABLE)
        return validate_response(
            [Outcome(controller="ResourceQuota", decision=Allowed())]
        ).SerializeToString()

    async def scenario() -> None:
        server = grpc.aio.server()
        method = grpc.unary_unary_rpc_method_handler(validate)
        service = "pratique.admission.v1.ValidatorService"
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(service, {"Validate": method}),)
        )
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        transport = GrpcTransport(f"127.0.0.1:{port}", health_checked=False)
        await transport.validate(REVIEW, [Call("ResourceQuota")], Deadline.after(20))
        await transport.close()
        await server.stop(None)

    asyncio.run(scenario())
    assert repeated == [False, True]
