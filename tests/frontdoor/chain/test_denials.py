"""Combining all denials into one Status."""

from __future__ import annotations

from pratique.apimachinery import statuses
from pratique.apimachinery.statuses import StatusCause, StatusDetails
from pratique_frontdoor.chain.decisions import combine_denials

PODS = statuses.forbidden("", "pods", "web", "no team label")
QUOTA = statuses.forbidden("", "pods", "web", "exceeded quota")
INTERNAL = statuses.internal_error("webhook is down")


def test_a_single_denial_keeps_its_message_and_code() -> None:
    combined = combine_denials([PODS], first_only=False)
    assert (combined.code, combined.reason, combined.message) == (403, "Forbidden", PODS.message)


def test_a_single_denial_is_its_only_cause() -> None:
    details = combine_denials([PODS], first_only=False).details
    assert details is not None
    assert details.causes == (StatusCause(reason="Forbidden", message=PODS.message),)


def test_a_single_denial_with_causes_is_returned_unchanged() -> None:
    assert combine_denials([INTERNAL], first_only=False) == INTERNAL


def test_the_first_of_several_denials_gives_code_reason_and_message() -> None:
    combined = combine_denials([PODS, INTERNAL], first_only=False)
    assert (combined.code, combined.message) == (403, PODS.message)


def test_each_of_several_denials_is_one_cause_in_chain_order() -> None:
    details = combine_denials([PODS, QUOTA, INTERNAL], first_only=False).details
    assert details is not None
    assert [cause.message for cause in details.causes] == [PODS.message, QUOTA.message, INTERNAL.message]


def test_causes_of_the_first_denial_do_not_hide_the_other_denials() -> None:
    details = combine_denials([INTERNAL, PODS], first_only=False).details
    assert details is not None
    assert [cause.message for cause in details.causes] == [INTERNAL.message, PODS.message]


def test_the_details_of_the_first_denial_are_kept() -> None:
    details = combine_denials([PODS, QUOTA], first_only=False).details
    assert details is not None
    assert (details.name, details.kind) == ("web", "pods")


def test_a_cause_names_the_field_of_its_denial() -> None:
    causes = (StatusCause(message="bad", field="spec.replicas"), StatusCause(message="bad", field="spec"))
    own = StatusDetails(causes=causes)
    invalid = statuses.failure(422, "Invalid", "is invalid", own)
    details = combine_denials([PODS, invalid], first_only=False).details
    assert details is not None
    assert details.causes[1].field == "spec.replicas"


def test_first_denial_only_returns_the_first_denial_as_the_api_server_does() -> None:
    assert combine_denials([PODS, QUOTA], first_only=True) == PODS
