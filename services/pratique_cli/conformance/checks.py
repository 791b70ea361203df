"""Checks of one method, Mutate or Validate: what it refuses, what it answers, and what it withstands."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, TypeAlias

import grpc
import msgspec

from pratique.admission.v1 import outcome_pb2, review_pb2
from pratique.apimachinery.json_values import JSON
from pratique.apimachinery.patches import PatchError, apply_patch, decode_patch
from pratique_cli.conformance.service_calls import (
    MESSAGE_LIMIT,
    POD,
    InapplicableError,
    Method,
    TestedService,
    UnmetError,
    describe_outcomes,
    parse,
    read_answer,
)

CheckRun: TypeAlias = Callable[[TestedService, Method], str]
"""Makes calls and returns what was seen; raises UnmetError or InapplicableError."""

_MARKER = "verify-marker-7c1f"
"""Part of an object that may not come back in an error."""
_CALLS = 16
"""How many calls are made side by side."""
_FIELD = 1000
"""The number of a field that no version of the contract has."""


class Check(msgspec.Struct, frozen=True):
    """A check of the contract."""

    name: str
    rule: str
    """Where the contract says so: file and name. ``{rules}`` and ``{name}`` are the method's."""
    expected: str
    run: CheckRun
    required: bool = True
    """False means advice: front doors work without it."""


def _refuses(spoil: Callable[[Any], object]) -> CheckRun:
    """Make a check that a spoilt request is rejected with INVALID_ARGUMENT."""

    def run(service: TestedService, method: Method) -> str:
        request = service.request(method)
        spoil(request)
        reply = service.ask(method, request)
        if reply.code is not grpc.StatusCode.INVALID_ARGUMENT:
            raise UnmetError(str(reply))
        return str(reply)

    return run


def _no_deadline(service: TestedService, method: Method) -> str:
    reply = service.reply(service.start(method.path, service.request(method), None))
    if reply.code is not grpc.StatusCode.INVALID_ARGUMENT:
        raise UnmetError(str(reply))
    return str(reply)


def _undecodable(service: TestedService, method: Method) -> str:
    reply = service.ask(method, b"\xff" * 100)
    if reply.code is grpc.StatusCode.OK:
        raise UnmetError("OK")
    service.decide(method, service.request(method))
    return str(reply)


def _bad_object(service: TestedService, method: Method) -> str:
    request = service.request(method, b'{"spec": ')
    reply = service.ask(method, request)
    if reply.code is grpc.StatusCode.INVALID_ARGUMENT:
        return str(reply)
    outcomes = read_answer(method, request, reply)
    if any(outcome.WhichOneof("decision") != "allowed" for outcome in outcomes):
        raise UnmetError(describe_outcomes(outcomes))
    return f"{describe_outcomes(outcomes)}: no controller read the object"


def _strange_object(service: TestedService, method: Method) -> str:
    return describe_outcomes(service.decide(method, service.request(method, POD | {"spec": _MARKER})))


def _keeps_secrets(service: TestedService, method: Method) -> str:
    seen = []
    for document in (f'{{"{_MARKER}": '.encode(), POD | {"spec": _MARKER}, [_MARKER]):
        request = service.request(method, document)
        reply = service.ask(method, request)
        answers = getattr(parse(method.response, reply.raw), method.answers)
        failures = " ".join(outcome.failed.message for outcome in answers)
        if _MARKER in reply.details or _MARKER in failures:
            raise UnmetError(f"{reply.code.name}, and its text holds a part of the object")
        seen.append(reply.code.name)
    return ", ".join(seen)


def _answers(service: TestedService, method: Method) -> str:
    outcomes = service.decide(method, service.request(method))
    for outcome in outcomes:
        if outcome.WhichOneof("decision") == "failed":
            kind = outcome_pb2.Failed.Kind.Name(outcome.failed.kind)
            raise UnmetError(f"{outcome.controller} failed with {kind}; does --controller name it right?")
    return describe_outcomes(outcomes)


def _unknown_controller(service: TestedService, method: Method) -> str:
    if service.catalogue is None:
        raise InapplicableError("the service lists no controllers, so it may answer to any name")
    request = service.request(method)
    del request.controllers[:]
    request.controllers.add(name="no-such-controller.example.com")
    outcomes = service.decide(method, request)
    if outcomes[0].failed.kind != outcome_pb2.Failed.KIND_UNKNOWN_CONTROLLER:
        raise UnmetError(describe_outcomes(outcomes))
    return "KIND_UNKNOWN_CONTROLLER"


