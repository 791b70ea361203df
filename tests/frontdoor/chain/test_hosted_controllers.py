"""Hosted controllers in the chain: order, phases, refusals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from pratique import Answer, Review, allow, deny, mutator, patch, rule, validator, warn
from pratique.admission.controllers import BOTH, MUTATE, VALIDATE, Controller, Phase
from pratique.admission.results import Outcome, OutcomeStatus
from pratique.admission.reviews import Call, Deadline
from pratique.apimachinery.errors import CallError, CallTimeoutError, UnreachableError
from pratique.apimachinery.patches import apply_patch
from pratique_frontdoor.chain.decisions import OutageError
from support.chains import POD, decide, pod_review


def label(review: Review, key: str, value: str) -> Answer:
    return patch(operations=[{"op": "add", "path": f"/metadata/labels/{key}", "value": value}])


@mutator("First", rule("pods"))
def first(review: Review) -> Answer:
    return label(review, "first", "1")


@mutator("Second", rule("pods"))
def second(review: Review) -> Answer:
    return label(review, "second", "saw " + str(review.object["metadata"]["labels"].get("first")))


@mutator("MutatorThatDenies", rule("pods"))
def mutator_that_denies(_: Review) -> Answer:
    return deny("not in my phase")


@mutator("MutatorOfServices", rule("services"))
def mutator_of_services(review: Review) -> Answer:
    return label(review, "service", "1")


@validator("Team", rule("pods"))
def team(_: Review) -> Answer:
    return deny("label team is missing")


@validator("Registry", rule("pods"))
def registry(_: Review) -> Answer:
    return deny("image comes from elsewhere", code=422, reason="Invalid")


@validator("Fine", rule("pods"))
def fine(_: Review) -> Answer:
    return allow(audit_annotations={"seen": "yes", "example.com/own": "kept"})


@validator("Warns", rule("pods"))
def warns(_: Review) -> Answer:
    return warn("this will be refused soon")


@validator("Broken", rule("pods"))
def broken(_: Review) -> Answer:
    raise ValueError("canary-secret")


@validator("SeesFirst", rule("pods"))
def sees_first(review: Review) -> Answer:
    return allow() if review.object["metadata"]["labels"].get("first") else deny("not mutated")


def test_each_mutating_controller_sees_the_changes_before_it() -> None:
    decision = decide(pod_review(), [first, second])
    labels = decision.object_document.data["metadata"]["labels"]
    assert labels == {"app": "web", "first": "1", "second": "saw 1"}


def test_mutating_controllers_run_in_chain_order() -> None:
    decision = decide(pod_review(), [second, first])
    assert decision.object_document.data["metadata"]["labels"]["second"] == "saw None"


def test_the_patch_composes_all_mutations() -> None:
    decision = decide(pod_review(), [first, second])
    assert apply_patch(POD, decision.patch) == decision.object_document.data


def test_validating_controllers_see_the_final_object() -> None:
    assert decide(pod_review(), [first, sees_first]).allowed


def test_the_validating_phase_alone_sees_the_received_object() -> None:
    assert not decide(pod_review(), [first, sees_first], phases=VALIDATE).allowed


def test_the_mutating_phase_alone_calls_no_validator() -> None:
    decision = decide(pod_review(), [first, team], phases=MUTATE)
    assert (decision.allowed, [step.name for step in decision.steps]) == (True, ["First"])


def test_every_denial_of_the_validating_phase_is_reported() -> None:
    status = decide(pod_review(), [team, fine, registry]).status
    assert status is not None
    assert status.message == 'pods "web" is forbidden: label team is missing'
    assert status.details is not None
    assert [cause.message for cause in status.details.causes] == [
        'pods "web" is forbidden: label team is missing',
        "image comes from elsewhere",
    ]


def test_first_denial_only_reports_one_denial() -> None:
    status = decide(pod_review(), [team, registry], first_denial_only=True).status
    assert status is not None
    assert status.details is not None
    assert status.details.causes == ()


def test_a_denial_in_the_mutating_phase_ends_it() -> None:
    decision = decide(pod_review(), [mutator_that_denies, first, team])
    assert [(step.name, step.outcome) for step in decision.steps] == [
        ("MutatorThatDenies", OutcomeStatus.DENIED)
    ]


def test_controllers_that_do_not_match_are_not_called() -> None:
    decision = decide(pod_review(), [mutator_of_services, first])
    assert [step.name for step in decision.steps] == ["First"]


def test_an_explanation_names_the_part_of_the_rules_that_did_not_match() -> None:
    steps = decide(pod_review(), [mutator_of_services], explain=True).steps
    assert [(step.outcome, step.reason) for step in steps] == [
        (OutcomeStatus.SKIPPED, "no rule matches: resources [services] do not include pods")
    ]


def test_an_explanation_has_all_steps_in_chain_order() -> None:
    steps = decide(pod_review(), [first, mutator_of_services, second], explain=True).steps
    assert [step.name for step in steps] == ["First", "MutatorOfServices", "Second"]


def test_warnings_reach_the_decision() -> None:
    decision = decide(pod_review(), [warns])
    assert decision.warnings == ("this will be refused soon",)
    assert decision.steps[0].outcome is OutcomeStatus.WARNED


def test_audit_annotations_without_prefix_get_the_controllers_name() -> None:
    annotations = decide(pod_review(), [fine]).audit_annotations
    assert annotations == {"fine/seen": "yes", "example.com/own": "kept"}


def test_a_broken_controller_denies_without_revealing_the_object() -> None:
    decision = decide(pod_review(), [broken])
    assert decision.status is not None
    assert decision.status.code == 500
    assert "canary-secret" not in decision.status.message
    assert decision.steps[0].outcome is OutcomeStatus.FAILED


def test_a_broken_controller_does_not_affect_others() -> None:
    outcomes = [step.outcome for step in decide(pod_review(), [broken, fine]).steps]
    assert outcomes == [OutcomeStatus.FAILED, OutcomeStatus.ALLOWED]


@validator("Charges", rule("pods"))
def charges(_: Review) -> Answer:
    return deny("exceeded quota")


CHARGING = msgspec.structs.replace(charges, commits_quota=True)


def test_quota_is_not_charged_when_another_controller_denies() -> None:
    decision = decide(pod_review(), [CHARGING, team])
    assert [step.name for step in decision.steps] == ["Team"]


def test_quota_is_charged_last() -> None:
    decision = decide(pod_review(), [CHARGING, fine])
    assert [step.name for step in decision.steps] == ["Fine", "Charges"]


class Unreachable:
    """A transport to a service that is not there."""

    endpoint = "grpc://nowhere:1"

    async def mutate(self, review: Review, calls: Sequence[Call], deadline: Deadline) -> Sequence[Outcome]:
        raise UnreachableError("rpc error: code = Unavailable")

    async def validate(self, review: Review, calls: Sequence[Call], deadline: Deadline) -> Sequence[Outcome]:
        raise CallError("rpc error: code = Internal")

    async def close(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize(
    ("controller", "service", "cause", "message"),
    [
        (first, "mutator", "unreachable", "the mutator cannot be asked: rpc error: code = Unavailable"),
        (fine, "validator", "refused", "the validators cannot be asked: rpc error: code = Internal"),
    ],
)
def test_an_unreachable_service_is_an_outage_and_not_a_decision(
    controller: object, service: str, cause: str, message: str
) -> None:
    with pytest.raises(OutageError) as raised:
        decide(pod_review(), [controller], host=Unreachable())
    outage = raised.value
    assert (outage.service, outage.cause) == (service, cause)
    assert (outage.status.code, outage.status.message) == (503, message)


@pytest.mark.parametrize("controller", [first, fine], ids=["mutator", "validator"])
def test_a_service_is_not_blamed_when_no_time_was_left_to_call_it(controller: object) -> None:
    class Late(Unreachable):
        async def mutate(self, *_: object) -> Sequence[Outcome]:
            raise CallTimeoutError("context deadline exceeded")

        async def validate(self, *_: object) -> Sequence[Outcome]:
            raise CallTimeoutError("context deadline exceeded")

    with pytest.raises(OutageError) as raised:
        decide(pod_review(), [controller], host=Late(), seconds=0)
    assert (raised.value.cause, raised.value.status.code) == ("late", 504)


def outcomes_of(*controllers: Controller, **options: Any) -> list[tuple[str, OutcomeStatus]]:
    steps = decide(pod_review(), controllers, first_denial_only=True, **options).steps
    return [(step.name, step.outcome) for step in steps]


def test_first_denial_only_drops_what_later_controllers_say() -> None:
    decision = decide(pod_review(), [fine, team, warns, registry], first_denial_only=True)
    assert [step.name for step in decision.steps] == ["Fine", "Team"]
    assert decision.warnings == ()


def test_first_denial_only_keeps_what_earlier_controllers_said() -> None:
    decision = decide(pod_review(), [warns, fine, team], first_denial_only=True)
    assert decision.warnings == ("this will be refused soon",)
    assert decision.audit_annotations == {"fine/seen": "yes", "example.com/own": "kept"}


def test_first_denial_only_still_runs_everything_where_nothing_is_denied() -> None:
    assert outcomes_of(fine, warns) == [("Fine", OutcomeStatus.ALLOWED), ("Warns", OutcomeStatus.WARNED)]


def test_first_denial_only_stops_at_a_controller_that_fails() -> None:
    assert outcomes_of(broken, team) == [("Broken", OutcomeStatus.FAILED)]


@validator("ShowsMetadata", rule("pods"))
def shows_metadata(review: Review) -> Answer:
    return deny(",".join(sorted(review.object["metadata"])))


@pytest.mark.parametrize(
    ("phases", "fields"),
    [(BOTH, "creationTimestamp,generation,labels,name,namespace,uid"), (VALIDATE, "labels,name,namespace")],
)
def test_between_the_phases_the_object_gets_what_an_api_server_would_give_it(
    phases: frozenset[Phase], fields: str
) -> None:
    decision = decide(pod_review(), [first, shows_metadata], phases=phases)
    assert decision.status is not None
    assert decision.status.message.endswith(f": {fields}")


def test_what_an_api_server_would_give_the_object_is_not_in_the_decision() -> None:
    decision = decide(pod_review(), [first, fine])
    assert decision.object_document.data["metadata"].keys() == {"name", "namespace", "labels"}
    assert [operation["path"] for operation in decision.patch] == ["/metadata/labels/first"]
