# ruff: noqa: ISC004 - messages are longer than lines
"""The checks that Kubernetes declares by tags of its types, and how their errors join handwritten ones."""

from __future__ import annotations

import pytest

from pratique.apimachinery.field_errors import ROOT, FieldError, covered, invalid, required
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.kinds import GroupVersionKind
from pratique.registry.declarative_validation import validate_declaratively, with_declared_errors

STORAGE_CLASS = GroupVersionKind("storage.k8s.io", "v1", "StorageClass")
DEVICE_CLASS = GroupVersionKind("resource.k8s.io", "v1", "DeviceClass")
CLAIM = GroupVersionKind("resource.k8s.io", "v1", "ResourceClaim")
AUTOSCALER = GroupVersionKind("autoscaling", "v2", "HorizontalPodAutoscaler")
PRIORITY_LEVEL = GroupVersionKind("flowcontrol.apiserver.k8s.io", "v1", "PriorityLevelConfiguration")
POD_GROUP = GroupVersionKind("scheduling.k8s.io", "v1beta1", "PodGroup")
REQUEST = GroupVersionKind("certificates.k8s.io", "v1", "CertificateSigningRequest")
SLICE = GroupVersionKind("resource.k8s.io", "v1", "ResourceSlice")


def tell(kind: GroupVersionKind, written: JSONObject, old: JSONObject | None = None) -> list[str]:
    return [str(found.error) for found in validate_declaratively(kind, written, old)]


