"""Selectors, match conditions and failure policies of Python policies decide as those of webhooks do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import pytest

from pratique.admission.controllers import Controller
from pratique.admission.function_policies import mutator, validator
from pratique.admission.results import (
    ALLOWED,
    Answer,
    Denied,
    Failed,
    Outcome,
    OutcomeStatus,
    Patched,
    PolicyOutcome,
    deny,
    patch,
)
from pratique.admission.reviews import Call, Review
from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.json_values import JSON
from pratique.apimachinery.requests import Operation
from pratique.cluster.store import Cluster, ObjectStore
from pratique.hosting.catalogue import configure_controller
from pratique.hosting.running import MutatorHost, ValidatorHost
from support.services.reviews import POD, review_of

SHOP = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"tier": "prod"}}}
CLUSTER = ObjectStore([SHOP])
LABELLED = POD | {"metadata": {"name": "web", "labels": {"team": "a"}}}
OTHER_NAMESPACE = "namespace_selector does not match the labels of the namespace"
OTHER_OBJECT = "object_selector matches the labels of neither object nor oldObject"


def denying(**options: Any) -> Controller:
    return validator("Policy", **options)(lambda _: deny("seen"))


def ask(controller: Controller, document: JSON = POD, cluster: Cluster = CLUSTER) -> Outcome:
    return asked(controller, review_of(document, cluster=cluster))


def asked(controller: Controller, review: Review) -> Outcome:
    host = ValidatorHost([configure_controller(controller, None)], review.cluster)
    (outcome,) = asyncio.run(host.validate(review, [Call(controller.name, 0.5)]))
    return outcome


def reason(outcome: Outcome) -> str:
    """Why the policy was not called; empty if it was."""
    if isinstance(outcome.decision, Denied):
        return ""
    assert outcome.decision == ALLOWED
    (part,) = outcome.policy_outcomes
    assert part.status is OutcomeStatus.SKIPPED
    return part.reason


@pytest.mark.parametrize(
    ("options", "skipped"),
    [
        ({}, ""),
        ({"namespace_selector": {"matchLabels": {"tier": "prod"}}}, ""),
        ({"namespace_selector": {"matchLabels": {"tier": "test"}}}, OTHER_NAMESPACE),
        ({"object_selector": {"matchLabels": {"team": "a"}}}, ""),
        ({"object_selector": {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}}, OTHER_OBJECT),
        ({"match_conditions": {"not-nodes": "!request.userInfo.username.startsWith('system:node:')"}}, ""),
        ({"match_conditions": {"large": "size(object.spec.containers) > 5"}}, 'match_condition "large" is false'),
        (
            {"match_conditions": {"broken": "object.spec.nodeName == ''", "false": "false"}},
            'match_condition "false" is false',
        ),
    ],
)  # fmt: skip
def test_a_policy_gets_what_its_selectors_and_conditions_select(
    options: dict[str, Any], skipped: str
) -> None:
    assert reason(ask(denying(**options), LABELLED)) == skipped


def test_the_labels_of_what_is_deleted_count() -> None:
    policy = denying(object_selector={"matchLabels": {"team": "a"}})
    found = asked(policy, review_of(LABELLED, operation=Operation.DELETE, cluster=CLUSTER))
    assert isinstance(found.decision, Denied)


UNDECIDABLE: Sequence[tuple[dict[str, Any], Cluster, str]] = (
    ({"namespace_selector": {"matchLabels": {"tier": "prod"}}}, ObjectStore(), 'namespaces "shop" not found'),
    (
        {"match_conditions": {"broken": "object.spec.nodeName == ''"}},
        CLUSTER,
        "pods \"web\" is forbidden: expression 'object.spec.nodeName == ''' resulted in error: no such key: nodeName",
    ),
)


@pytest.mark.parametrize(("options", "cluster", "message"), UNDECIDABLE)
def test_a_request_that_cannot_be_matched_is_denied(
    options: dict[str, Any], cluster: Cluster, message: str
) -> None:
    decision = ask(denying(**options), POD, cluster).decision
    assert isinstance(decision, Denied)
    assert decision.status.message == message


@pytest.mark.parametrize(("options", "cluster", "message"), UNDECIDABLE)
def test_with_ignore_a_request_that_cannot_be_matched_is_let_by(
    options: dict[str, Any], cluster: Cluster, message: str
) -> None:
    skipped = reason(ask(denying(failure_policy="Ignore", **options), POD, cluster))
    assert skipped == f"whether it is called cannot be decided, and its failure policy is Ignore: {message}"


def test_a_policy_sees_labels_that_another_has_added_before_it() -> None:
    @mutator("Labels")
    def label(review: Review) -> Answer:
        return patch(review.object | {"metadata": {"name": "web", "labels": {"team": "a"}}})

    @mutator("Annotates", object_selector={"matchLabels": {"team": "a"}})
    def annotate(review: Review) -> Answer:
        return patch(
            review.object | {"metadata": review.object["metadata"] | {"annotations": {"seen": "yes"}}}
        )

    host = MutatorHost([configure_controller(policy, None) for policy in (label, annotate)], CLUSTER)
    outcomes = asyncio.run(host.mutate(review_of(cluster=CLUSTER), [Call("Labels"), Call("Annotates")]))
    assert all(isinstance(outcome.decision, Patched) for outcome in outcomes)


def failing(_: Review) -> Answer:
    raise ValueError("canary-4f9d2c")


def hanging(_: Review) -> Answer:
    time.sleep(1)
    return deny("late")


@pytest.mark.parametrize(
    ("handler", "message"),
    [(failing, "raised ValueError"), (hanging, "context deadline exceeded"), (lambda _: 7, "answered with int")],
)  # fmt: skip
def test_a_failure_denies_unless_it_is_to_be_ignored(handler: Any, message: str) -> None:
    failed = ask(validator("Policy")(handler)).decision
    assert isinstance(failed, Failed)
    assert failed.message.startswith(message)
    opened = ask(validator("Policy", failure_policy="Ignore")(handler))
    assert opened.decision == ALLOWED
    assert opened.audit_annotations == {"failed-open": failed.message}
    (part,) = opened.policy_outcomes
    assert isinstance(part, PolicyOutcome)
    assert (part.name, part.status, part.reason) == ("Policy", OutcomeStatus.FAILED_OPEN, failed.message)


def test_a_denial_is_never_ignored() -> None:
    assert isinstance(ask(denying(failure_policy="Ignore")).decision, Denied)


def test_a_condition_that_does_not_compile_is_an_error_at_start() -> None:
    with pytest.raises(ConfigurationError) as caught:
        configure_controller(denying(match_conditions={"typo": "objekt.spec"}), None)
    assert 'couldn\'t init admission plugin "Policy": match_conditions[typo]: ' in str(caught.value)
    assert "undeclared reference to 'objekt'" in str(caught.value)