def _patched(document: JSON, outcomes: list[outcome_pb2.Outcome]) -> JSON:
    for outcome in outcomes:
        if outcome.WhichOneof("decision") == "patched":
            try:
                document = apply_patch(document, decode_patch(outcome.patched.patch))
            except PatchError:
                raise UnmetError(f"the patch of {outcome.controller} does not apply to its object") from None
    return document


def _patch_applies(service: TestedService, method: Method) -> str:
    changed = _patched(POD, service.decide(method, service.request(method)))
    return "the object is " + ("unchanged" if changed == POD else "changed")


def _settles(service: TestedService, method: Method) -> str:
    first = _patched(POD, service.decide(method, service.request(method)))
    if _patched(first, service.decide(method, service.request(method, first))) != first:
        raise UnmetError("a second call changes the object again")
    return "a second call changes nothing"


def _same(service: TestedService, method: Method, request: Any, other: Any, **kwargs: Any) -> str:
    """Expect the same decisions for two requests."""
    first = service.decide(method, request)
    raw = other if isinstance(other, bytes) else other.SerializeToString()
    second = read_answer(method, method.request.FromString(raw), service.ask(method, raw, **kwargs))  # type: ignore[attr-defined]  # a message
    if first != second:
        raise UnmetError(
            f"first {describe_outcomes(first)}, then {describe_outcomes(second)}, or other texts"
        )
    return describe_outcomes(second)


def _repeats(service: TestedService, method: Method) -> str:
    request = service.request(method)
    return _same(service, method, request, request, metadata=(("pratique-previous-attempts", "1"),))


def _dry_run(service: TestedService, method: Method) -> str:
    request = service.request(method)
    dry = service.request(method, dry_run=True)
    return _same(service, method, request, dry)


