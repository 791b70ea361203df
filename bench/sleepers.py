"""Validators that sleep: ``python bench/sleepers.py``.

One gRPC server that stands for as many webhooks as call it. A webhook's name says for how long each of its calls
sleeps, in milliseconds: ``w3.50ms.example.com``.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from typing import Any

import grpc
import uvloop

from pratique.admission.v1 import outcome_pb2, validator_service_pb2
from pratique.apimachinery.json_values import JSONObject

_TIME = re.compile(r"\.(\d+)ms\.")


def webhooks(milliseconds: list[int], port: int) -> JSONObject:
    """A ValidatingWebhookConfiguration of one webhook for each time, all of which match Pods."""
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "sleepers"},
        "webhooks": [
            {
                "name": f"w{number}.{time}ms.example.com",
                "clientConfig": {"url": f"grpc://127.0.0.1:{port}"},
                "rules": [rule],
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
            }
            for number, time in enumerate(milliseconds)
        ],
    }


async def _validate(
    request: validator_service_pb2.ValidateRequest, _context: grpc.aio.ServicerContext[Any, Any]
) -> validator_service_pb2.ValidateResponse:
    verdicts = []
    for call in request.controllers:
        found = _TIME.search(call.name)
        if found and found[1] != "0":
            await asyncio.sleep(int(found[1]) / 1000)
        verdicts.append(outcome_pb2.Outcome(controller=call.name, allowed=outcome_pb2.Allowed()))
    return validator_service_pb2.ValidateResponse(verdicts=verdicts)


async def serve() -> None:
    """Serve on a free port."""
    handler = grpc.unary_unary_rpc_method_handler(
        _validate,
        validator_service_pb2.ValidateRequest.FromString,
        validator_service_pb2.ValidateResponse.SerializeToString,
    )
    server = grpc.aio.server()
    service = "pratique.admission.v1.ValidatorService"
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {"Validate": handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(f"ready on {port}", flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
        uvloop.run(serve())