CLASS = {"provisioner": "a.b/c", "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}
LIMITED = {"limited": {"limitResponse": {"type": "Queue"}}, "type": "Limited"}


@pytest.mark.parametrize(
    ("kind", "written", "expected"),
    [
        pytest.param(STORAGE_CLASS, CLASS, [], id="nothing wrong"),
        pytest.param(STORAGE_CLASS, {}, ["provisioner: Required value"], id="a required text"),
        pytest.param(
            AUTOSCALER,
            {"spec": {"maxReplicas": -1, "minReplicas": 0}},
            ["spec.maxReplicas: Invalid value: -1: must be greater than or equal to 1"],
            id="a minimum, and one that a feature gate lowers",
        ),
        pytest.param(
            DEVICE_CLASS,
            {"metadata": {"name": "A"}, "spec": {"selectors": [{}] * 33}},
            [
                'metadata.name: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case '
                "alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. "
                "'example.com', regex used for validation is "
                r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
                "spec.selectors: Too many: 33: must have at most 32 items",
            ],
            id="a format of a field of metadata, and the length of a list",
        ),
        pytest.param(
            PRIORITY_LEVEL,
            {"spec": LIMITED},
            ["spec.limited.limitResponse.queuing: Required value"],
            id="what another field makes required",
        ),
        pytest.param(
            PRIORITY_LEVEL,
            {"spec": {"exempt": {}, **LIMITED, "limited": {"limitResponse": {"type": "Reject"}}}},
            ["spec.exempt: Forbidden"],
            id="what another field forbids",
        ),
        pytest.param(
            REQUEST,
            {"status": {"conditions": [{"type": "Approved"}, {"type": "Denied"}]}},
            [
                'status.conditions: Invalid value: "{conditions[{\\"type\\": \\"Approved\\"}], conditions[{\\"type\\": '
                '\\"Denied\\"}]}": must specify at most one of: `conditions[{"type": "Approved"}]`, '
                '`conditions[{"type": "Denied"}]`'
            ],
            id="at most one of two items of a list",
        ),
        pytest.param(
            CLAIM,
            {"spec": {"devices": {"requests": [{"name": "a", "exactly": {"allocationMode": "x"}}, {"name": "a"}]}}},
            [
                'spec.devices.requests[1]: Duplicate value: {"name":"a"}',
                'spec.devices.requests[0].exactly.allocationMode: Unsupported value: "x": supported values: "All", '
                '"ExactCount"',
            ],
            id="items with the same key, and an enumeration",
        ),
        pytest.param(
            SLICE,
            {"spec": {"devices": [{"attributes": {"a.b/c": {"int": 1, "bool": True}}}]}},
            [
                'spec.devices[0].attributes[a.b/c]: Invalid value: "{int, bool}": must specify exactly one of: `int`, '
                "`bool`, `string`, `version`, `ints`, `bools`, `strings`, `versions`"
            ],
            id="two members of a union, in the value of a map",
        ),
    ],
)  # fmt: skip
def test_the_checks_of_tags_speak_as_the_api_server_does(
    kind: GroupVersionKind, written: JSONObject, expected: list[str]
) -> None:
    assert tell(kind, written) == expected


def test_what_an_update_leaves_as_it_is_is_not_checked_again() -> None:
    stored = {"spec": {"maxReplicas": 0, "minReplicas": -1}}
    assert tell(AUTOSCALER, stored, stored) == []
    changed = {"spec": {**stored["spec"], "minReplicas": -2}}
    assert tell(AUTOSCALER, changed, stored) == [
        "spec.minReplicas: Invalid value: -2: must be greater than or equal to 0"
    ]


def test_an_immutable_field_may_not_change_but_from_nothing_to_empty() -> None:
    assert tell(STORAGE_CLASS, {**CLASS, "parameters": {"a": "b"}}, CLASS) == [
        "parameters: Invalid value: null: field is immutable"
    ]
    assert tell(STORAGE_CLASS, {**CLASS, "provisioner": ""}, CLASS) == [
        "provisioner: Required value",
        "provisioner: Invalid value: null: field is immutable",
    ]
    assert tell(STORAGE_CLASS, CLASS, CLASS) == []


def test_a_field_of_a_feature_that_is_off_is_forbidden() -> None:
    group: JSONObject = {"spec": {"schedulingPolicy": {"basic": {}}, "disruptionMode": {"all": {}}}}
    assert tell(POD_GROUP, group) == []
    gated = {"spec": {**group["spec"], "preemptionPolicy": "Never"}}
    assert tell(POD_GROUP, gated) == ["spec.preemptionPolicy: Forbidden"]


def test_kinds_without_tags_have_no_errors() -> None:
    assert tell(GroupVersionKind("", "v1", "ConfigMap"), {"data": {"": ""}}) == []


IMMUTABLE = invalid(ROOT / "reclaimPolicy", "Retain", "field is immutable")
DECLARED = "reclaimPolicy: Invalid value: null: field is immutable"


@pytest.mark.parametrize(
    ("handwritten", "expected"),
    [
        pytest.param([], [DECLARED], id="only the tag"),
        pytest.param(covered(IMMUTABLE, "immutable"), [DECLARED], id="the tag's in the place of the covered"),
        pytest.param(covered(IMMUTABLE), [str(IMMUTABLE), DECLARED], id="an invalid value without origin stays"),
        pytest.param([IMMUTABLE], [str(IMMUTABLE), DECLARED], id="what is not covered stays"),
        pytest.param(
            [required(ROOT / "a"), *covered(IMMUTABLE, "immutable"), required(ROOT / "a")],
            ["a: Required value", DECLARED],
            id="others stay in their order, once",
        ),
        pytest.param(
            covered(required(ROOT / "provisioner")), ["provisioner: Required value", DECLARED],
            id="covered, but no tag found it",
        ),
    ],
)  # fmt: skip
def test_errors_of_tags_come_last_and_replace_those_that_they_cover(
    handwritten: list[FieldError], expected: list[str]
) -> None:
    changed = {**CLASS, "reclaimPolicy": "Retain"}
    found = with_declared_errors(handwritten, STORAGE_CLASS, changed, CLASS)
    assert [str(error) for error in found] == expected


@pytest.mark.parametrize(
    ("pool", "expected"),
    [
        ("a/b.c", []),
        ("a//b", ["segment 1: must not be empty"]),
    ],
)
def test_a_pool_has_a_name_of_segments(pool: str, expected: list[str]) -> None:
    result = {"request": "a", "driver": "a.b", "pool": pool, "device": "c"}
    claim = {"status": {"allocation": {"devices": {"results": [result]}}}}
    path = "status.allocation.devices.results[0].pool"
    assert tell(CLAIM, claim) == [f'{path}: Invalid value: "{pool}": {text}' for text in expected]
