"""Properties of all conversions."""

from __future__ import annotations

import contextlib
import json
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.errors import ConversionError
from pratique.apimachinery.json_values import NULL, Document
from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource, ResourceType
from pratique.cluster.api_resources import built_in_resources
from pratique.cluster.conversion import convert, converters_of
from pratique.cluster.served_versions import served_beside
from pratique.cluster.store import ANY_NAMESPACE, ObjectStore
from support.conversions import converted

TYPES = [type_ for type_ in built_in_resources() if not type_.subresource or type_.subresource == "scale"]
BESIDE = [
    (type_, other)
    for type_ in TYPES
    for resource in served_beside(built_in_resources(), type_.resource, type_.subresource)
    if (other := built_in_resources().for_resource(resource, type_.subresource)) is not None
]
"""Every pair of versions that one API server served."""

DIFFERING = [pair for pair in BESIDE if converters_of(pair[0].kind.kind, pair[0].kind.api_version)]
"""Those of them that differ in more than their name."""

UNSUPPORTED = {"resource.k8s.io/v1alpha3"}

NAMES = ["spec", "status", "metadata", "annotations", "rules", "http", "paths", "backend", "selector"]
NAMES += ["metrics", "behavior", "endpoints", "topology", "subjects", "limited", "versions", "devices"]
NAMES += ["deprecated.deployment.rollback.to", "autoscaling.alpha.kubernetes.io/metrics", "requests"]
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=12,
)


def pair_name(pair: tuple[ResourceType, ResourceType]) -> str:
    return f"{pair[0].kind}-{pair[1].kind.api_version}".replace(" ", "")


@pytest.mark.parametrize("pair", BESIDE, ids=pair_name)
def test_every_pair_of_served_versions_converts_or_is_refused(
    pair: tuple[ResourceType, ResourceType],
) -> None:
    source, target = pair
    before = {"apiVersion": source.kind.api_version, "kind": source.kind.kind}
    document = Document.from_data(before)
    if before["apiVersion"] in UNSUPPORTED and converters_of(source.kind.kind, before["apiVersion"]):
        with pytest.raises(ConversionError, match="this conversion is not supported"):
            convert(document, target.resource, target.kind, ANY_NAMESPACE)
        return
    after = convert(document, target.resource, target.kind, ANY_NAMESPACE).data
    assert (after["apiVersion"], after["kind"]) == (target.kind.api_version, target.kind.kind)


@given(st.sampled_from(DIFFERING), st.dictionaries(st.sampled_from(NAMES), ANYTHING, max_size=4))
def test_an_arbitrary_object_converts_or_is_refused_and_is_not_changed(
    pair: tuple[ResourceType, ResourceType], members: dict[str, Any]
) -> None:
    source, target = pair
    before = members | {"apiVersion": source.kind.api_version, "kind": source.kind.kind}
    text = json.dumps(before)
    with contextlib.suppress(ConversionError):
        convert(Document.from_data(before), target.resource, target.kind, ANY_NAMESPACE)
    assert json.dumps(before) == text


WORDS = st.text(string.ascii_lowercase, min_size=1, max_size=6)
LABELS = st.dictionaries(WORDS, WORDS, min_size=1, max_size=3)
PORTS = st.integers(1, 65535) | WORDS


@st.composite
def backends(draw: st.DrawFn) -> dict[str, Any]:
    return {"serviceName": draw(WORDS), "servicePort": draw(PORTS)}


@st.composite
def old_ingresses(draw: st.DrawFn) -> dict[str, Any]:
    paths = st.fixed_dictionaries({"path": WORDS, "pathType": WORDS, "backend": backends()})
    rule = st.fixed_dictionaries({"host": WORDS, "http": st.fixed_dictionaries({"paths": st.lists(paths)})})
    spec: dict[str, Any] = {"rules": draw(st.lists(rule, max_size=3))}
    if draw(st.booleans()):
        spec["backend"] = draw(backends())
    return {"apiVersion": "networking.k8s.io/v1beta1", "kind": "Ingress", "spec": spec}


@st.composite
def new_deployments(draw: st.DrawFn) -> dict[str, Any]:
    annotations = draw(st.none() | LABELS)
    revision = draw(st.none() | st.integers(0, 2**63 - 1))
    if revision is not None:
        annotations = {**(annotations or {}), "deprecated.deployment.rollback.to": str(revision)}
    metadata = {"name": draw(WORDS)} | ({"annotations": annotations} if annotations else {})
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"replicas": 1}}