def _field(number: int, content: bytes) -> bytes:
    """Encode a field of bytes."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    encoded = b""
    while number > 0x7F:
        encoded += bytes([number & 0x7F | 0x80])
        number >>= 7
    return encoded + bytes([number])


def _unknown_fields(service: TestedService, method: Method) -> str:
    request = service.request(method)
    unknown = _field(_FIELD, b"from a later version")
    review = request.review.SerializeToString() + unknown
    # Written here, because a second review in the message would be merged by some languages and replace it in others.
    calls = b"".join(_field(2, call.SerializeToString()) for call in request.controllers)
    raw = _field(1, review) + calls + unknown
    return _same(service, method, request, raw)


def _large_message(service: TestedService, method: Method) -> str:
    pod = json.dumps(POD | {"status": {"message": "x" * (3 << 20)}}).encode()
    fields = {"operation": review_pb2.OPERATION_UPDATE, "old_object": pod}
    request = service.request(method, pod, **fields)
    raw = request.SerializeToString()
    # The rest is a field that the service does not know, so that only the message's size matters.
    head = len(_field(_FIELD, b"x" * (MESSAGE_LIMIT - len(raw)))) - (MESSAGE_LIMIT - len(raw))
    raw += _field(_FIELD, b"x" * (MESSAGE_LIMIT - len(raw) - head))
    reply = service.ask(method, raw)
    if reply.code is not grpc.StatusCode.OK:
        raise UnmetError(str(reply))
    return f"OK for {len(raw)} bytes"


def _no_object(service: TestedService, method: Method) -> str:
    pod = json.dumps(POD).encode()
    for nothing in (b"", b"null"):
        request = service.request(
            method, nothing, operation=review_pb2.OPERATION_DELETE, old_object=pod, options=nothing
        )
        outcomes = service.decide(method, request)
        if any(outcome.WhichOneof("decision") == "failed" for outcome in outcomes):
            raise UnmetError(describe_outcomes(outcomes))
    return describe_outcomes(outcomes)


def _time_limit(service: TestedService, method: Method) -> str:
    request = service.request(method)
    for call in request.controllers:
        call.timeout_millis = 1
    return describe_outcomes(service.decide(method, request))


def _cancelled_calls(service: TestedService, method: Method) -> str:
    requests = [service.request(method) for _ in range(_CALLS)]
    calls = [service.start(method.path, request, service.seconds) for request in requests]
    time.sleep(0.02)  # a call that is cancelled at once never leaves the client
    for call in calls:
        call.cancel()
    return describe_outcomes(service.decide(method, service.request(method)))


def _expired_calls(service: TestedService, method: Method) -> str:
    requests = [service.request(method) for _ in range(_CALLS)]
    calls = [
        service.start(method.path, request, (number + 1) / 1000) for number, request in enumerate(requests)
    ]
    for call in calls:
        service.reply(call)
    return describe_outcomes(service.decide(method, service.request(method)))


def _side_by_side(service: TestedService, method: Method) -> str:
    alone = service.decide(method, service.request(method))
    requests = [service.request(method) for _ in range(_CALLS)]
    calls = [service.start(method.path, request, service.seconds) for request in requests]
    for request, call in zip(requests, calls, strict=True):
        if read_answer(method, request, service.reply(call)) != alone:
            raise UnmetError("another answer than for a call alone")
    return f"{_CALLS} answers, all as alone"


def _clear(field: str) -> Callable[[Any], object]:
    return lambda request: request.review.ClearField(field)


_DECISIONS = "outcome.proto: Outcome.decision"
_REFUSED = "INVALID_ARGUMENT"

METHOD_CHECKS = (
    Check("answers", "{rules}: {name}Response", "an outcome for each controller, none failed", _answers),
    Check("deadline-required", "{rules}: {name}", f"{_REFUSED} for a call without a deadline", _no_deadline),
    *(
        Check(f"{field.replace('_', '-')}-required", rule, f"{_REFUSED} without {field}", _refuses(spoil))
        for field, rule, spoil in (
            ("review", "{rules}: {name}Request.review", lambda request: request.ClearField("review")),
            (
                "controllers",
                "{rules}: {name}Request.controllers",
                lambda request: request.ClearField("controllers"),
            ),
            ("uid", "review.proto: Review.uid", _clear("uid")),
            ("operation", "review.proto: Review.operation", _clear("operation")),
            ("kind", "review.proto: Review.kind", _clear("kind")),
            ("resource", "review.proto: Review.resource", _clear("resource")),
        )
    ),
    Check(
        "operation-known",
        "review.proto: Review.operation",
        f"{_REFUSED} for operation 99",
        _refuses(lambda request: setattr(request.review, "operation", 99)),
    ),
    Check(
        "time-limit-not-negative",
        "review.proto: ControllerCall.timeout_millis",
        f"{_REFUSED} for a negative limit",
        _refuses(lambda request: setattr(request.controllers[0], "timeout_millis", -1)),
    ),
    Check("undecodable-request", "{rules}: {name}", "an error, and the next call is answered", _undecodable),
    Check(
        "object-not-json",
        "review.proto: Review.object",
        f"{_REFUSED}, or allowed if no controller reads the object",
        _bad_object,
    ),
    Check(
        "object-of-another-shape",
        "{rules}: {name}",
        "OK: what a controller cannot read is its own outcome, not a failed call",
        _strange_object,
    ),
    Check(
        "objects-kept-secret",
        "outcome.proto: Failed.message",
        "no part of the object in details of errors or in Failed.message",
        _keeps_secrets,
    ),
    Check("unknown-controller", "review.proto: ControllerCall.name", "Failed for it", _unknown_controller),
    Check("delete-without-object", "review.proto: Review.object", "a decision", _no_object),
    Check("dry-run", "review.proto: Review.dry_run", "the same decision as otherwise", _dry_run),
    Check("repeats", "{rules}: {name}", "the same answer to the same request", _repeats),
    Check("unknown-fields", "{rules}: {name}Request", "the same answer as without them", _unknown_fields),
    Check("message-of-16-mib", "{rules}: {name}", "OK", _large_message),
    Check(
        "controller-time-limit",
        "review.proto: ControllerCall.timeout_millis",
        "an answer within the call's deadline, however short the controllers' limit",
        _time_limit,
    ),
    Check("side-by-side", "{rules}: {name}Response.uid", "each call gets its own answer", _side_by_side),
    Check(
        "cancelled-calls",
        "{rules}: {name}",
        "later calls are answered after cancelled ones",
        _cancelled_calls,
    ),
    Check(
        "expired-calls",
        "{rules}: {name}",
        "later calls are answered after calls whose deadline passed",
        _expired_calls,
    ),
)
"""The checks of both methods."""

MUTATE_CHECKS = (
    Check("patch-applies", "outcome.proto: Patched.patch", "patches that apply in order", _patch_applies),
    Check(
        "settles",
        "docs/any-language.md",
        "no further change by a second call",
        _settles,
        required=False,
    ),
)
"""The checks of Mutate alone."""
