"""Messages that were sent once are understood for ever."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from google.protobuf import text_format
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message
from google.protobuf.message import Message as MessageType

from contract.schemas import PROTO
from pratique.admission.results import (
    ALLOWED,
    Denied,
    Failed,
    FailureKind,
    Outcome,
    OutcomeStatus,
    Patched,
    PolicyOutcome,
)
from pratique.admission.reviews import Call, Review
from pratique.admission.v1 import mutator_service_pb2, validator_service_pb2
from pratique.admission.v1.catalogue_service_pb2 import DescribeResponse
from pratique.apimachinery import statuses
from pratique.apimachinery.errors import BadAnswerError, ReviewError
from pratique.apimachinery.json_values import Document
from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource
from pratique.apimachinery.requests import Operation, UserInfo
from pratique.apimachinery.statuses import StatusCause, StatusDetails
from pratique.cluster.store import ANY_NAMESPACE
from pratique.configuration.input_digests import InputDigests, RecentInputs
from pratique.rpc import messages
from pratique.rpc.check_digests import OBJECT_RULES, CheckDigests
from pratique.rpc.handlers import inputs_from_messages, inputs_to_messages

GOLDEN = Path(__file__).parent / "golden"
NAMES = sorted(path.stem for path in GOLDEN.glob("*.binpb"))

CALLS = [Call("DefaultTolerationSeconds", 10.0), Call("check.example.com", None)]
REVIEW = Review(
    uid="0df28fbd-5f5f-11e8-bc74-36e6bb280816",
    operation=Operation.UPDATE,
    kind=GroupVersionKind("apps", "v1", "Deployment"),
    resource=GroupVersionResource("apps", "v1", "deployments"),
    subresource="scale",
    request_kind=GroupVersionKind("extensions", "v1beta1", "Deployment"),
    request_resource=GroupVersionResource("extensions", "v1beta1", "deployments"),
    request_subresource="scale",
    name="web",
    namespace="shop",
    user=UserInfo("ann", "7", ("devs", "ops"), {"scopes": ("a", "b")}),
    object_document=Document.from_data(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "web", "annotations": {"big": "9007199254740993"}},
            "spec": {"priority": 9007199254740993, "containers": [{"name": "app", "image": "nginx"}]},
        }
    ),
    old_object_document=Document.from_data({}),
    options_document=Document.from_data({"kind": "UpdateOptions"}),
    dry_run=True,
)
OUTCOMES = [
    Outcome(
        controller="a",
        decision=ALLOWED,
        warnings=("careful",),
        audit_annotations={"k": "v"},
        duration_seconds=0.0015,
    ),
    Outcome(controller="b", decision=Patched(({"op": "add", "path": "/metadata/labels", "value": {}},))),
    Outcome(
        controller="c",
        decision=Denied(
            statuses.failure(
                422,
                "Invalid",
                "spec.priority: too high",
                StatusDetails(
                    name="web",
                    group="apps",
                    kind="deployments",
                    uid="8",
                    causes=(StatusCause("FieldValueInvalid", "too high", "spec.priority"),),
                    retry_after_seconds=3,
                ),
            )
        ),
    ),
    Outcome(controller="d", decision=Failed(FailureKind.TIMEOUT, "context deadline exceeded")),
]

DIGESTS = InputDigests("0d" * 16, "c4" * 16, "cf" * 16, "c1" * 16)
BEFORE = InputDigests("0b" * 16, "c4" * 16, "ce" * 16, "c1" * 16)
FULL_CALLS = [
    Call("MutatingAdmissionPolicy", 2.5, only=("labels/everywhere", "limits/shop"), explain=True),
    Call("quick", 0.001),
    *(Call(name) for name in ("denies", "late", "unknown", "broken")),
]
FULL_REVIEW = msgspec.structs.replace(REVIEW, digest=DIGESTS.whole)
PARTS = (
    PolicyOutcome(
        name="labels",
        configuration="everywhere",
        status=OutcomeStatus.MUTATED,
        reason="because",
        operations=({"op": "add", "path": "/metadata/labels", "value": {}},),
        key="labels/everywhere",
        reinvocable=True,
        applied=True,
        duration_seconds=0.00025,
    ),
    PolicyOutcome(
        name="limits",
        status=OutcomeStatus.DENIED,
        denials=(statuses.failure(403, "Forbidden", "no"), statuses.failure(422, "Invalid", "nor this")),
    ),
    *(
        PolicyOutcome(name=f"{ending}", status=ending)
        for ending in OutcomeStatus
        if ending not in (OutcomeStatus.MUTATED, OutcomeStatus.DENIED)
    ),
)
FULL_OUTCOMES = [
    msgspec.structs.replace(
        OUTCOMES[1], controller="MutatingAdmissionPolicy", policy_outcomes=PARTS, warnings=("careful",)
    ),
    msgspec.structs.replace(OUTCOMES[0], controller="quick"),
    msgspec.structs.replace(OUTCOMES[2], controller="denies"),
    Outcome(controller="late", decision=Failed(FailureKind.TIMEOUT, "context deadline exceeded")),
    Outcome(controller="unknown", decision=Failed(FailureKind.UNKNOWN_CONTROLLER, "not hosted")),
    Outcome(controller="broken", decision=Failed(FailureKind.ERROR, "raised ValueError")),
]


def golden(name: str) -> bytes:
    return (GOLDEN / f"{name}.binpb").read_bytes()


def type_of(name: str) -> type[Message]:
    """The message's type, which the first line of its text names."""
    [first, *_] = (GOLDEN / f"{name}.txtpb").read_text().splitlines()
    for file in ("mutator_service", "validator_service", "catalogue_service"):
        module = importlib.import_module(f"pratique.admission.v1.{file}_pb2")
        if found := getattr(module, first.rpartition(".")[2], None):
            return found  # type: ignore[no-any-return]  # found by name
    raise AssertionError(first)


