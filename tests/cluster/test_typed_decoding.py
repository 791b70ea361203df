"""Decoding patched objects into the Go types of their kinds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from pratique.apimachinery.json_values import JSON, Document, JSONObject
from pratique.apimachinery.kinds import GroupVersionKind
from pratique.apimachinery.patches import apply_patch
from pratique.cluster.go_decoding import TypedDecodingError
from pratique.cluster.typed_decoding import decode_changed
from support.strategies.pods import pods

POD = GroupVersionKind("", "v1", "Pod")
BEFORE: JSONObject = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "one", "labels": {"a": "b"}, "annotations": {}},
    "spec": {"containers": [{"name": "main", "image": "nginx", "resources": {}}], "volumes": []},
}


def added(path: str, value: JSON, before: JSONObject = BEFORE) -> Any:
    """The Pod once something has been added, as it is read then."""
    changed = Document.from_data(apply_patch(before, [{"op": "add", "path": path, "value": value}]))
    return decode_changed(POD, before, changed).data


def refusal(path: str, value: JSON, before: JSONObject = BEFORE) -> str:
    with pytest.raises(TypedDecodingError) as raised:
        added(path, value, before)
    return str(raised.value)


WIDGET = BEFORE | {"apiVersion": "example.com/v1", "kind": "Widget"}
CONTAINER = "/spec/containers/0"
QUANTITY = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
MISMATCHES = [
    ("/metadata/labels/x", 1, "number into Go struct field ObjectMeta.metadata.labels of type string"),
    ("/metadata/labels/x", True, "bool into Go struct field ObjectMeta.metadata.labels of type string"),
    (
        "/metadata/labels",
        "x",
        "string into Go struct field ObjectMeta.metadata.labels of type map[string]string",
    ),
    (
        "/metadata/labels",
        [],
        "array into Go struct field ObjectMeta.metadata.labels of type map[string]string",
    ),
    ("/metadata", "x", "string into Go struct field Pod.metadata of type v1.ObjectMeta"),
    (
        "/metadata/finalizers",
        {},
        "object into Go struct field ObjectMeta.metadata.finalizers of type []string",
    ),
    (
        "/metadata/creationTimestamp",
        1,
        "number into Go struct field ObjectMeta.metadata.creationTimestamp of type string",
    ),
    ("/spec/containers", "x", "string into Go struct field PodSpec.spec.containers of type []v1.Container"),
    (f"{CONTAINER}/image", 1, "number into Go struct field Container.spec.containers.image of type string"),
    (f"{CONTAINER}/stdin", "yes", "string into Go struct field Container.spec.containers.stdin of type bool"),
    (
        f"{CONTAINER}/ports",
        [{"containerPort": "http"}],
        "string into Go struct field ContainerPort.spec.containers.ports.containerPort of type int32",
    ),
    (
        f"{CONTAINER}/ports",
        [{"containerPort": 1.5}],
        "number 1.5 into Go struct field ContainerPort.spec.containers.ports.containerPort of type int32",
    ),
    (
        f"{CONTAINER}/resources/limits",
        "all",
        "string into Go struct field ResourceRequirements.spec.containers.resources.limits of type v1.ResourceList",
    ),
    (
        "/spec/securityContext",
        {"runAsUser": "0"},
        "string into Go struct field PodSecurityContext.spec.securityContext.runAsUser of type int64",
    ),
    ("/spec/priority", 1 << 31, f"number {1 << 31} into Go struct field PodSpec.spec.priority of type int32"),
]


@pytest.mark.parametrize(("path", "value", "text"), MISMATCHES)
def test_a_value_of_the_wrong_type_is_refused_in_gos_words(path: str, value: JSON, text: str) -> None:
    assert refusal(path, value) == f"json: cannot unmarshal {text}"


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        (f"{CONTAINER}/resources/limits", {"cpu": "much"}, QUANTITY),
        (f"{CONTAINER}/resources/limits", {"cpu": {}}, QUANTITY),
        (
            "/metadata/creationTimestamp",
            "today",
            'parsing time "today" as "2006-01-02T15:04:05Z07:00": cannot parse "today" as "2006"',
        ),
        (
            "/metadata/creationTimestamp",
            "2026-01-02",
            'parsing time "2026-01-02" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "T"',
        ),
    ],
)
def test_a_string_that_does_not_parse_is_refused(path: str, value: JSON, text: str) -> None:
    assert refusal(path, value) == text


@pytest.mark.parametrize(
    ("path", "value", "decoded"),
    [
        ("/metadata/labels/x", None, ""),
        (f"{CONTAINER}/args", [None, "x"], ["", "x"]),
        (f"{CONTAINER}/resources/limits", {"cpu": None}, {"cpu": "0"}),
    ],
)
def test_null_in_a_map_or_list_is_the_zero_value(path: str, value: JSON, decoded: JSON) -> None:
    assert added(path, value) == apply_patch(BEFORE, [{"op": "add", "path": path, "value": decoded}])


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("/metadata/labels/x", "y"),
        ("/metadata/creationTimestamp", "2026-01-02T03:04:05Z"),
        (f"{CONTAINER}/resources/limits", {"cpu": 1, "memory": "1Gi"}),
        ("/spec/securityContext", {"runAsUser": 1 << 40}),
        ("/metadata/managedFields", [{"fieldsV1": {"f:x": {}}}]),
        ("/spec/volumes/-", {"name": "v", "emptyDir": {}}),
    ],
)
def test_a_well_typed_object_is_unchanged(path: str, value: JSON) -> None:
    assert added(path, value) == apply_patch(BEFORE, [{"op": "add", "path": path, "value": value}])


@pytest.mark.parametrize(
    ("path", "value"),
    [("/spec/nonsense", 1), ("/metadata/Labels", {"x": "y"}), (f"{CONTAINER}/img", "x"), ("/more", {})],
)
def test_an_unknown_field_is_dropped(path: str, value: JSON) -> None:
    assert added(path, value) == BEFORE


def test_only_the_unknown_field_is_dropped() -> None:
    volume = {"name": "v", "emptyDir": {"medium": "Memory", "size": 1}, "x": 1}
    assert added("/spec/volumes/-", volume)["spec"]["volumes"] == [
        {"name": "v", "emptyDir": {"medium": "Memory"}}
    ]
    assert volume["x"] == 1


def test_values_from_before_the_patch_are_not_checked() -> None:
    before = {**BEFORE, "extra": 1, "metadata": {"name": 1, "labels": "none", "more": {"a": 1}}}
    changed = {**before, "metadata": {**before["metadata"], "more": {"a": 1}, "uid": "u"}}
    assert decode_changed(POD, before, Document.from_data(changed)).data == changed


def test_a_null_label_of_a_custom_resource_is_an_empty_one() -> None:
    thing = GroupVersionKind("ex.org", "v1", "Thing")
    metadata = {"labels": {"a": None, "b": "c"}, "annotations": None}
    changed = Document.from_data({"metadata": metadata, "spec": {"a": None}})
    found = decode_changed(thing, {}, changed).data
    assert found == {"metadata": metadata | {"labels": {"a": "", "b": "c"}}, "spec": {"a": None}}
    plain = Document.from_data({"metadata": {"labels": {"a": "b"}}})
    assert decode_changed(thing, {}, plain) is plain


def test_the_metadata_of_a_custom_resource_is_decoded_alone() -> None:
    assert refusal("/metadata/labels/x", 1, WIDGET) == (
        "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string"
    )
    assert added("/spec/nonsense", 1, WIDGET)["spec"]["nonsense"] == 1


@given(pods(), pods())
def test_a_changed_pod_decodes_as_a_pod(before: JSONObject, after: JSONObject) -> None:
    document = Document.from_data(after)
    assert decode_changed(POD, before, document) is document
