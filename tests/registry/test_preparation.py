"""What validating controllers see of an object that is about to be stored."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import JSON, Document, JSONObject
from pratique.apimachinery.requests import Operation
from pratique.cluster.api_resources import built_in_resources
from pratique.cluster.store import ObjectKey, ObjectStore
from pratique.manifests.pod_templates import pod_of_workload
from pratique.manifests.requests import review_of_manifest
from pratique.registry.strategies.preparation import prepare_for_validation

NOW = dt.datetime(2026, 11, 23, 9, 30, 1, 999_999, tzinfo=dt.UTC).timestamp()
ANNOTATION = "container.apparmor.security.beta.kubernetes.io/c"
PROFILE = {"type": "Unconfined"}


def manifest(api_version: str, kind: str, metadata: JSON = None, **more: JSON) -> JSONObject:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"} | (metadata or {}), **more}


def review_of(written: JSONObject, **options: Any) -> Review:
    return review_of_manifest(written, built_in_resources(), **options)


def stored(written: JSONObject, **options: Any) -> Any:
    return prepare_for_validation(review_of(written, **options), NOW).object


def pod(annotations: JSON = None, **spec: JSON) -> JSONObject:
    return manifest(
        "v1", "Pod", {"annotations": annotations or {}}, spec={"containers": [{"name": "c"}]} | spec
    )


def test_a_created_object_has_a_uid_and_a_creation_time() -> None:
    metadata = stored(manifest("v1", "ConfigMap"))["metadata"]
    assert metadata["creationTimestamp"] == "2026-11-23T09:30:01Z"
    assert metadata["uid"] == stored(manifest("v1", "ConfigMap"))["metadata"]["uid"]
    assert metadata["uid"] != stored(manifest("v1", "Secret"))["metadata"]["uid"]


def test_what_the_object_has_already_stays() -> None:
    review = review_of(manifest("v1", "ConfigMap"))
    own = {"name": "a", "uid": "u", "creationTimestamp": "2020-01-01T00:00:00Z"}
    given_object = review.with_object(Document.from_data(manifest("v1", "ConfigMap", own)))
    assert prepare_for_validation(given_object, NOW).object["metadata"] == own


@pytest.mark.parametrize(
    ("api_version", "kind", "generation"),
    [
        ("v1", "Pod", 1),
        ("v1", "ConfigMap", None),
        ("extensions/v1beta1", "Deployment", 1),
        ("networking.k8s.io/v1", "IngressClass", 1),
        ("rbac.authorization.k8s.io/v1", "ClusterRole", None),
    ],
)
def test_kinds_that_count_changes_start_at_one(api_version: str, kind: str, generation: int | None) -> None:
    assert stored(manifest(api_version, kind))["metadata"].get("generation") == generation


@pytest.mark.parametrize(
    ("written", "finalizers"),
    [([], ["kubernetes"]), (["x/y"], ["x/y", "kubernetes"]), (["kubernetes"], ["kubernetes"])],
)
def test_a_namespace_is_kept_until_it_is_empty(written: list[str], finalizers: list[str]) -> None:
    found = stored(manifest("v1", "Namespace", spec={"finalizers": written}))
    assert found["spec"] == {"finalizers": finalizers}


def test_a_job_selects_its_pods_by_its_uid() -> None:
    found = stored(
        manifest("batch/v1", "Job", spec={"template": {"metadata": {"labels": {"app": "a"}}, "spec": {}}})
    )
    uid = found["metadata"]["uid"]
    assert found["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert found["spec"]["template"]["metadata"]["labels"] == {
        "app": "a",
        "job-name": "a",
        "batch.kubernetes.io/job-name": "a",
        "controller-uid": uid,
        "batch.kubernetes.io/controller-uid": uid,
    }


def test_a_job_with_a_manual_selector_stays_as_written() -> None:
    spec = {"manualSelector": True, "selector": {"matchLabels": {"a": "b"}}, "template": {"spec": {}}}
    assert stored(manifest("batch/v1", "Job", spec=spec))["spec"] == spec


def test_the_pods_of_a_job_are_owned_by_the_uid_that_validating_controllers_see() -> None:
    written = manifest("batch/v1", "Job", spec={"template": {"spec": {"containers": []}}})
    review = review_of(written)
    made = pod_of_workload(review, review.object)
    assert made is not None
    [owner] = made.document["metadata"]["ownerReferences"]
    assert owner["uid"] == prepare_for_validation(review, NOW).object["metadata"]["uid"]


@pytest.mark.parametrize(
    ("annotation", "profile"),
    [
        ("unconfined", {"type": "Unconfined"}),
        ("runtime/default", {"type": "RuntimeDefault"}),
        ("localhost/a", {"type": "Localhost", "localhostProfile": "a"}),
        ("localhost/ a", None),
        ("localhost/", None),
        ("localhost/" + "a" * 4096, None),
        ("unknown", None),
        ("", None),
    ],
)
@pytest.mark.parametrize("field", ["containers", "initContainers", "ephemeralContainers"])
def test_an_app_armor_annotation_becomes_the_containers_field(
    field: str, annotation: str, profile: JSON
) -> None:
    written = pod({ANNOTATION: annotation}, **{field: [{"name": "c"}, {"name": "other"}]})
    containers = stored(written)["spec"][field]
    assert containers[0].get("securityContext", {}).get("appArmorProfile") == profile
    assert containers[1] == {"name": "other"}


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": [{"name": "c", "securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}}]},
        {"securityContext": {"appArmorProfile": PROFILE}},
        {"os": {"name": "windows"}},
    ],
    ids=["own field", "same as the Pod's", "Windows"],
)
def test_an_app_armor_annotation_is_not_copied(spec: JSONObject) -> None:
    written = pod({ANNOTATION: "unconfined"}, **spec)
    assert stored(written)["spec"] == written["spec"]


@pytest.mark.parametrize("audiences", [[], None, ["mine"]])
def test_a_token_request_names_its_account_and_an_audience(audiences: JSON) -> None:
    account = manifest("v1", "ServiceAccount", {"namespace": "shop", "uid": "u1"})
    store = ObjectStore(assume_namespaces=True)
    store.put(account, ObjectKey("", "serviceaccounts", "shop", "a"))
    request = manifest("authentication.k8s.io/v1", "TokenRequest", {"namespace": "shop"})
    request["spec"] = {"audiences": audiences}
    review = review_of(request, subresource="token", cluster=store)
    review = review.with_object(Document.from_data({**review.object, "metadata": {}}))
    found = prepare_for_validation(review, NOW).object
    assert found["metadata"] == {
        "name": "a",
        "namespace": "shop",
        "uid": "u1",
        "creationTimestamp": "2026-11-23T09:30:01Z",
    }
    assert found["spec"]["audiences"] == (audiences or ["https://kubernetes.default.svc.cluster.local"])


@pytest.mark.parametrize(
    ("written", "options"),
    [
        (manifest("v1", "Binding", {"namespace": "shop"}), {}),
        (manifest("authorization.k8s.io/v1", "SubjectAccessReview", spec={}), {}),
        (manifest("policy/v1", "Eviction", {"namespace": "shop"}), {"subresource": "eviction"}),
        (manifest("v1", "ConfigMap"), {"operation": Operation.UPDATE, "old": manifest("v1", "ConfigMap")}),
        (manifest("v1", "ConfigMap"), {"operation": Operation.DELETE}),
    ],
    ids=["Binding", "SubjectAccessReview", "Eviction", "update", "delete"],
)
def test_what_is_not_created_stays_as_it_is(written: JSONObject, options: dict[str, Any]) -> None:
    review = review_of(written, **options)
    assert prepare_for_validation(review, NOW) is review


STORED = {
    "uid": "u",
    "creationTimestamp": "2020-01-01T00:00:00Z",
    "resourceVersion": "7",
    "generation": 4,
}


def updated(new: JSONObject, old: JSONObject, subresource: str = "") -> Any:
    """The metadata of an object that is updated."""
    return stored(new, operation=Operation.UPDATE, old=old, subresource=subresource)["metadata"]


def test_an_updated_object_keeps_what_an_update_cannot_change() -> None:
    old = manifest("v1", "ConfigMap", STORED)
    named = {"name": "a", "namespace": "default"}
    assert updated(manifest("v1", "ConfigMap"), old) == named | STORED
    own = {"creationTimestamp": "2021-01-01T00:00:00Z", "generation": 9, "resourceVersion": "8"}
    kept = named | STORED | {"resourceVersion": "8"}
    assert updated(manifest("v1", "ConfigMap", own), old) == kept
    assert updated(manifest("v1", "ConfigMap"), manifest("v1", "ConfigMap")) == named


@pytest.mark.parametrize(
    ("changed", "subresource", "generation"),
    [
        ({"image": "b"}, "", 5),
        ({"resources": {"requests": {"cpu": "2"}}}, "resize", 5),
        ({}, "", 4),
        ({"image": "b"}, "status", 4),
    ],
    ids=["changed", "resized", "unchanged", "of the status"],
)
def test_a_pod_whose_specification_changes_has_another_generation(
    changed: JSONObject, subresource: str, generation: int
) -> None:
    def bound(**container: JSON) -> JSONObject:
        return manifest("v1", "Pod", STORED, spec={"containers": [{"name": "c", **container}]})

    assert updated(bound(**changed), bound(), subresource)["generation"] == generation


@pytest.mark.parametrize(
    ("api_version", "kind", "changed", "generation"),
    [
        ("apps/v1", "Deployment", {"metadata": {"name": "a", "annotations": {"b": "c"}}}, 5),
        ("apps/v1", "StatefulSet", {"metadata": {"name": "a", "annotations": {"b": "c"}}}, 4),
        ("apps/v1", "StatefulSet", {"spec": {"replicas": 2}}, 5),
        ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", {"webhooks": [{}]}, 5),
        ("apps/v1", "Deployment", {"metadata": {"name": "a", "labels": {"b": "c"}}}, 4),
        ("apps/v1", "Deployment", {"status": {"replicas": 2}}, 4),
    ],
)
def test_each_kind_has_its_own_changes_that_count(
    api_version: str, kind: str, changed: JSONObject, generation: int
) -> None:
    old = manifest(api_version, kind, STORED)
    assert updated(manifest(api_version, kind) | changed, old)["generation"] == generation


_SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
_JSON = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


@given(
    kind=st.sampled_from([("v1", "Pod"), ("batch/v1", "Job"), ("v1", "Namespace")]),
    spec=_JSON,
    template=_JSON,
    annotations=_JSON,
)
def test_a_malformed_object_never_breaks_it(
    kind: tuple[str, str], spec: JSON, template: JSON, annotations: JSON
) -> None:
    review = review_of(manifest(*kind))
    inner = {"template": template, "containers": template, "selector": spec} if annotations else spec
    data = {"metadata": {"annotations": annotations, "labels": spec}, "spec": inner, "status": spec}
    before = repr(data)
    found = prepare_for_validation(review.with_object(Document.from_data(data)), NOW).object
    assert found["metadata"]["uid"]
    assert repr(data) == before