@st.composite
def old_endpoint_slices(draw: st.DrawFn) -> dict[str, Any]:
    keys = st.sampled_from(["topology.kubernetes.io/zone", "kubernetes.io/hostname", "rack"])
    endpoints = []
    for topology in draw(st.lists(st.dictionaries(keys, WORDS), max_size=3)):
        node = draw(st.none() | WORDS)
        # v1beta1 endpoints of a known node say so in their topology: only then nothing is added on the way back.
        labels = topology | (
            {"kubernetes.io/hostname": topology.get("kubernetes.io/hostname", node)} if node else {}
        )
        endpoints.append(({"nodeName": node} if node else {}) | ({"topology": labels} if labels else {}))
    return {"apiVersion": "discovery.k8s.io/v1beta1", "kind": "EndpointSlice", "endpoints": endpoints}


@st.composite
def core_events(draw: st.DrawFn) -> dict[str, Any]:
    optional = {"count": 1, "firstTimestamp": "t", "source": {"component": "c"}, "reportingComponent": "r"}
    chosen = draw(st.sets(st.sampled_from(sorted(optional))))
    fields = {name: optional[name] for name in chosen}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "involvedObject": {"name": draw(WORDS)},
        "message": "m",
        **fields,
    }


@st.composite
def new_claims(draw: st.DrawFn) -> dict[str, Any]:
    exact = st.fixed_dictionaries({"deviceClassName": WORDS, "count": st.integers(1, 9)})
    request = st.fixed_dictionaries({"name": WORDS, "exactly": exact})
    requests = draw(st.lists(request, max_size=3))
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "spec": {"devices": {"requests": requests}},
    }


@given(
    st.one_of(
        old_ingresses().map(lambda document: (document, "networking.k8s.io/v1")),
        new_deployments().map(lambda document: (document, "extensions/v1beta1")),
        old_endpoint_slices().map(lambda document: (document, "discovery.k8s.io/v1")),
        core_events().map(lambda document: (document, "events.k8s.io/v1")),
        new_claims().map(lambda document: (document, "resource.k8s.io/v1beta1")),
    )
)
def test_a_round_trip_restores_the_object(case: tuple[dict[str, Any], str]) -> None:
    before, version = case
    assert converted(converted(before, version), before["apiVersion"]) == before


def test_the_null_document_converts_to_itself() -> None:
    assert convert(NULL, TYPES[0].resource, GroupVersionKind("a", "v1", "B"), ANY_NAMESPACE).is_null


def test_an_object_in_the_target_version_is_unchanged() -> None:
    document = Document.from_data({"apiVersion": "apps/v1", "kind": "Deployment"})
    resource = GroupVersionResource("apps", "v1", "deployments")
    assert (
        convert(document, resource, GroupVersionKind("apps", "v1", "Deployment"), ANY_NAMESPACE) is document
    )


def test_an_object_without_a_kind_is_refused() -> None:
    resource, kind = (
        GroupVersionResource("apps", "v1", "deployments"),
        GroupVersionKind("apps", "v1", "Deployment"),
    )
    with pytest.raises(ConversionError, match="apiVersion not set"):
        convert(Document.from_data({"kind": "Deployment"}), resource, kind, ANY_NAMESPACE)


def test_conversion_to_another_kind_is_refused() -> None:
    resource = GroupVersionResource("extensions", "v1beta1", "deployments")
    kind = GroupVersionKind("extensions", "v1beta1", "DeploymentRollback")
    document = Document.from_data({"apiVersion": "apps/v1beta1", "kind": "Deployment"})
    with pytest.raises(ConversionError, match="they are different kinds"):
        convert(document, resource, kind, ANY_NAMESPACE)


ORDERS: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "deployments.example.com"},
    "spec": {
        "group": "example.com",
        "names": {"plural": "deployments", "kind": "Deployment"},
        "scope": "Namespaced",
        "versions": [{"name": "v1", "served": True}, {"name": "v2", "served": True}],
    },
}
CUSTOM = {
    "apiVersion": "example.com/v1",
    "kind": "Deployment",
    "metadata": {"name": "a", "annotations": {"deprecated.deployment.rollback.to": "x"}},
    "extra": 1,
}


@pytest.mark.parametrize("conversion", [{}, {"conversion": {"strategy": "None"}}])
def test_a_custom_resource_changes_only_its_version(conversion: dict[str, Any]) -> None:
    cluster = ObjectStore([ORDERS | {"spec": ORDERS["spec"] | conversion}])
    assert converted(CUSTOM, "example.com/v2", cluster=cluster) == CUSTOM | {"apiVersion": "example.com/v2"}


def test_a_custom_resource_with_a_conversion_webhook_is_refused() -> None:
    conversion = {"strategy": "Webhook", "webhook": {"clientConfig": {"url": "https://localhost"}}}
    cluster = ObjectStore([ORDERS | {"spec": ORDERS["spec"] | {"conversion": conversion}}])
    with pytest.raises(ConversionError) as raised:
        converted(CUSTOM, "example.com/v2", cluster=cluster)
    assert str(raised.value) == (
        "conversion webhook for example.com/v1, Kind=Deployment failed: conversion webhooks are not called here"
    )
