"""Calls to the service under test, as any client could make them, and the reviews that they carry."""

from __future__ import annotations

import functools
import json
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import grpc
import msgspec
from google.protobuf.message import DecodeError

from pratique.admission.results import Outcome
from pratique.admission.reviews import Call
from pratique.admission.v1 import (
    catalogue_service_pb2,
    catalogue_service_pb2_grpc,
    mutator_service_pb2,
    outcome_pb2,
    review_pb2,
    validator_service_pb2,
)
from pratique.apimachinery.errors import BadAnswerError
from pratique.rpc import messages

MESSAGE_LIMIT = 16 * 1024 * 1024
"""The size in bytes up to which the contract has messages accepted, both ways."""

Request: TypeAlias = mutator_service_pb2.MutateRequest | validator_service_pb2.ValidateRequest

_UNLISTED = "verify.example.com"
"""What to call a service that lists no controllers: most answer to any name."""

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "verify", "namespace": "default"},
    "spec": {
        "automountServiceAccountToken": False,  # a token's volume would get a random name
        "containers": [{"name": "app", "image": "registry.example/app:1.0"}],
    },
}
"""The object of most reviews."""


class UnmetError(Exception):
    """The service does not do what a check expects; the text is what was seen."""


class InapplicableError(Exception):
    """The check does not apply to the service; the text is why."""


class Method(msgspec.Struct, frozen=True):
    """The method of a phase."""

    service: str
    """``mutator`` or ``validator``."""
    path: str
    request: Callable[..., Any]
    response: Any
    answers: str
    """The field of the response that has the outcomes."""
    stream_request: Any
    stream_response: Any
    phase: catalogue_service_pb2.Phase.ValueType
    outcomes: Callable[[Any, Sequence[Call]], list[Outcome]]

    @property
    def rules(self) -> str:
        """The file of the contract that has the method."""
        return f"{self.service}_service.proto"

    @property
    def name(self) -> str:
        """The method's short name."""
        return self.path.rpartition("/")[2]


MUTATE = Method(
    "mutator",
    "/pratique.admission.v1.MutatorService/Mutate",
    mutator_service_pb2.MutateRequest,
    mutator_service_pb2.MutateResponse,
    "steps",
    mutator_service_pb2.MutateStreamRequest,
    mutator_service_pb2.MutateStreamResponse,
    catalogue_service_pb2.PHASE_MUTATE,
    messages.outcomes_from_mutate,
)
VALIDATE = Method(
    "validator",
    "/pratique.admission.v1.ValidatorService/Validate",
    validator_service_pb2.ValidateRequest,
    validator_service_pb2.ValidateResponse,
    "verdicts",
    validator_service_pb2.ValidateStreamRequest,
    validator_service_pb2.ValidateStreamResponse,
    catalogue_service_pb2.PHASE_VALIDATE,
    messages.outcomes_from_validate,
)


class Reply(msgspec.Struct, frozen=True):
    """What came back from a call."""

    code: grpc.StatusCode
    details: str
    raw: bytes = b""

    def __str__(self) -> str:
        """Describe it in one line."""
        return f"{self.code.name}: {self.details[:200]}" if self.details else self.code.name


