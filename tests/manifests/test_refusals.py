"""The errors of manifests that cannot be reviewed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_values import JSON
from pratique.apimachinery.requests import Operation
from pratique.cluster.api_resources import built_in_resources
from pratique.manifests.requests import review_of_manifest
from support.pods import pod_with_metadata


def refusal(document: JSON, **asked: JSON) -> str:
    with pytest.raises(InputError) as caught:
        review_of_manifest(document, built_in_resources(), **asked)
    return str(caught.value)


@pytest.mark.parametrize(
    ("document", "text"),
    [
        (None, "a Kubernetes object is a mapping, not null"),
        ([pod_with_metadata(name="p")], "a Kubernetes object is a mapping, not a list"),
        ("Pod", "a Kubernetes object is a mapping, not a string"),
        (True, "a Kubernetes object is a mapping, not a boolean"),
        ({}, "apiVersion not set"),
        ({"kind": "Pod", "metadata": {"name": "p"}}, "apiVersion not set"),
        ({"apiVersion": "v1", "metadata": {"name": "p"}}, "kind not set"),
        ({"apiVersion": "v1", "kind": None}, "kind not set"),
        ({"apiVersion": ["v1"], "kind": "Pod"}, "apiVersion: must be a string"),
        ({"apiVersion": "v1", "kind": {}}, "kind: must be a string"),
        ({"apiVersion": "a/b/v1", "kind": "Pod"}, "unexpected GroupVersion string: a/b/v1"),
        ({"apiVersion": "v1", "kind": "Deployment", "metadata": {"name": "d"}},
         'did you mean kind "Deployment" in version "apps/v1"?'),
        ({"apiVersion": "example.com/v1", "kind": "Order", "metadata": {"name": "o"}},
         "add its CustomResourceDefinition: by --crds"),
        ({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}, "(pods/eviction)"),
        ({"apiVersion": "v1", "kind": "List", "items": []}, 'kind "List" is a list: give each of its items'),
        ({"apiVersion": "v1", "kind": "PodList", "items": [pod_with_metadata(name="p")]}, 'kind "PodList" is a list'),
        ({"apiVersion": "v1", "kind": "Pod"}, "metadata: Required value"),
        ({"apiVersion": "v1", "kind": "Pod", "metadata": "p"}, "metadata: must be a mapping, not a string"),
        (pod_with_metadata(), "metadata.name: Required value: name or generateName is required"),
        (pod_with_metadata(name=""), "metadata.name: Required value: name or generateName is required"),
        (pod_with_metadata(name=1), "metadata.name: must be a string, not a number: write it in quotes"),
        (pod_with_metadata(name=False), "metadata.name: must be a string, not a boolean: write it in quotes"),
        (pod_with_metadata(name=["p"]), "metadata.name: must be a string, not a list"),
        (pod_with_metadata(generateName=1.5), "metadata.generateName: must be a string, not a number"),
        (pod_with_metadata(name="p", namespace=1), "metadata.namespace: must be a string, not a number"),
        (pod_with_metadata(name="p", namespace={}), "metadata.namespace: must be a string, not a mapping"),
    ],
)  # fmt: skip
def test_a_wrong_manifest_is_refused_with_a_hint(document: JSON, text: str) -> None:
    assert text in refusal(document)


def test_a_namespace_that_contradicts_the_flag_is_refused() -> None:
    assert refusal(pod_with_metadata(name="p", namespace="a"), namespace="b") == (
        'the namespace from the provided object "a" does not match the namespace "b". '
        "You must pass '--namespace=a' to perform this operation."
    )


@pytest.mark.parametrize("operation", [Operation.UPDATE, Operation.DELETE])
def test_only_a_create_may_use_generate_name(operation: Operation) -> None:
    text = refusal(pod_with_metadata(generateName="p-"), operation=operation)
    assert text == f"metadata.name: Required value: {operation} needs the name of the object"


def test_an_update_of_a_missing_object_is_refused() -> None:
    text = refusal(pod_with_metadata(name="p"), operation=Operation.UPDATE)
    assert text == (
        'pods "p" not found: an UPDATE needs the object as it is stored, in --old or --cluster, or admitted before;'
        " 'kubectl get -o yaml' writes it for --old"
    )


@pytest.mark.parametrize(
    ("api_version", "kind", "text"),
    [
        ("v1", "Pod", "a CONNECT needs a subresource: give --subresource attach or exec or"),
        ("v1", "Service", "give --subresource proxy"),
        ("v1", "ConfigMap", "configmaps has none that connects"),
    ],
)
def test_a_connect_needs_a_subresource(api_version: str, kind: str, text: str) -> None:
    document = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}}
    assert text in refusal(document, operation=Operation.CONNECT)


def test_a_connect_cannot_be_a_dry_run() -> None:
    text = refusal(pod_with_metadata(name="p"), operation=Operation.CONNECT, subresource="exec", dry_run=True)
    assert text.startswith("dryRun is not supported")


@pytest.mark.parametrize(
    ("subresource", "operation", "text"),
    [
        ("status", Operation.CREATE, "pods/status takes UPDATE, not CREATE: give --operation UPDATE"),
        ("status", Operation.DELETE, "pods/status takes UPDATE, not DELETE"),
        ("exec", Operation.CREATE, "pods/exec takes CONNECT, not CREATE"),
        ("eviction", Operation.UPDATE, "pods/eviction takes CREATE, not UPDATE"),
        ("log", Operation.CONNECT, "pods/log can only be read"),
        (
            "binding",
            Operation.CREATE,
            'kind "Pod" does not say what is sent to pods/binding: give the Binding',
        ),
    ],
)
def test_an_operation_that_a_subresource_lacks_is_refused(
    subresource: str, operation: Operation, text: str
) -> None:
    assert text in refusal(pod_with_metadata(name="p"), subresource=subresource, operation=operation)


@pytest.mark.parametrize(
    ("api_version", "kind", "subresource", "text"),
    [
        ("apps/v1", "Deployment", "exec", "cannot be sent to deployments/exec: only to scale, status"),
        ("v1", "ConfigMap", "status", "cannot be sent to configmaps/status: only to configmaps itself"),
        (
            "v1",
            "Pod",
            "nonsense",
            "cannot be sent to pods/nonsense: only to attach, binding, ephemeralcontainers, eviction, exec,",
        ),
        ("autoscaling/v1", "Scale", "scale", "give the object that it is of, or an AdmissionReview"),
        ("example.com/v1", "Order", "status", "add its CustomResourceDefinition: by --crds"),
    ],
)
def test_a_subresource_that_does_not_take_the_kind_is_refused(
    api_version: str, kind: str, subresource: str, text: str
) -> None:
    document = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}}
    assert text in refusal(document, subresource=subresource)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "v1", "Pod", "List", "p"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                ["apiVersion", "kind", "metadata", "name", "namespace", "items", "labels", "status"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(
    json_values,
    st.sampled_from(["Pod", "Namespace", "SubjectAccessReview"]),
    st.sampled_from(list(Operation)),
)
def test_any_json_is_either_reviewed_or_refused(document: JSON, kind: str, operation: Operation) -> None:
    group = "authorization.k8s.io/" if kind == "SubjectAccessReview" else ""
    for candidate in (document, {"apiVersion": f"{group}v1", "kind": kind, "metadata": document}):
        try:
            review = review_of_manifest(candidate, built_in_resources(), operation=operation)
        except InputError:
            continue
        assert review.resource.resource
