"""Checks of the streams, the catalogue and the standard services, and the run of all checks."""

from __future__ import annotations

import enum
import queue
from collections.abc import Collection, Iterator
from typing import Any

import grpc
import msgspec
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from pratique.admission.v1 import stream_pb2
from pratique_cli.conformance.checks import METHOD_CHECKS, MUTATE_CHECKS, Check
from pratique_cli.conformance.service_calls import (
    MUTATE,
    VALIDATE,
    InapplicableError,
    Method,
    Reply,
    TestedService,
    UnmetError,
    describe_outcomes,
    parse,
    read_answer,
)

_DESCRIBE = "/pratique.admission.v1.CatalogueService/Describe"


class CheckOutcome(enum.StrEnum):
    """What came of a check."""

    KEPT = "kept"
    BROKEN = "broken"
    ADVISED = "advised"
    """What is advised is missing."""
    SKIPPED = "skipped"


class CheckResult(msgspec.Struct, frozen=True):
    """The result of a check."""

    service: str
    """``server``, ``mutator`` or ``validator``."""
    check: str
    outcome: CheckOutcome
    expected: str
    seen: str
    rule: str


class _OpenStream:
    """A stream to the service."""

    def __init__(self, service: TestedService, method: Method) -> None:
        self._requests: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._method = method
        call = service.channel.stream_stream(f"{method.path}Stream", None, None)
        self._answers: Any = call(iter(self._requests.get, None), timeout=service.seconds)

    def receive(self) -> Any:
        """Wait for a message."""
        try:
            return parse(self._method.stream_response, next(self._answers))
        except StopIteration:
            raise UnmetError("the service ended the stream") from None
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                raise InapplicableError("the service has no stream") from None
            raise UnmetError(str(Reply(error.code(), error.details() or ""))) from None

    def send(self, *calls: stream_pb2.StreamedCall) -> None:
        """Send calls."""
        self._requests.put(self._method.stream_request(calls=calls).SerializeToString())

    def close(self) -> None:
        """End the stream."""
        self._requests.put(None)
        self._answers.cancel()


def _stream_opens(service: TestedService, method: Method) -> str:
    stream = _OpenStream(service, method)
    try:
        first = stream.receive()
    finally:
        stream.close()
    if first.answers:
        raise UnmetError("the first message has answers")
    return "a first message without answers"


def _stream_answers(service: TestedService, method: Method) -> str:
    request, millis = service.request(method), int(service.seconds * 1000)
    calls = (
        stream_pb2.StreamedCall(id=7, timeout_millis=millis, request=request.SerializeToString()),
        stream_pb2.StreamedCall(id=8, timeout_millis=millis, request=b"\xff" * 100),
        stream_pb2.StreamedCall(id=9, request=request.SerializeToString()),
    )
    answers: dict[int, stream_pb2.StreamedAnswer] = {}
    stream = _OpenStream(service, method)
    try:
        stream.receive()
        stream.send(*calls)
        while len(answers) < len(calls):
            answers.update({answer.id: answer for answer in stream.receive().answers})
    finally:
        stream.close()
    for number, what in ((8, "undecodable request"), (9, "call without a deadline")):
        if number not in answers or answers[number].WhichOneof("result") != "status":
            raise UnmetError(f"no failure of the {what}")
    if answers[9].status.code != grpc.StatusCode.INVALID_ARGUMENT.value[0]:
        raise UnmetError(f"code {answers[9].status.code} for the call without a deadline")
    reply = Reply(grpc.StatusCode.OK, "", answers[7].response)
    outcomes = read_answer(method, request, reply)
    if outcomes != service.decide(method, request):
        raise UnmetError("another answer than for a separate call")
    return describe_outcomes(outcomes)


def _health(service: TestedService, _method: Method) -> str:
    try:
        answer = health_pb2_grpc.HealthStub(service.channel).Check(
            health_pb2.HealthCheckRequest(), timeout=service.seconds
        )
    except grpc.RpcError as error:
        raise UnmetError(error.code().name) from None
    status: str = health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)
    if answer.status != health_pb2.HealthCheckResponse.SERVING:
        raise UnmetError(status)
    return status