class TestedService(msgspec.Struct, frozen=True, dict=True):
    """A connection to the service under test, and what to call there."""

    __test__ = False  # pytest would take the name for a test

    channel: grpc.Channel
    seconds: float
    """The time limit of each call, in seconds."""
    named: tuple[str, ...] = ()
    """The controllers to call; empty means those that the service lists."""

    @functools.cached_property
    def catalogue(self) -> tuple[catalogue_service_pb2.ControllerDescription, ...] | None:
        """What the service lists; None if it has no catalogue."""
        ask = catalogue_service_pb2_grpc.CatalogueServiceStub(self.channel).Describe
        try:
            response = ask(catalogue_service_pb2.DescribeRequest(), timeout=self.seconds)
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                return None
            raise UnmetError(f"Describe fails with {error.code().name}") from None
        return tuple(response.controllers)

    def controllers(self, method: Method, operation: str = "CREATE") -> tuple[str, ...]:
        """Return the controllers to call on a Pod.

        Raises:
            InapplicableError: the service lists none for it.
        """
        if self.named:
            return self.named
        if self.catalogue is None:
            return (_UNLISTED,)
        listed = [item for item in self.catalogue if method.phase in item.phases]
        if not listed:
            return (_UNLISTED,)
        names = tuple(
            item.name for item in listed if any(_selects_pods(rule, operation) for rule in item.rules)
        )
        if not names:
            raise InapplicableError(f"the service lists no controller that {operation} of a Pod concerns")
        return names

    def request(self, method: Method, document: object = POD, **fields: Any) -> Any:
        """Make a request: the creation of a Pod, with other ``fields`` of the review."""
        review = review_pb2.Review(
            uid=str(uuid.uuid4()),
            operation=review_pb2.OPERATION_CREATE,
            kind=review_pb2.GroupVersionKind(version="v1", kind="Pod"),
            resource=review_pb2.GroupVersionResource(version="v1", resource="pods"),
            name="verify",
            namespace="default",
            user_info=review_pb2.UserInfo(username="verify", groups=["system:authenticated"]),
            object=document if isinstance(document, bytes) else json.dumps(document).encode(),
        )
        review.MergeFrom(review_pb2.Review(**fields))
        operation = review_pb2.Operation.Name(review.operation).removeprefix("OPERATION_")
        calls = [review_pb2.ControllerCall(name=name) for name in self.controllers(method, operation)]
        return method.request(review=review, controllers=calls)

    def ask(
        self, method: Method, request: Request | bytes, metadata: Iterable[tuple[str, str]] = ()
    ) -> Reply:
        """Call the method, with the time limit as the deadline."""
        return self.reply(self.start(method.path, request, self.seconds, metadata))

    def start(
        self,
        path: str,
        request: Request | bytes,
        seconds: float | None,
        metadata: Iterable[tuple[str, str]] = (),
    ) -> Any:
        """Begin a call; ``seconds`` None means no deadline."""
        raw = request if isinstance(request, bytes) else request.SerializeToString()
        return self.channel.unary_unary(path, None, None).future(
            raw, timeout=seconds, metadata=tuple(metadata)
        )

    def reply(self, call: Any) -> Reply:
        """Wait for the end of a call.

        Raises:
            UnmetError: it does not end in time.
        """
        try:
            error = call.exception(timeout=self.seconds + 1)
        except grpc.FutureTimeoutError:
            call.cancel()
            raise UnmetError(f"no answer within {self.seconds:g} s") from None
        except grpc.FutureCancelledError:
            return Reply(grpc.StatusCode.CANCELLED, "")
        if error is not None:
            return Reply(error.code(), error.details() or "")
        return Reply(grpc.StatusCode.OK, "", call.result())

    def decide(
        self, method: Method, request: Any, metadata: Iterable[tuple[str, str]] = ()
    ) -> list[outcome_pb2.Outcome]:
        """Call the method, and read the answer as a front door does; durations are left out.

        Raises:
            UnmetError: the call fails, or the answer breaks the contract.
        """
        return read_answer(method, request, self.ask(method, request, metadata))


def read_answer(method: Method, request: Any, reply: Reply) -> list[outcome_pb2.Outcome]:
    """Read the outcomes of a reply as a front door does, without durations.

    Raises:
        UnmetError: the call failed, or the answer breaks the contract.
    """
    if reply.code is not grpc.StatusCode.OK:
        raise UnmetError(str(reply))
    response = parse(method.response, reply.raw)
    calls = [Call(call.name) for call in request.controllers]
    try:
        messages.check_answered_review(response, request.review.uid, ours=False)
        method.outcomes(response, calls)
    except BadAnswerError as error:
        raise UnmetError(str(error)) from None
    outcomes = list(getattr(response, method.answers))
    for outcome in outcomes:
        outcome.ClearField("duration_micros")
        for part in outcome.parts:
            part.ClearField("duration_micros")
    return outcomes


def parse(kind: Any, raw: bytes) -> Any:
    """Decode a message.

    Raises:
        UnmetError: it is not of this kind.
    """
    try:
        return kind.FromString(raw)
    except DecodeError:
        raise UnmetError(f"the answer is not a {kind.DESCRIPTOR.full_name}") from None


def describe_outcomes(outcomes: Iterable[outcome_pb2.Outcome]) -> str:
    """Name the outcomes' decisions, never their content."""
    return ", ".join(f"{outcome.controller} {outcome.WhichOneof('decision')}" for outcome in outcomes)


def _selects_pods(rule: catalogue_service_pb2.Rule, operation: str) -> bool:
    wanted = (
        (rule.operations, {operation}),
        (rule.api_groups, {""}),
        (rule.api_versions, {"v1"}),
        (rule.resources, {"pods", "*/*"}),
    )
    return rule.scope != "Cluster" and all({"*", *accepted} & set(values) for values, accepted in wanted)
