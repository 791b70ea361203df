"""Reviews of access and of tokens: where their checks stand, and what only the namespace of a request tells.

What else is refused is in ``drawn.jsonl``, with the answers of a real kube-apiserver.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pratique.apimachinery.requests import Operation
from pratique.cluster.store import ObjectStore
from pratique.manifests.requests import review_of_manifest
from pratique.registry.object_validation import ObjectRefusedError, receive
from pratique.registry.validation.access_reviews import refused_review
from pratique_frontdoor.chain.decisions import OBJECT_VALIDATION
from support.manifest_decisions import decide_manifest

ASKED: dict[str, Any] = {"namespace": "shop", "verb": "get", "resource": "pods"}
ACCESS = "authorization.k8s.io/v1"
LOCAL: dict[str, Any] = {
    "apiVersion": ACCESS,
    "kind": "LocalSubjectAccessReview",
    "metadata": {"namespace": "shop"},
    "spec": {"user": "a", "resourceAttributes": ASKED},
}
TOKEN: dict[str, Any] = {
    "apiVersion": "authentication.k8s.io/v1",
    "kind": "TokenReview",
    "spec": {"token": "t"},
}
EMPTY: dict[str, Any] = {"apiVersion": ACCESS, "kind": "SelfSubjectAccessReview"}


def refusal(written: dict[str, Any], namespace: str) -> str | None:
    """The message of a refusal of what is sent to a namespace."""
    review = review_of_manifest(written, ObjectStore().resources)
    refused = refused_review(msgspec.structs.replace(review, namespace=namespace))
    return None if refused is None else refused.message


def test_a_refused_review_meets_mutating_controllers_and_no_validating_one() -> None:
    decision = decide_manifest(EMPTY, controllers=["AlwaysPullImages", "PodSecurity"])
    assert [step.controller for step in decision.steps] == [
        OBJECT_VALIDATION,
        "AlwaysPullImages",
        OBJECT_VALIDATION,
    ]
    assert decision.status is not None
    assert (decision.status.code, decision.status.reason) == (422, "Invalid")


def test_a_refusal_names_neither_kind_nor_name() -> None:
    status = decide_manifest(EMPTY | {"metadata": {"name": "x"}}).status
    assert status is not None
    assert status.details is not None
    assert (status.details.group, status.details.kind, status.details.name) == (
        "authorization.k8s.io",
        "",
        "",
    )
    assert [(cause.field, cause.reason) for cause in status.details.causes] == [
        ("spec", "FieldValueInvalid"),
        ("metadata", "FieldValueInvalid"),
    ]


def test_metadata_that_must_be_empty_are_shown_without_managed_fields() -> None:
    managed = [{"manager": "m", "operation": "Update", "apiVersion": ACCESS}]
    written = LOCAL | {"metadata": {"namespace": "shop", "name": "x", "managedFields": managed}}
    assert refusal(written, "shop") == (
        '.authorization.k8s.io "" is invalid: metadata: Invalid value: {"name":"x","namespace":"shop"}: must be empty'
        " except for namespace"
    )
    assert refusal(LOCAL | {"metadata": {"namespace": "shop", "managedFields": managed}}, "shop") is None


@pytest.mark.parametrize(
    ("written", "namespace", "message"),
    [
        (LOCAL, "shop", None),
        (LOCAL, "", "namespace is required on this type: "),
        (LOCAL, "other", "spec.resourceAttributes.namespace must match namespace: other"),
        (TOKEN, "", None),
        (TOKEN, "shop", "namespace is not allowed on this type: shop"),
        (TOKEN | {"spec": {}}, "shop", "namespace is not allowed on this type: shop"),
    ],
)
def test_the_namespace_of_a_request_has_to_be_right(
    written: dict[str, Any], namespace: str, message: str | None
) -> None:
    assert refusal(written, namespace) == message


def test_who_asks_about_oneself_is_never_refused() -> None:
    written = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "SelfSubjectReview",
        "metadata": {"name": "-"},
    }
    assert decide_manifest(written).allowed


@pytest.mark.parametrize("written", [LOCAL, TOKEN, EMPTY], ids=lambda written: str(written["kind"]))
def test_what_is_never_stored_has_no_updates(written: dict[str, Any]) -> None:
    named = {**written, "metadata": {**written.get("metadata", {}), "name": "x"}}
    resources = ObjectStore().resources
    review = review_of_manifest(named, resources, operation=Operation.UPDATE, old=named)
    with pytest.raises(ObjectRefusedError) as refused:
        receive(review)
    assert (refused.value.status.code, refused.value.status.reason) == (405, "MethodNotAllowed")