@pytest.mark.parametrize("name", NAMES)
def test_a_golden_message_still_holds_what_it_held(name: str) -> None:
    expected = text_format.Parse((GOLDEN / f"{name}.txtpb").read_text(), type_of(name)())
    assert type_of(name).FromString(golden(name)) == expected


@pytest.mark.parametrize("name", NAMES)
def test_a_golden_message_is_written_as_it_was(name: str) -> None:
    assert type_of(name).FromString(golden(name)).SerializeToString(deterministic=True) == golden(name)


def test_every_message_of_the_services_has_a_golden_one() -> None:
    assert sorted(
        f"{method}_{side}{more}"
        for method in ("mutate", "validate", "mutate_stream", "validate_stream", "describe")
        for side in ("request", "response")
        for more in ("", "_full")
    ) == [name for name in NAMES if not name.endswith(("_span", "_checked", "_unchecked", "_quotas"))]


def fields_set(message: Message) -> Iterator[tuple[str, str]]:
    """Every field that is set in a message and in what it holds: the message's name, and the field's."""
    for field, value in message.ListFields():
        yield message.DESCRIPTOR.full_name, field.name
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            held = [each for each in value.values() if isinstance(each, MessageType)]
        else:
            held = [value] if isinstance(value, MessageType) else list(value)
        for each in held:
            yield from fields_set(each)


def all_fields(messages: Iterable[Descriptor]) -> Iterator[tuple[str, str]]:
    for message in messages:
        if not message.GetOptions().map_entry:
            yield from ((message.full_name, field.name) for field in message.fields)
            yield from all_fields(message.nested_types)


def test_every_field_of_the_contract_has_a_golden_value() -> None:
    files = [
        importlib.import_module(f"pratique.admission.v1.{path.stem}_pb2").DESCRIPTOR
        for path in PROTO.rglob("*.proto")
    ]
    known = {each for file in files for each in all_fields(file.message_types_by_name.values())}
    given = {each for name in NAMES for each in fields_set(type_of(name).FromString(golden(name)))}
    assert known == given


