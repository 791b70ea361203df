"""NodeDeclaredFeatureValidator."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.cluster.store import ObjectStore
from pratique.controllers.node_declared_feature_validator import CONTROLLER
from pratique.controllers.node_declared_feature_validator.pod_updates import (
    INIT_CONTAINERS,
    MEMORY_BACKED_VOLUMES,
    POD_LEVEL_RESOURCES,
)
from support.admissions import admit, denial, forbidden_text, pod_review, review_of
from support.pods import container, pod

DEVICES = "DRANodeAllocatableResources"
DEVICES_ON = {"featureGates": {DEVICES: True}}
ALL_OFF = {"featureGates": {"NodeDeclaredFeatures": False}}


def node(name: str, *features: str, **labels: str) -> JSONObject:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"declaredFeatures": list(features)},
    }


def amounts(cpu: JSON) -> JSONObject:
    return {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}


def running_pod(on: JSON = "n1") -> JSONObject:
    return pod(
        container(resources=amounts("1")),
        nodeName=on,
        initContainers=[
            container("setup", resources=amounts("500m")),
            container("mesh", resources=amounts("500m"), restartPolicy="Always"),
        ],
        resources=amounts("2"),
        volumes=[
            {"name": "scratch", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
            {"name": "disk", "emptyDir": {"sizeLimit": "1Gi"}},
        ],
    )


Change = Callable[[JSONObject], object]
"""Changes the specification of a Pod in place."""


def update_review(change: Change, *nodes: JSONObject, on: JSON = "n1", subresource: str = "resize") -> Review:
    old = running_pod(on)
    new = copy.deepcopy(old)
    change(new["spec"])
    review = pod_review(new, operation="UPDATE", old=old, subresource=subresource)
    return msgspec.structs.replace(review, cluster=ObjectStore(nodes))


def resize_pod(spec: JSONObject) -> None:
    spec["resources"] = amounts("3")


def resize_init_container(spec: JSONObject) -> None:
    spec["initContainers"][0]["resources"] = amounts("1")


def respell_init_container(spec: JSONObject) -> None:
    spec["initContainers"][0]["resources"] = amounts("0.5")


def resize_sidecar(spec: JSONObject) -> None:
    spec["initContainers"][1]["resources"] = amounts("1")


def resize_container(spec: JSONObject) -> None:
    spec["containers"][0]["resources"] = amounts("2")


def resize_memory_volume(spec: JSONObject) -> None:
    spec["volumes"][0]["emptyDir"]["sizeLimit"] = "2Gi"


def together(*changes: Change) -> Change:
    return lambda spec: [change(spec) for change in changes]


REQUIRED = [
    (resize_pod, [POD_LEVEL_RESOURCES]),
    (lambda spec: spec.pop("resources"), [POD_LEVEL_RESOURCES]),
    (lambda spec: spec["resources"].update(claims=[{"name": "gpu"}]), [POD_LEVEL_RESOURCES]),
    (resize_init_container, [INIT_CONTAINERS]),
    (lambda spec: spec["initContainers"][0].pop("resources"), [INIT_CONTAINERS]),
    (lambda spec: spec["initContainers"].clear(), [INIT_CONTAINERS]),
    (together(respell_init_container, resize_container), [INIT_CONTAINERS]),
    (resize_memory_volume, [MEMORY_BACKED_VOLUMES]),
    (
        together(resize_pod, resize_init_container, resize_memory_volume),
        [POD_LEVEL_RESOURCES, INIT_CONTAINERS, MEMORY_BACKED_VOLUMES],
    ),
]
"""Changes, and the features that they need."""

NEEDLESS: list[Change] = [
    lambda spec: None,
    resize_container,
    resize_sidecar,
    respell_init_container,
    lambda spec: spec["initContainers"][0].update(resources={**amounts("500m"), "claims": []}),
    lambda spec: spec.update(resources=amounts("2000m")),
    lambda spec: spec["containers"][0].update(image="app:2"),
    lambda spec: spec["volumes"][0]["emptyDir"].update(sizeLimit="1024Mi"),
    lambda spec: spec["volumes"][0]["emptyDir"].pop("sizeLimit"),
    lambda spec: spec["volumes"][0].update(name="other"),
    lambda spec: spec["volumes"][1]["emptyDir"].update(sizeLimit="2Gi"),
    lambda spec: spec["volumes"].pop(),
]
"""Changes that need no feature."""


@pytest.mark.parametrize(("change", "features"), REQUIRED)
@pytest.mark.parametrize("subresource", ["", "resize"])
def test_an_update_is_denied_if_its_node_lacks_the_features(
    change: Change, features: list[str], subresource: str
) -> None:
    found = admit(CONTROLLER, update_review(change, node("n1", "Other"), subresource=subresource))
    assert forbidden_text(found) == (
        f'pod update requires features {", ".join(features)} which are not available on node "n1"'
    )


@pytest.mark.parametrize(("change", "features"), REQUIRED)
def test_an_update_is_allowed_if_its_node_has_declared_them(change: Change, features: list[str]) -> None:
    assert admit(CONTROLLER, update_review(change, node("n1", "Other", *features))).allowed


@pytest.mark.parametrize("change", NEEDLESS)
def test_other_updates_need_no_feature(change: Change) -> None:
    assert admit(CONTROLLER, update_review(change, node("n1"))).allowed


def test_only_the_missing_features_are_named() -> None:
    review = update_review(together(resize_pod, resize_init_container), node("n1", INIT_CONTAINERS))
    text = f'pod update requires features {POD_LEVEL_RESOURCES} which are not available on node "n1"'
    assert forbidden_text(admit(CONTROLLER, review)) == text


def test_a_node_that_does_not_exist_has_declared_nothing() -> None:
    assert forbidden_text(admit(CONTROLLER, update_review(resize_pod))) == 'node "n1" not found'


@pytest.mark.parametrize("on", ["", None])
def test_a_pod_on_no_node_may_change(on: JSON) -> None:
    assert admit(CONTROLLER, update_review(resize_pod, on=on)).allowed


@pytest.mark.parametrize("subresource", ["status", "ephemeralcontainers"])
def test_other_subresources_are_ignored(subresource: str) -> None:
    assert admit(CONTROLLER, update_review(resize_pod, subresource=subresource)).allowed


def test_a_new_pod_is_ignored() -> None:
    assert admit(CONTROLLER, pod_review(running_pod())).allowed


def test_before_1_36_nothing_is_checked() -> None:
    assert admit(CONTROLLER, update_review(resize_pod), ALL_OFF).allowed


@pytest.mark.parametrize(
    ("new", "old", "message"),
    [
        ({"kind": "Service", "apiVersion": "v1"}, running_pod(), "expected a pod but got a *core.Service"),
        (None, running_pod(), "expected a pod but got a <nil>"),
        (running_pod(), None, "expected an old pod but got a <nil>"),
    ],
)
def test_objects_of_other_kinds_are_a_bad_request(new: JSON, old: JSON, message: str) -> None:
    found = admit(CONTROLLER, pod_review(new, operation="UPDATE", old=old))
    assert denial(found) == (400, "BadRequest", message)


def test_an_amount_that_is_no_quantity_is_a_bad_request() -> None:
    review = update_review(lambda spec: spec.update(resources=amounts("much")), node("n1"))
    code, _, message = denial(admit(CONTROLLER, review))
    assert code == 400
    assert message.startswith("spec.resources.requests.cpu: ")


@given(st.permutations([resize_pod, resize_init_container, resize_memory_volume, resize_container]))
def test_the_order_of_changes_does_not_matter(changes: list[Change]) -> None:
    found = admit(CONTROLLER, update_review(together(*changes), node("n1")))
    features = f"{POD_LEVEL_RESOURCES}, {INIT_CONTAINERS}, {MEMORY_BACKED_VOLUMES}"
    assert f"requires features {features} which" in forbidden_text(found)


def requirement(key: str, operator: str, *values: str) -> JSONObject:
    return {"key": key, "operator": operator, "values": list(values)}


def selector(*expressions: JSONObject, fields: JSON = None) -> JSONObject:
    return {"nodeSelectorTerms": [{"matchExpressions": list(expressions), "matchFields": fields}]}


def device(name: str = "d1", *, maps: bool = True, **fields: JSON) -> JSONObject:
    mapping = {"nodeAllocatableResources": {"cpu": {"mapping": {"deviceMultiplier": "1"}}}}
    return {"name": name, **(mapping if maps else {}), **fields}


NODES = [
    node("able", DEVICES, pool="new", rank="7"),
    node("also", DEVICES, pool="new"),
    node("old", pool="old", tier="3"),
]


def slice_review(
    *devices: JSONObject, nodes: Iterable[JSONObject] = NODES, operation: str = "CREATE", **spec: JSON
) -> Review:
    return review_of(
        {
            "operation": operation,
            "kind": {"group": "resource.k8s.io", "version": "v1", "kind": "ResourceSlice"},
            "resource": {"group": "resource.k8s.io", "version": "v1", "resource": "resourceslices"},
            "name": "s1",
            "object": {"kind": "ResourceSlice", "spec": {"devices": list(devices), **spec}},
        },
        ObjectStore(nodes),
    )


SLICE = 'resourceslices.resource.k8s.io "s1"'
UNSUPPORTED = f'node "old" does not support {DEVICES} feature'
CHOICES: list[tuple[JSONObject, str]] = [
    ({"nodeName": "able"}, ""),
    ({"nodeName": "old"}, UNSUPPORTED),
    ({"nodeName": "gone"}, 'node "gone" not found for device "d1"'),
    ({"nodeName": "able", "allNodes": True}, ""),
    ({"allNodes": True}, UNSUPPORTED),
    ({"nodeSelector": selector(requirement("pool", "In", "new", "newer"))}, ""),
    ({"nodeSelector": selector(requirement("pool", "In", "old"))}, UNSUPPORTED),
    ({"nodeSelector": selector(requirement("pool", "NotIn", "old"))}, ""),
    ({"nodeSelector": selector(requirement("pool", "NotIn", "new"))}, UNSUPPORTED),
    ({"nodeSelector": selector(requirement("rank", "Exists"))}, ""),
    ({"nodeSelector": selector(requirement("rank", "DoesNotExist"))}, UNSUPPORTED),
    ({"nodeSelector": selector(requirement("rank", "Gt", "6"))}, ""),
    ({"nodeSelector": selector(requirement("rank", "Lt", "8"))}, ""),
    ({"nodeSelector": selector(requirement("pool", "Gt", "0"))}, ""),
    ({"nodeSelector": selector(requirement("tier", "Gt", "3"))}, ""),
    ({"nodeSelector": selector(requirement("tier", "Gt", "2"))}, UNSUPPORTED),
    ({"nodeSelector": selector(requirement("tier", "Lt", "3"))}, ""),
    ({"nodeSelector": selector(requirement("tier", "Lt", "4"))}, UNSUPPORTED),
    ({"nodeSelector": selector(requirement("pool", "Exists"), requirement("rank", "Exists"))}, ""),
    ({"nodeSelector": selector(fields=[requirement("metadata.name", "In", "able")])}, ""),
    ({"nodeSelector": selector(fields=[requirement("metadata.name", "In", "old")])}, UNSUPPORTED),
    ({"nodeSelector": selector(fields=[requirement("metadata.name", "NotIn", "old")])}, ""),
    ({"nodeSelector": {"nodeSelectorTerms": [{}]}}, ""),
    ({"nodeSelector": {}, "allNodes": True}, ""),
    ({"nodeSelector": selector(requirement("rank", "Gt", "7"))}, ""),
    (
        {
            "nodeSelector": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [requirement("rank", "Exists")]},
                    {"matchExpressions": [requirement("pool", "In", "old")]},
                ]
            }
        },
        UNSUPPORTED,
    ),
    ({}, 'device "d1" in ResourceSlice has NodeAllocatableResources but does not map to any nodes'),
    (
        {"nodeName": "", "allNodes": False},
        'device "d1" in ResourceSlice has NodeAllocatableResources but does not map to any nodes',
    ),
]
"""How nodes are chosen, and the text of the denial; empty if there is none."""


@pytest.mark.parametrize(("choice", "text"), CHOICES)
@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
def test_all_nodes_of_a_slice_must_support_its_devices(choice: JSONObject, text: str, operation: str) -> None:
    found = admit(CONTROLLER, slice_review(device(), operation=operation, **choice), DEVICES_ON)
    assert (forbidden_text(found, SLICE) if not found.allowed else "") == text


@pytest.mark.parametrize(("choice", "text"), CHOICES)
def test_a_device_may_choose_its_nodes_itself(choice: JSONObject, text: str) -> None:
    review = slice_review(device(**choice), perDeviceNodeSelection=True, nodeName="old")
    found = admit(CONTROLLER, review, DEVICES_ON)
    assert (forbidden_text(found, SLICE) if not found.allowed else "") == text


def test_every_device_is_checked() -> None:
    devices = [device("d1", nodeName="able"), device("d2", nodeName="old")]
    found = admit(CONTROLLER, slice_review(*devices, perDeviceNodeSelection=True), DEVICES_ON)
    assert forbidden_text(found, SLICE) == UNSUPPORTED


def test_devices_that_take_nothing_from_the_node_are_not_checked() -> None:
    assert admit(CONTROLLER, slice_review(device(maps=False), nodeName="old"), DEVICES_ON).allowed


def test_slices_are_not_checked_while_their_gate_is_off_as_it_is_by_default() -> None:
    assert admit(CONTROLLER, slice_review(device(), nodeName="old")).allowed


@pytest.mark.parametrize(
    ("review", "configuration", "reason"),
    [
        (slice_review(), None, f"the feature gate {DEVICES} is off"),
        (slice_review(), DEVICES_ON, ""),
        (update_review(resize_pod), None, ""),
    ],
)
def test_the_service_is_called_for_slices_only_if_the_gate_is_on(
    review: Review, configuration: JSON, reason: str
) -> None:
    assert CONTROLLER.skip_reason is not None
    assert CONTROLLER.skip_reason(configuration, review) == reason


UNSUPPORTED_VALUE = "Unsupported value: {}: supported values: {}"


@pytest.mark.parametrize(
    ("written", "field", "detail"),
    [
        (
            selector(requirement("a", "Like", "b")),
            "matchExpressions[0].operator",
            UNSUPPORTED_VALUE.format('"Like"', '"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"'),
        ),
        (
            selector(requirement("a", "In")),
            "matchExpressions[0].values",
            "Invalid value: null: for 'in', 'notin' operators, values set can't be empty",
        ),
        (
            selector(requirement("a", "Exists", "b")),
            "matchExpressions[0].values",
            'Invalid value: ["b"]: values set must be empty for exists and does not exist',
        ),
        (
            selector(requirement("a", "Gt", "x")),
            "matchExpressions[0].values[0]",
            "Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
        ),
        (
            selector(fields=[requirement("metadata.name", "Exists")]),
            "matchFields[0].operator",
            UNSUPPORTED_VALUE.format('"Exists"', '"In", "NotIn"'),
        ),
        (
            selector(fields=[requirement("metadata.name", "In", "a", "b")]),
            "matchFields[0].values",
            'Invalid value: ["a","b"]: must have one element',
        ),
    ],
)
def test_a_malformed_selector_is_a_bad_request(written: JSONObject, field: str, detail: str) -> None:
    found = admit(CONTROLLER, slice_review(device(), nodeSelector=written), DEVICES_ON)
    text = f"failed to create node selector: nodeSelectorTerms[0].{field}: {detail}"
    assert denial(found) == (400, "BadRequest", text)


def test_an_object_that_is_not_a_slice_is_a_bad_request() -> None:
    review = slice_review(device())
    other = pod_review({"kind": "Pod", "apiVersion": "v1"})
    found = admit(
        CONTROLLER, msgspec.structs.replace(review, object_document=other.object_document), DEVICES_ON
    )
    assert denial(found) == (400, "BadRequest", "expected a ResourceSlice but got a *core.Pod")
