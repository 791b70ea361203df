from __future__ import annotations

import msgspec

from pratique.admission.controllers import Phase
from pratique.admission.results import OutcomeStatus
from pratique.apimachinery.json_values import Document, JSONObject
from pratique.apimachinery.statuses import failure
from pratique_frontdoor.blame.changes import blame_document, blame_of
from pratique_frontdoor.chain.decisions import Decision, Step
from support.blame_cases import decided, mutation, told

SET = {"op": "add", "path": "/a", "value": 1}
SET_AGAIN = {"op": "replace", "path": "/a", "value": 2}
WEBHOOKS = "MutatingAdmissionWebhook"
POLICIES = "MutatingAdmissionPolicy"


def blamed(
    final: JSONObject, *steps: Step, allowed: bool = True, received: JSONObject | None = None
) -> list[object]:
    status = None if allowed else failure(403, "Forbidden", "no")
    document = Document.from_data(final)
    decision = Decision(uid="1", allowed=allowed, status=status, object_document=document, steps=steps)
    return [told(change) for change in blame_of(decision, received or {}).changes]


def amendment(controller: str, *operations: JSONObject) -> Step:
    return mutation(*operations, controller=controller, phase=Phase.VALIDATE)


def test_validating_controllers_that_patch_are_blamed() -> None:
    steps = (mutation(SET), amendment("ImagePolicyWebhook", SET_AGAIN))
    assert blamed({"a": 2}, *steps) == [("add", "/a", None, 2, [0, 1])]


def test_patches_of_validating_controllers_do_not_apply_to_a_denied_request() -> None:
    denial = mutation(controller="Validator", phase=Phase.VALIDATE, outcome=OutcomeStatus.DENIED)
    steps = (mutation(SET), amendment("ImagePolicyWebhook", SET_AGAIN), denial)
    assert blamed({"a": 1}, *steps, allowed=False) == [("add", "/a", None, 1, [0])]


def test_policies_change_nothing_when_one_of_them_fails() -> None:
    done = mutation(SET_AGAIN, controller=POLICIES, name="a")
    failed = mutation(controller=POLICIES, name="b", outcome=OutcomeStatus.FAILED)
    assert blamed({"a": 1}, mutation(SET), done, failed, allowed=False) == [("add", "/a", None, 1, [0])]


def test_webhooks_before_a_denying_one_are_blamed_for_their_changes() -> None:
    done = mutation(SET, controller=WEBHOOKS, name="a")
    denied = mutation(controller=WEBHOOKS, name="b", outcome=OutcomeStatus.DENIED)
    assert blamed({"a": 1}, done, denied, allowed=False) == [("add", "/a", None, 1, [0])]


def test_a_webhook_that_omits_the_type_has_not_removed_it() -> None:
    received = {"apiVersion": "v1", "kind": "Pod"}
    typeless = mutation({"op": "replace", "path": "", "value": {"a": 1}}, controller=WEBHOOKS)
    again = mutation({"op": "test", "path": "/kind", "value": "Pod"}, SET_AGAIN, controller=WEBHOOKS)
    final = {**received, "a": 2}
    assert blamed(final, typeless, again, received=received) == [("add", "/a", None, 2, [0, 1])]


def test_a_patch_that_does_not_apply_is_skipped_and_blamed_on_no_step() -> None:
    misfit = mutation({"op": "remove", "path": "/x/y"}, controller=POLICIES)
    assert blamed({"a": 1, "b": 2}, misfit, mutation(SET)) == [
        ("add", "/a", None, 1, [1]),
        ("add", "/b", None, 2, []),
    ]


def test_a_delete_has_no_changes() -> None:
    assert blame_of(Decision(uid="1", allowed=True), None).changes == ()


def test_the_blame_document_names_steps_as_the_decision_does() -> None:
    hook = mutation(SET_AGAIN, controller=WEBHOOKS, name="a.example.com", configuration="hooks", round=1)
    decision = decided({}, [SET])
    decision = msgspec.structs.replace(
        decision, object_document=Document.from_data({"a": 2}), steps=(*decision.steps, hook)
    )
    first = {"step": 0, "controller": "Mutator", "name": "Mutator", "configuration": "", "round": 0}
    last = {"step": 1, "controller": WEBHOOKS, "name": "a.example.com", "configuration": "hooks", "round": 1}
    assert blame_document(blame_of(decision, {}), decision) == {
        "changes": [{"op": "add", "path": "/a", "before": None, "after": 2, **last, "earlier": [first]}],
        "denials": [],
    }


def test_a_change_by_no_known_step_is_written_without_a_step() -> None:
    decision = msgspec.structs.replace(decided({}, [SET]), steps=())
    (change,) = blame_document(blame_of(decision, {}), decision)["changes"]
    assert (change["step"], change["controller"], change["earlier"]) == (None, "", [])
