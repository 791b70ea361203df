"""Suggestions for misspelt kinds."""

from __future__ import annotations

import pytest

from pratique.apimachinery.errors import InputError
from pratique.apimachinery.kinds import GroupVersionKind
from pratique.cluster.api_resources import built_in_resources, nearest_kind, unknown_kind


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (("apps", "v1", "Deploymnt"), ("apps", "v1", "Deployment")),
        (("apps", "v1", "deployment"), ("apps", "v1", "Deployment")),
        (("apps", "v1", "Deployments"), ("apps", "v1", "Deployment")),
        (("", "v1", "Deployment"), ("apps", "v1", "Deployment")),
        (("extensions", "v1", "Deployment"), ("apps", "v1", "Deployment")),
        (("extensions", "v1", "Ingress"), ("networking.k8s.io", "v1", "Ingress")),
        (("apps", "v2", "StatefulSet"), ("apps", "v1", "StatefulSet")),
        (("batch", "v1", "Cronjob"), ("batch", "v1", "CronJob")),
        (("app", "v1", "ReplicaSet"), ("apps", "v1", "ReplicaSet")),
        (("v1", "v1", "ConfigMap"), ("", "v1", "ConfigMap")),
        (("events", "v1", "Event"), ("", "v1", "Event")),
    ],
)
def test_the_nearest_kind_is_suggested(written: tuple[str, str, str], meant: tuple[str, str, str]) -> None:
    assert nearest_kind(GroupVersionKind(*written), built_in_resources()) == GroupVersionKind(*meant)


def test_an_unrelated_word_has_no_suggestion() -> None:
    assert nearest_kind(GroupVersionKind("example.com", "v1", "Frobnicator"), built_in_resources()) is None


@pytest.mark.parametrize(
    ("kind", "hint"),
    [
        (
            GroupVersionKind("apps", "v1", "Deploymnt"),
            'did you mean kind "Deployment" in version "apps/v1"?',
        ),
        (GroupVersionKind("", "v1", "Pdo"), 'did you mean kind "Pod" in version "v1"?'),
        (GroupVersionKind("", "v2", "Pod"), 'did you mean kind "Pod" in version "v1"?'),
        (
            GroupVersionKind("monitoring.coreos.com", "v1", "ServiceMonitor"),
            "if it is a custom resource, add its CustomResourceDefinition: by --crds in a review, else by --cluster",
        ),
        (
            GroupVersionKind("policy", "v1", "Eviction"),
            "it is the kind of a subresource (pods/eviction), not of an object of its own",
        ),
        (GroupVersionKind("batch", "v1", "Frobnicator"), "the kinds of that group are CronJob, Job"),
    ],
)
def test_an_unknown_kind_gets_a_hint(kind: GroupVersionKind, hint: str) -> None:
    text = f'no matches for kind "{kind.kind}" in version "{kind.api_version}": {hint}'
    assert unknown_kind(kind, built_in_resources()) == text


@pytest.mark.parametrize(
    ("document", "text"),
    [
        (None, "a Kubernetes object is a mapping, not null"),
        ([], "a Kubernetes object is a mapping, not a list"),
        ("Pod", "a Kubernetes object is a mapping, not a string"),
        (3, "a Kubernetes object is a mapping, not a number"),
        ({}, "apiVersion not set"),
        ({"kind": "Pod"}, "apiVersion not set"),
        ({"apiVersion": "", "kind": "Pod"}, "apiVersion not set"),
        ({"apiVersion": 1, "kind": "Pod"}, "apiVersion: must be a string"),
        ({"apiVersion": "v1"}, "kind not set"),
        ({"apiVersion": "v1", "kind": True}, 'kind: must be a string such as "Pod", not a boolean'),
        ({"apiVersion": "a/b/c", "kind": "Pod"}, "unexpected GroupVersion string: a/b/c"),
        ({"apiVersion": "/v1", "kind": "Pod"}, "unexpected GroupVersion string: /v1"),
        ({"apiVersion": "apps/", "kind": "Pod"}, "unexpected GroupVersion string: apps/"),
        ({"apiVersion": "v1", "kind": "Pods"}, 'did you mean kind "Pod" in version "v1"?'),
    ],
)  # fmt: skip
def test_a_document_without_a_known_type_is_refused(document: object, text: str) -> None:
    with pytest.raises(InputError) as caught:
        built_in_resources().for_object(document)
    assert text in str(caught.value)