def _reflection(service: TestedService, method: Method) -> str:
    requests = iter([reflection_pb2.ServerReflectionRequest(list_services="")])
    stub = reflection_pb2_grpc.ServerReflectionStub(service.channel)
    try:
        # v1 has the messages of v1alpha, under another name.
        v1 = service.channel.stream_stream(
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
            reflection_pb2.ServerReflectionRequest.SerializeToString,
            reflection_pb2.ServerReflectionResponse.FromString,
        )
        names = _listed(v1(requests, timeout=service.seconds))
    except grpc.RpcError as error:
        if error.code() is not grpc.StatusCode.UNIMPLEMENTED:
            raise UnmetError(error.code().name) from None
        requests = iter([reflection_pb2.ServerReflectionRequest(list_services="")])
        try:
            names = _listed(stub.ServerReflectionInfo(requests, timeout=service.seconds))
        except grpc.RpcError as second:
            raise UnmetError(second.code().name) from None
    wanted = method.path.split("/")[1]
    if wanted not in names:
        raise UnmetError(f"{wanted} is not among {len(names)} services")
    return ", ".join(sorted(names))[:200]


def _listed(answers: Any) -> set[str]:
    return {item.name for item in next(answers).list_services_response.service}


def _catalogue(service: TestedService, _method: Method) -> str:
    listed = service.catalogue
    if listed is None:
        raise InapplicableError("the service has no catalogue")
    names = [item.name for item in listed]
    if not all(names) or len(set(names)) < len(names):
        raise UnmetError("a controller without a name, or two of one name")
    for item in listed:
        if set(item.phases) - {MUTATE.phase, VALIDATE.phase}:
            raise UnmetError(f"{item.name} has an unknown phase")
    reply = service.reply(service.start(_DESCRIBE, b"", None))
    if reply.code is not grpc.StatusCode.INVALID_ARGUMENT:
        raise UnmetError(f"{reply} for a call without a deadline")
    return f"{len(names)} controllers: {', '.join(names)}"[:200]


STREAM_CHECKS = (
    Check("stream-opens", "{rules}: {name}Stream", "a first message before any call", _stream_opens),
    Check(
        "stream-calls",
        "stream.proto: StreamedCall",
        "answers as to separate calls; what cannot be decoded or has no deadline fails alone",
        _stream_answers,
    ),
)
"""The checks of the streams."""
SERVER_CHECKS = (
    Check("health", "docs/any-language.md", "grpc.health.v1: SERVING", _health, required=False),
    Check("reflection", "docs/any-language.md", "lists the service", _reflection, required=False),
    Check(
        "catalogue",
        "catalogue_service.proto: CatalogueService",
        "named controllers with known phases; INVALID_ARGUMENT without a deadline",
        _catalogue,
    ),
)
"""The checks of what is no method of a phase."""
METHODS = {method.service: method for method in (MUTATE, VALIDATE)}


def checks_of(method: Method) -> tuple[Check, ...]:
    """Return the checks of a method."""
    return (*METHOD_CHECKS, *(MUTATE_CHECKS if method is MUTATE else ()), *STREAM_CHECKS)


def all_check_names() -> list[str]:
    """Return the name of every check, in the order in which they run."""
    return [check.name for check in (*SERVER_CHECKS, *METHOD_CHECKS, *MUTATE_CHECKS, *STREAM_CHECKS)]


def offered_methods(service: TestedService) -> tuple[Method, ...]:
    """Return the methods that the service implements."""
    return tuple(method for method in METHODS.values() if _is_offered(service, method))


def _is_offered(service: TestedService, method: Method) -> bool:
    try:
        return service.ask(method, method.request()).code is not grpc.StatusCode.UNIMPLEMENTED
    except UnmetError:
        return True  # it hangs, which the checks will tell


def run_checks(
    service: TestedService, methods: Collection[Method], only: Collection[str] = ()
) -> Iterator[CheckResult]:
    """Run the checks of ``methods``, and those of the server, one after another.

    Args:
        service: The service.
        methods: The methods; at least one.
        only: The names of the checks to run; empty means all.
    """
    for name, method, check in _plan(methods, only):
        yield _run(service, name, method, check)


def count_checks(methods: Collection[Method], only: Collection[str] = ()) -> int:
    """Count the checks that :func:`run_checks` runs."""
    return len(_plan(methods, only))


def _plan(methods: Collection[Method], only: Collection[str]) -> list[tuple[str, Method, Check]]:
    first = next(iter(methods))
    plan = [("server", first, check) for check in SERVER_CHECKS]
    plan += [(method.service, method, check) for method in methods for check in checks_of(method)]
    return [each for each in plan if not only or each[2].name in only]


def _run(service: TestedService, name: str, method: Method, check: Check) -> CheckResult:
    try:
        outcome, seen = CheckOutcome.KEPT, check.run(service, method)
    except InapplicableError as reason:
        outcome, seen = CheckOutcome.SKIPPED, str(reason)
    except UnmetError as reason:
        outcome, seen = CheckOutcome.BROKEN if check.required else CheckOutcome.ADVISED, str(reason)
    rule = check.rule.format(rules=method.rules, name=method.name)
    return CheckResult(name, check.name, outcome, check.expected, seen, rule)
