"""A service of the contract as anyone would write it, and one fault at a time."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from pratique.admission.v1 import catalogue_service_pb2, outcome_pb2, review_pb2, stream_pb2
from pratique_cli.conformance.service_calls import MESSAGE_LIMIT, Method

NAME = "images.example.com"

INVALID = grpc.StatusCode.INVALID_ARGUMENT
REQUIRED = ("review", "controllers", "uid", "operation", "kind", "resource")


class RefusalError(Exception):
    def __init__(self, code: grpc.StatusCode, text: str = "") -> None:
        super().__init__(text)
        self.code = code


def seconds_left(context: Any) -> float | None:
    """Without a deadline, gRPC's threads have an age left."""
    seconds: float = context.time_remaining()
    return seconds if seconds < 1e6 else None


def present(request: Any, field: str) -> bool:
    if field == "controllers":
        return bool(request.controllers)
    if field == "review":
        return bool(request.HasField("review"))
    if field in {"kind", "resource"}:
        return bool(request.review.HasField(field))
    return bool(getattr(request.review, field))


class Service:
    """Allows Pods; with the name of a check as ``fault``, it fails that check."""

    def __init__(self, method: Method, fault: str) -> None:
        self.method = method
        self.fault = fault
        self.calls = 0
        self.in_flight = 0
        self.dead = False
        self.lock = threading.Lock()

    def answer(self, raw: bytes, seconds: float | None) -> bytes:
        self.calls += 1
        if seconds is None and self.fault != "deadline-required":
            raise RefusalError(INVALID, "no deadline")
        try:
            kind: Any = self.method.request
            request = kind.FromString(raw)
        except DecodeError:
            if self.fault == "undecodable-request":
                return b""
            raise RefusalError(INVALID, "not a request") from None
        self.require(request)
        response = self.method.response(uid=request.review.uid)
        for call in request.controllers:
            getattr(response, self.method.answers).append(self.outcome(call, request.review))
        encoded: bytes = response.SerializeToString()
        return encoded

    def require(self, request: Any) -> None:
        review = request.review
        missing = [field for field in REQUIRED if not present(request, field)]
        # Without a review, its fields are missing too.
        if missing and self.fault.removesuffix("-required") not in missing[:1]:
            raise RefusalError(INVALID, f"{missing[0]} is missing")
        if review.operation > review_pb2.OPERATION_CONNECT and self.fault != "operation-known":
            raise RefusalError(INVALID, "unknown operation")
        if any(call.timeout_millis < 0 for call in request.controllers):
            if self.fault == "time-limit-not-negative":
                return
            raise RefusalError(INVALID, "negative limit")
        if self.fault == "unknown-fields" and len(UnknownFieldSet(request)):
            raise RefusalError(INVALID, "unknown field")
        if self.fault == "controller-time-limit" and request.controllers[0].timeout_millis == 1:
            raise RefusalError(grpc.StatusCode.DEADLINE_EXCEEDED)

    def outcome(self, call: Any, review: Any) -> Any:
        outcome = outcome_pb2.Outcome(controller=call.name)
        if call.name != NAME and self.fault != "unknown-controller":
            outcome.failed.kind = outcome_pb2.Failed.KIND_UNKNOWN_CONTROLLER
            return outcome
        if self.fault == "answers":
            outcome.failed.message = "broken"
            return outcome
        document = self.read(review.object)
        if self.fault == "delete-without-object" and document is None:
            outcome.failed.message = "no object"
        elif self.fault == "dry-run" and review.dry_run:
            outcome.denied.status.code = 403
        elif self.fault == "patch-applies":
            outcome.patched.patch = b'[{"op":"remove","path":"/spec/nothing"}]'
        elif self.fault == "settles":
            labels = len(document["metadata"].get("labels", {}))
            patch = [
                {"op": "add", "path": "/metadata/labels", "value": {str(n): "" for n in range(labels + 1)}}
            ]
            outcome.patched.patch = json.dumps(patch).encode()
        else:
            outcome.allowed.SetInParent()
        if self.fault == "repeats":
            outcome.warnings.append(f"call {self.calls}")
        return outcome

    def read(self, raw: bytes) -> Any:
        if not raw:
            return None
        try:
            document = json.loads(raw)
        except ValueError:
            if self.fault == "object-not-json":
                raise RefusalError(grpc.StatusCode.INTERNAL) from None
            raise RefusalError(
                INVALID, raw.decode() if self.fault == "objects-kept-secret" else "no JSON"
            ) from None
        if self.fault == "object-of-another-shape" and isinstance(document["spec"], str):
            raise RefusalError(grpc.StatusCode.UNKNOWN, "Exception calling application")
        return document

    def unary(self, raw: bytes, context: Any) -> bytes:
        with self.lock:
            self.in_flight += 1
            crowded = self.fault == "side-by-side" and self.in_flight > 1
        try:
            return self.answer_unless_troubled(raw, context, crowded=crowded)
        except RefusalError as refusal:
            context.abort(refusal.code, str(refusal))
            raise
        finally:
            with self.lock:
                self.in_flight -= 1

    def answer_unless_troubled(self, raw: bytes, context: Any, *, crowded: bool) -> bytes:
        if crowded:
            raise RefusalError(grpc.StatusCode.RESOURCE_EXHAUSTED)
        if self.fault in {"cancelled-calls", "expired-calls", "side-by-side"}:
            time.sleep(0.1)
        self.dead |= not context.is_active() and self.fault in {"cancelled-calls", "expired-calls"}
        if self.dead:
            raise RefusalError(grpc.StatusCode.UNAVAILABLE)
        return self.answer(raw, seconds_left(context))

    def stream(self, requests: Iterator[bytes], _context: Any) -> Iterator[bytes]:
        if self.fault != "stream-opens":
            yield self.method.stream_response().SerializeToString()
        for raw in requests:
            for call in self.method.stream_request.FromString(raw).calls:
                answer = stream_pb2.StreamedAnswer(id=call.id)
                try:
                    answer.response = self.answer(call.request, call.timeout_millis / 1000 or None)
                except RefusalError as refusal:
                    if self.fault == "stream-calls":
                        return
                    answer.status.code = refusal.code.value[0]
                yield self.method.stream_response(answers=[answer]).SerializeToString()

    def describe(self, _raw: bytes, context: Any) -> bytes:
        if seconds_left(context) is None:
            context.abort(INVALID, "no deadline")
        rule = catalogue_service_pb2.Rule(
            operations=["*"], api_groups=["*"], api_versions=["*"], resources=["*"]
        )
        listed = catalogue_service_pb2.ControllerDescription(
            name=NAME, phases=[self.method.phase], rules=[rule]
        )
        response = catalogue_service_pb2.DescribeResponse(
            controllers=[listed] * (2 if self.fault == "catalogue" else 1)
        )
        encoded: bytes = response.SerializeToString()
        return encoded


@contextlib.contextmanager
def served(method: Method, fault: str = "") -> Iterator[str]:
    """Serve it, and give its address."""
    service = Service(method, fault)
    limit = 4 << 20 if fault == "message-of-16-mib" else MESSAGE_LIMIT
    server = grpc.server(futures.ThreadPoolExecutor(20), options=[("grpc.max_receive_message_length", limit)])
    _, name, short = method.path.split("/")
    handlers = {
        short: grpc.unary_unary_rpc_method_handler(service.unary),
        f"{short}Stream": grpc.stream_stream_rpc_method_handler(service.stream),
    }
    catalogue = {"Describe": grpc.unary_unary_rpc_method_handler(service.describe)}
    server.add_generic_rpc_handlers(
        (
            grpc.method_handlers_generic_handler(name, handlers),
            grpc.method_handlers_generic_handler("pratique.admission.v1.CatalogueService", catalogue),
        )
    )
    checked = health.HealthServicer()
    if fault == "health":
        checked.set("", health_pb2.HealthCheckResponse.NOT_SERVING)
    health_pb2_grpc.add_HealthServicer_to_server(checked, server)
    if fault != "reflection":
        reflection.enable_server_reflection([name], server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()