def read(request: Any) -> tuple[Review, list[Call]]:
    """The review and the calls of a request, without what only the process that reads it knows."""
    review, calls = messages.review_and_calls(request, ANY_NAMESPACE)
    return msgspec.structs.replace(review, received_values=0), list(calls)


def test_full_requests_are_read_as_they_were_written() -> None:
    mutate = mutator_service_pb2.MutateRequest.FromString(golden("mutate_request_full"))
    validate = validator_service_pb2.ValidateRequest.FromString(golden("validate_request_full"))
    assert messages.mutate_request(REVIEW, FULL_CALLS, DIGESTS.whole) == mutate
    assert messages.validate_request(REVIEW, FULL_CALLS, DIGESTS.whole) == validate
    for request in (mutate, validate):
        assert read(request) == (FULL_REVIEW, FULL_CALLS)


def test_checked_requests_are_read_as_they_were_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pratique.apimachinery.json_values.MIN_PROVED_BYTES", 0)  # golden messages are short
    digests = CheckDigests(b"golden key of at least 32 bytes.")
    documents = (REVIEW.object_document, REVIEW.old_object_document, REVIEW.options_document)
    objects = [Document.from_raw(document.raw).checked_by(digests) for document in documents]
    review = msgspec.structs.replace(
        REVIEW, object_document=objects[0], old_object_document=objects[1], options_document=objects[2]
    )
    mutate = mutator_service_pb2.MutateRequest.FromString(golden("mutate_request_checked"))
    validate = validator_service_pb2.ValidateRequest.FromString(golden("validate_request_checked"))
    assert messages.mutate_request(review, CALLS, DIGESTS.whole) == mutate
    assert messages.validate_request(review, CALLS, DIGESTS.whole) == validate
    for request in (mutate, validate):
        checked = messages.checked_documents(request.review, digests)
        assert list(checked.values()) == objects
        assert not messages.checked_documents(request.review, CheckDigests(b"x" * 32))


class NotHere:
    """A check that is left to services."""

    passed = False

    def run(self) -> None:
        raise AssertionError("checked here")


def unchecked_review() -> Review:
    raw = REVIEW.object_document.raw
    return msgspec.structs.replace(REVIEW, object_document=Document.from_raw(raw).defer(NotHere()))


def test_unchecked_requests_are_read_as_they_were_written() -> None:
    mutate = mutator_service_pb2.MutateRequest.FromString(golden("mutate_request_unchecked"))
    validate = validator_service_pb2.ValidateRequest.FromString(golden("validate_request_unchecked"))
    assert messages.mutate_request(unchecked_review(), CALLS, DIGESTS.whole) == mutate
    assert messages.validate_request(unchecked_review(), CALLS, DIGESTS.whole) == validate
    for request in (mutate, validate):
        assert messages.review_and_calls(request, ANY_NAMESPACE)[1] == CALLS


def test_answers_of_services_that_checked_are_read_as_they_were_written() -> None:
    mutate = mutator_service_pb2.MutateResponse.FromString(golden("mutate_response_unchecked"))
    validate = validator_service_pb2.ValidateResponse.FromString(golden("validate_response_unchecked"))
    assert messages.mutate_response([], REVIEW.uid, DIGESTS.whole, OBJECT_RULES) == mutate
    assert messages.validate_response([], REVIEW.uid, DIGESTS.whole, OBJECT_RULES) == validate
    for response in (mutate, validate):
        review = unchecked_review()
        messages.record_checks(response, review)
        assert not review.is_unchecked


def test_full_answers_are_read_as_they_were_written() -> None:
    steps = mutator_service_pb2.MutateResponse.FromString(golden("mutate_response_full"))
    verdicts = validator_service_pb2.ValidateResponse.FromString(golden("validate_response_full"))
    amending = [FULL_CALLS[0], *FULL_CALLS[1:]]
    amending[0] = msgspec.structs.replace(amending[0], may_patch=True)
    assert messages.mutate_response(FULL_OUTCOMES, REVIEW.uid, DIGESTS.whole) == steps
    assert messages.validate_response(FULL_OUTCOMES, REVIEW.uid, DIGESTS.whole) == verdicts
    assert messages.outcomes_from_mutate(steps, FULL_CALLS) == FULL_OUTCOMES[:3]
    assert messages.outcomes_from_validate(verdicts, amending) == FULL_OUTCOMES


