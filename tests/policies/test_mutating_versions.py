"""Mutating policies that see the object in another version than the request's."""

from __future__ import annotations

from typing import Any

import pytest

from pratique.admission.results import OutcomeStatus
from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.patches import apply_patch
from pratique.cluster.store import ObjectStore
from support.mutating_policies import applied, bound, failure_messages, labelled, mutate, mutating, patched
from support.validating_policies import EVERYTHING, deployment_review

GROUP = "stable.example.com"
SCHEMA = {
    "type": "object",
    "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}},
}


def definition(strategy: str = "None") -> JSONObject:
    """Crontabs in ``v1`` and ``v2``, which are identical."""
    versions = [
        {"name": name, "served": True, "storage": name == "v1", "schema": {"openAPIV3Schema": SCHEMA}}
        for name in ("v1", "v2")
    ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"crontabs.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {"kind": "Crontab", "plural": "crontabs"},
            "scope": "Namespaced",
            "versions": versions,
            "conversion": {"strategy": strategy},
        },
    }


def crontab(version: str = "v1", *, size: int = 1, **metadata: Any) -> JSONObject:
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": "Crontab",
        "metadata": {"name": "web", "namespace": "shop", **metadata},
        "spec": {"size": size},
    }


def crontab_review(document: JSONObject | None = None, strategy: str = "None") -> Review:
    request: dict[str, Any] = {
        "kind": {"group": GROUP, "version": "v1", "kind": "Crontab"},
        "resource": {"group": GROUP, "version": "v1", "resource": "crontabs"},
    }
    store = ObjectStore([definition(strategy)], assume_namespaces=True)
    return deployment_review(crontab() if document is None else document, cluster=store, **request)


def by_version(version: str, *mutations: JSONObject, name: str = "p", **spec: Any) -> JSONObject:
    rule = EVERYTHING | {"apiGroups": [GROUP], "apiVersions": [version], "operations": ["CREATE"]}
    return mutating(*mutations, name=name, matchConstraints={"resourceRules": [rule]}, **spec)


VERSIONED = labelled("version", 'object.apiVersion.split("/")[1]')
GREATER = applied("Object{spec: Object.spec{size: object.spec.size + 1}}")


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_the_mutated_object_is_in_the_version_of_the_request(version: str) -> None:
    review = crontab_review()
    found = mutate(by_version(version, VERSIONED, GREATER), bound(), review=review)
    assert found.document.data == crontab(size=2, labels={"version": version})
    assert apply_patch(review.object, found.decisions[0].operations) == found.document.data


def test_policies_that_match_by_the_same_version_see_each_others_mutations() -> None:
    documents = [by_version("v2", GREATER, name=name) for name in ("p1", "p2")]
    found = mutate(*documents, bound("p1", name="b1"), bound("p2", name="b2"), review=crontab_review())
    assert found.document.data == crontab(size=3)


def test_of_policies_that_match_by_different_versions_the_last_mutation_remains() -> None:
    documents = [
        by_version("v2", labelled("two", "'yes'"), name="p1"),
        by_version("v1", GREATER, name="p2"),
        by_version("v2", labelled("more", "string(object.spec.size)"), name="p3"),
    ]
    bindings = [bound(f"p{place}", name=f"b{place}") for place in (1, 2, 3)]
    found = mutate(*documents, *bindings, review=crontab_review())
    assert found.document.data == crontab(labels={"two": "yes", "more": "1"})
    found = mutate(*documents[:2], *bindings, review=crontab_review())
    assert found.document.data == crontab(size=2)


def test_no_mutation_remains_if_the_last_version_fails() -> None:
    broken = labelled("a", "string(object.none)")
    documents = [
        by_version("v2", GREATER, name="p1"),
        by_version("v1", broken, name="p2", failurePolicy="Ignore"),
    ]
    review = crontab_review()
    found = mutate(*documents, bound("p1", name="b1"), bound("p2", name="b2"), review=review)
    assert (found.document, found.dirty) == (review.object_document, False)
    assert [decision.changed for decision in found.decisions] == [True, False]


def test_a_json_patch_may_add_unknown_fields_to_custom_resources() -> None:
    mutation = patched('[JSONPatch{op: "add", path: "/spec/unknown", value: 1}]')
    found = mutate(by_version("v1", mutation), bound(), review=crontab_review())
    assert found.document.data["spec"] == {"size": 1, "unknown": 1}


@pytest.mark.parametrize("failure_policy", ["Fail", "Ignore"])
def test_an_object_that_cannot_be_converted_is_a_policy_error(failure_policy: str) -> None:
    policy = by_version("v2", GREATER, failurePolicy=failure_policy)
    found = mutate(policy, bound(), review=crontab_review(strategy="Webhook"))
    if failure_policy == "Ignore":
        assert (found.refusal, found.decisions[0].outcome) == (None, OutcomeStatus.FAILED_OPEN)
        return
    assert failure_messages(found) == [
        (
            'policy "p" denied request: failed to configure policy: conversion webhook for '
            f"{GROUP}/v1, Kind=Crontab failed: conversion webhooks are not called here"
        )
    ]


def scaler_review(version: str) -> Review:
    spec: JSONObject = {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "web"}}
    document = {
        "apiVersion": f"autoscaling/{version}",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": spec,
    }
    request: dict[str, Any] = {
        "kind": {"group": "autoscaling", "version": version, "kind": "HorizontalPodAutoscaler"},
        "resource": {"group": "autoscaling", "version": version, "resource": "horizontalpodautoscalers"},
    }
    return deployment_review(document, **request)


def event_review() -> Review:
    request: dict[str, Any] = {
        "kind": {"group": "", "version": "v1", "kind": "Event"},
        "resource": {"group": "", "version": "v1", "resource": "events"},
    }
    return deployment_review(
        {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "web", "namespace": "shop"}}, **request
    )


@pytest.mark.parametrize(
    ("review", "rule", "text"),
    [
        (
            scaler_review("v1"),
            {"apiGroups": ["autoscaling"], "apiVersions": ["v2"]},
            "converting (v2.HorizontalPodAutoscaler) to (v1.HorizontalPodAutoscaler): unknown conversion",
        ),
        (
            event_review(),
            {"apiGroups": ["events.k8s.io"]},
            'v1.Event is not suitable for converting to "v1" in scheme "pkg/api/legacyscheme/scheme.go:30"',
        ),
    ],
)
def test_built_in_kinds_cannot_be_mutated_in_another_version(
    review: Review, rule: JSONObject, text: str
) -> None:
    constraints = {"resourceRules": [EVERYTHING | {"operations": ["CREATE"]} | rule]}
    documents = [mutating(labelled("a", "'b'"), matchConstraints=constraints), bound()]
    found = mutate(*documents, review=review)
    assert failure_messages(found) == [f"policy 'p' with binding 'b' denied request: {text}"]
    assert (found.dirty, found.document) == (False, review.object_document)


def test_built_in_kinds_are_mutated_in_the_version_of_the_request() -> None:
    review = scaler_review("v1")
    found = mutate(mutating(labelled("a", "'b'")), bound(), review=review)
    assert found.document.data["metadata"]["labels"] == {"a": "b"}
