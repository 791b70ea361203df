"""What follows from a controller's answer."""

from __future__ import annotations

import pytest

from pratique.admission.controllers import Phase
from pratique.admission.results import (
    ALLOWED,
    Answer,
    Denied,
    Deny,
    Failed,
    Patch,
    Patched,
    allow,
    deny,
    patch,
    warn,
)
from pratique.apimachinery import statuses
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.patches import apply_patch
from pratique.apimachinery.requests import Operation
from pratique.hosting.running import evaluate_answer
from support.services.reviews import POD, review_of

LABELLED = POD | {"metadata": {"name": "web", "labels": {"a": "b"}}}
TESTING = {"op": "test", "path": "/kind", "value": "Pod"}
LABELLING = {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("answer", [allow(), warn("careful")])
def test_allowing_leaves_the_object_unchanged(answer: Answer, phase: Phase) -> None:
    review = review_of()
    decision, document = evaluate_answer(answer, review, phase)
    assert decision is ALLOWED
    assert document is review.object_document


def test_a_message_becomes_the_denial_of_a_built_in_controller() -> None:
    decision, _ = evaluate_answer(deny("no"), review_of(), Phase.VALIDATE)
    assert isinstance(decision, Denied)
    assert decision.status.message == 'pods "web" is forbidden: no'
    assert (decision.status.code, decision.status.reason) == (403, "Forbidden")


def test_a_status_is_used_unchanged() -> None:
    status = statuses.not_found("", "namespaces", "shop")
    decision, _ = evaluate_answer(deny(status=status), review_of(), Phase.MUTATE)
    assert decision == Denied(status)


def test_a_denial_has_a_code_of_at_least_400_and_the_status_failure() -> None:
    decision, _ = evaluate_answer(Deny(statuses.Status(message="no", code=200)), review_of(), Phase.MUTATE)
    assert decision == Denied(statuses.failure(400, "", "no"))


@pytest.mark.parametrize(
    "answer", [patch(LABELLED), patch(operations=[LABELLING])], ids=["new object", "operations"]
)
def test_a_patch_changes_the_object_by_its_operations(answer: Patch) -> None:
    decision, document = evaluate_answer(answer, review_of(), Phase.MUTATE)
    assert decision == Patched((LABELLING,))
    assert document.data == LABELLED


@pytest.mark.parametrize(
    "answer",
    [
        patch(dict(POD)),
        patch(operations=[]),
        patch(operations=[{"op": "test", "path": "/kind", "value": "Pod"}]),
    ],
    ids=["equal object", "no operations", "no effect"],
)
def test_a_patch_that_changes_nothing_allows(answer: Patch) -> None:
    review = review_of()
    assert evaluate_answer(answer, review, Phase.MUTATE) == (ALLOWED, review.object_document)


def test_a_patch_does_not_change_the_object_that_was_reviewed() -> None:
    review = review_of({"spec": {"a": [1]}})
    evaluate_answer(patch(operations=[{"op": "add", "path": "/spec/a/-", "value": 2}]), review, Phase.MUTATE)
    assert review.object == {"spec": {"a": [1]}}


def failure_of(answer: object, phase: Phase = Phase.MUTATE, operation: Operation = Operation.CREATE) -> str:
    review = review_of(operation=operation)
    decision, document = evaluate_answer(answer, review, phase)
    assert isinstance(decision, Failed)
    assert document is review.object_document
    return decision.message


def test_a_validating_controller_that_patches_fails() -> None:
    assert "which a validating controller may not" in failure_of(patch(LABELLED), Phase.VALIDATE)


@pytest.mark.parametrize("answer", [patch(LABELLED), patch(operations=[LABELLING])])
def test_a_patch_where_there_is_no_object_fails(answer: Patch) -> None:
    assert "there is no object to change" in failure_of(answer, operation=Operation.DELETE)


def test_a_patch_that_does_not_fit_fails_without_quoting_the_object() -> None:
    unfit = patch(operations=[{"op": "remove", "path": "/metadata/labels/secret"}])
    assert failure_of(unfit) == "answered with a patch that does not fit the object"


def additions(count: int) -> list[JSONObject]:
    """Each of them adds a label; all are needed."""
    labels = {"op": "add", "path": "/metadata/labels", "value": {}}
    return [labels, *({"op": "add", "path": f"/metadata/labels/{n}", "value": "x"} for n in range(count - 1))]


def test_a_patch_has_a_thousand_operations_at_most() -> None:
    decision, _ = evaluate_answer(patch(operations=additions(1_000)), review_of(), Phase.MUTATE)
    assert isinstance(decision, Patched)
    message = "answered with a patch of more than 1000 operations"
    assert failure_of(patch(operations=additions(1_001))) == message


@pytest.mark.parametrize(
    "operations",
    [
        [{"op": "copy", "from": "/kind", "path": "/metadata/generateName"}],
        [{"op": "move", "from": "/kind", "path": "/metadata/generateName"}],
        [TESTING, LABELLING],
    ],
    ids=["copy", "move", "test"],
)
def test_copy_move_and_test_become_plain_operations(operations: list[JSONObject]) -> None:
    review = review_of()
    decision, document = evaluate_answer(patch(operations=operations), review, Phase.MUTATE)
    assert isinstance(decision, Patched)
    assert {operation["op"] for operation in decision.operations} <= {"add", "remove", "replace"}
    assert apply_patch(review.object, decision.operations) == document.data


def test_copies_that_grow_without_bound_fail() -> None:
    seed: JSONObject = {"op": "add", "path": "/l", "value": ["x" * 20]}
    bomb: list[JSONObject] = [seed, *({"op": "copy", "from": "/l", "path": "/l/-"} for _ in range(18))]
    assert len(str(bomb)) < 1_500
    assert failure_of(patch(operations=bomb)) == "answered with a patch that does not fit the object"


def test_operations_that_nest_too_deeply_together_fail() -> None:
    nest: list[JSONObject] = [{"op": "add", "path": "/a" * depth, "value": {}} for depth in range(1, 1_000)]
    assert failure_of(patch(operations=nest)) == "answered with a patch that does not fit the object"


def test_an_object_changed_in_place_fails() -> None:
    review = review_of()
    decision, _ = evaluate_answer(patch(review.object), review, Phase.MUTATE)
    assert isinstance(decision, Failed)
    assert "takes a changed copy" in decision.message


@pytest.mark.parametrize("answer", [None, True, {"allowed": True}, "yes"])
def test_any_other_answer_fails(answer: object) -> None:
    kind = type(answer).__name__
    assert failure_of(answer) == f"answered with {kind} in place of allow(), deny(), patch() or warn()"


@pytest.mark.parametrize(
    "answer",
    [
        patch(operations=[{"op": "add", "path": "/metadata/labels", "value": {"x": 1}}]),
        patch(POD | {"metadata": {"name": "web", "labels": {"x": 1}}}),
    ],
    ids=["operations", "object"],
)
def test_a_patch_that_makes_a_value_of_the_wrong_type_denies_as_an_api_server_does(
    answer: Patch,
) -> None:
    review = review_of()
    decision, document = evaluate_answer(answer, review, Phase.MUTATE)
    assert isinstance(decision, Denied)
    message = "cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string"
    assert decision.status == statuses.internal_error(f"json: {message}")
    assert document is review.object_document


def test_fields_that_the_kind_does_not_have_are_dropped() -> None:
    review = review_of()
    more = {"nonsense": 1, "status": {"phase": "Pending", "nonsense": 1}}
    decision, document = evaluate_answer(patch(POD | more), review, Phase.MUTATE)
    assert isinstance(decision, Patched)
    assert document.data == POD | {"status": {"phase": "Pending"}}
    assert apply_patch(review.object, decision.operations) == document.data
    assert evaluate_answer(patch(POD | {"nonsense": 1}), review, Phase.MUTATE)[0] == ALLOWED