SPAN_CALL = Call("ValidatingAdmissionPolicy", span=(3, 7))
SPAN_OUTCOME = Outcome(controller="ValidatingAdmissionPolicy", decision=ALLOWED, span=(3, 7))


def test_spans_of_policies_are_read_as_they_were_written() -> None:
    request = validator_service_pb2.ValidateRequest.FromString(golden("validate_request_span"))
    response = validator_service_pb2.ValidateResponse.FromString(golden("validate_response_span"))
    assert messages.validate_request(REVIEW, [SPAN_CALL], DIGESTS.whole) == request
    assert read(request) == (FULL_REVIEW, [SPAN_CALL])
    assert messages.validate_response([SPAN_OUTCOME], REVIEW.uid, DIGESTS.whole) == response
    assert messages.outcomes_from_validate(response, [SPAN_CALL]) == [SPAN_OUTCOME]


@pytest.mark.parametrize("asked", [None, (3, 8), (0, 7)])
def test_an_answer_for_other_policies_breaks_the_contract(asked: tuple[int, int] | None) -> None:
    response = validator_service_pb2.ValidateResponse.FromString(golden("validate_response_span"))
    call = msgspec.structs.replace(SPAN_CALL, span=asked)
    with pytest.raises(BadAnswerError, match="other policies were evaluated than those of the call"):
        messages.outcomes_from_validate(response, [call])


def test_a_span_that_ends_before_it_begins_breaks_the_contract() -> None:
    request = messages.validate_request(REVIEW, [Call("c", span=(4, 3))])
    with pytest.raises(
        ReviewError, match=r"controllers\.span\.end must not be below controllers\.span\.first"
    ):
        messages.review_and_calls(request, ANY_NAMESPACE)


def test_what_a_service_holds_is_read_as_it_was_written() -> None:
    held = RecentInputs(BEFORE, None)

    async def change() -> None:
        held.switch_to(DIGESTS, None)
        held.close()

    asyncio.run(change())
    described = DescribeResponse.FromString(golden("describe_response_full"))
    assert list(described.held) == inputs_to_messages(held)
    assert inputs_from_messages(described.held) == (DIGESTS, BEFORE)


def test_golden_requests_are_read_as_they_were() -> None:
    mutate = mutator_service_pb2.MutateRequest.FromString(golden("mutate_request"))
    validate = validator_service_pb2.ValidateRequest.FromString(golden("validate_request"))
    for request in (mutate, validate):
        assert read(request) == (REVIEW, CALLS)


def test_requests_are_written_as_they_were() -> None:
    mutate, validate = messages.mutate_request(REVIEW, CALLS), messages.validate_request(REVIEW, CALLS)
    assert mutate == mutator_service_pb2.MutateRequest.FromString(golden("mutate_request"))
    assert validate == validator_service_pb2.ValidateRequest.FromString(golden("validate_request"))


def test_golden_answers_are_read_as_they_were() -> None:
    steps = mutator_service_pb2.MutateResponse.FromString(golden("mutate_response"))
    verdicts = validator_service_pb2.ValidateResponse.FromString(golden("validate_response"))
    assert messages.outcomes_from_mutate(steps, [Call(name) for name in "abcd"]) == OUTCOMES[:3]
    expected = [OUTCOMES[place] for place in (0, 2, 3)]
    assert messages.outcomes_from_validate(verdicts, [Call(name) for name in "acd"]) == expected


def test_answers_are_written_as_they_were() -> None:
    steps = mutator_service_pb2.MutateResponse.FromString(golden("mutate_response"))
    verdicts = validator_service_pb2.ValidateResponse.FromString(golden("validate_response"))
    assert messages.mutate_response(OUTCOMES) == steps
    assert messages.validate_response([OUTCOMES[place] for place in (0, 2, 3)]) == verdicts
