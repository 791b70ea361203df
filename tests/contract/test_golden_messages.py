"""Messages that were sent once are understood for ever."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from google.protobuf import text_format

from pratique import statuses
from pratique.admission.v1 import mutator_service_pb2, validator_service_pb2
from pratique.calls import Call
from pratique.clusters import ANY_NAMESPACE
from pratique.json_values import Document
from pratique.outcomes import ALLOWED, Denied, Failed, FailureKind, Outcome, Patched
from pratique.reviews import GroupVersionKind, GroupVersionResource, Operation, Review, UserInfo
from pratique.rpc import messages
from pratique.statuses import StatusCause, StatusDetails

if TYPE_CHECKING:
    from google.protobuf.message import Message

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
    assert (
        sorted(
            f"{method}_{side}"
            for method in ("mutate", "validate", "mutate_stream", "validate_stream", "describe")
            for side in ("request", "response")
        )
        == NAMES
    )


def test_golden_requests_are_read_as_they_were() -> None:
    mutate = mutator_service_pb2.MutateRequest.FromString(golden("mutate_request"))
    validate = validator_service_pb2.ValidateRequest.FromString(golden("validate_request"))
    for request in (mutate, validate):
        assert messages.review_and_calls(request, ANY_NAMESPACE) == (REVIEW, CALLS)


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
