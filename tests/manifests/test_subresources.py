"""Requests to subresources made from their parent objects."""

from __future__ import annotations

import pytest

from pratique.admission.reviews import Review
from pratique.admission.subresources import operation_on
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_values import JSON, JSONObject, decode, encode
from pratique.apimachinery.requests import Operation
from pratique.cluster.api_resources import ApiResources, built_in_resources
from pratique.manifests.requests import review_of_manifest


def manifest(api_version: str, kind: str, **more: JSON) -> JSONObject:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a", "labels": {"x": "y"}}, **more}


def sent(document: JSONObject, subresource: str, operation: Operation, **asked: JSON) -> Review:
    return review_of_manifest(
        document, built_in_resources(), subresource=subresource, operation=operation, **asked
    )


@pytest.mark.parametrize(
    ("kind", "subresource", "options"),
    [
        ("Pod", "exec", "PodExecOptions"),
        ("Pod", "attach", "PodAttachOptions"),
        ("Pod", "portforward", "PodPortForwardOptions"),
        ("Pod", "proxy", "PodProxyOptions"),
        ("Service", "proxy", "ServiceProxyOptions"),
        ("Node", "proxy", "NodeProxyOptions"),
    ],
)
def test_connect_options_are_empty(kind: str, subresource: str, options: str) -> None:
    review = sent(manifest("v1", kind), subresource, Operation.CONNECT)
    assert review.object == {"kind": options, "apiVersion": "v1"}
    assert (review.old_object, review.options) == (None, None)
    assert (review.resource.resource, review.subresource, review.name) == (
        f"{kind.lower()}s",
        subresource,
        "a",
    )
    assert review.namespace == ("" if kind == "Node" else "default")
    assert review.kind.kind == options


def test_an_eviction_names_its_pod() -> None:
    review = sent(manifest("v1", "Pod"), "eviction", Operation.CREATE)
    assert review.object == {
        "kind": "Eviction",
        "apiVersion": "policy/v1",
        "metadata": {"name": "a", "namespace": "default"},
    }


def test_a_token_request_defaults_to_an_hour() -> None:
    review = sent(manifest("v1", "ServiceAccount"), "token", Operation.CREATE)
    assert review.kind.kind == "TokenRequest"
    assert review.object["spec"] == {"audiences": None, "expirationSeconds": 3600, "boundObjectRef": None}


def test_a_scale_has_the_replicas_of_its_object() -> None:
    old = manifest("apps/v1", "Deployment", spec={"replicas": 2}, status={"replicas": 2})
    new = manifest("apps/v1", "Deployment", spec={"replicas": 5})
    review = sent(new, "scale", Operation.UPDATE, old=old)
    assert (review.object["kind"], review.object["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert (review.object["spec"], review.old_object["spec"]) == ({"replicas": 5}, {"replicas": 2})
    assert review.old_object["status"] == {"replicas": 2}
    assert review.object["metadata"] == {"name": "a", "namespace": "default"}


def test_replicas_default_to_one() -> None:
    document = manifest("apps/v1", "StatefulSet")
    assert sent(document, "scale", Operation.UPDATE, old=document).object["spec"] == {"replicas": 1}


def test_the_replicas_of_a_custom_resource_are_unknown() -> None:
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"scale": {"specReplicasPath": ".spec.size"}},
    }
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "fleets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "fleets", "kind": "Fleet"},
            "versions": [version],
        },
    }
    known: ApiResources = built_in_resources().with_crds([definition])
    document = manifest("example.com/v1", "Fleet")
    with pytest.raises(InputError, match="give the Scale itself"):
        review_of_manifest(document, known, subresource="scale", operation=Operation.UPDATE, old=document)


@pytest.mark.parametrize("subresource", ["ephemeralcontainers", "resize", "status"])
def test_a_subresource_of_the_objects_kind_updates_it(subresource: str) -> None:
    stored = {**manifest("v1", "Pod"), "spec": {"nodeName": "n"}}
    review = sent(manifest("v1", "Pod"), subresource, Operation.UPDATE, old=stored)
    assert (review.kind.kind, review.old_object) == ("Pod", stored)


def test_a_stored_object_of_another_version_is_the_old_object() -> None:
    stored = manifest("extensions/v1beta1", "Deployment")
    review = sent(manifest("apps/v1", "Deployment"), "status", Operation.UPDATE, old=stored)
    assert review.old_object == stored


def test_every_writable_subresource_can_be_requested_by_a_manifest() -> None:
    for type_ in built_in_resources():
        operation = operation_on(type_) if type_.subresource else None
        if operation is None or type_.kind.kind == "DeploymentRollback":  # 1.15 was the last to have it
            continue
        parent = built_in_resources().for_resource(type_.resource)
        assert parent is not None
        own = type_.kind if type_.kind.kind in {"Binding", "TokenRequest"} else parent.kind
        document = manifest(own.api_version, own.kind)
        review = sent(document, type_.subresource, operation, old=document)
        assert review.subresource == type_.subresource
        assert decode(encode(review.object))["kind"] == type_.kind.kind
