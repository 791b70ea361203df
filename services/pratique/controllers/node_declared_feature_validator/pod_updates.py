"""Which features the update of a Pod needs, and whether its node has declared them.

Sources: ``validatePod`` of ``plugin/pkg/admission/nodedeclaredfeatures/admission.go``, and ``InferForUpdate`` of the
features in ``k8s.io/component-helpers/nodedeclaredfeatures/features``.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

from pratique.admission.results import Answer, allow, deny
from pratique.admission.reviews import Review
from pratique.apimachinery import statuses
from pratique.apimachinery.diff import semantically_equal
from pratique.apimachinery.field_errors import FieldPath
from pratique.apimachinery.go_formats import go_type
from pratique.apimachinery.json_values import JSON, JSONObject, list_at, mapping_at, member
from pratique.apimachinery.statuses import go_quoted
from pratique.pods import pod_spec
from pratique.pods.resource_requirements import read_requirements, read_resource_list

POD_LEVEL_RESOURCES = "InPlacePodLevelResourcesVerticalScaling"
INIT_CONTAINERS = "InPlacePodVerticalScalingInitContainers"
MEMORY_BACKED_VOLUMES = "InPlacePodVerticalScalingMemoryBackedVolumes"
"""The features that an update can need. The others of 1.37 concern fields that no update can change."""


def validate_pod_update(review: Review) -> Answer:
    """Deny an update that needs a feature which the Pod's node has not declared.

    Kubernetes first asks whether the generation differs, which it does if and only if the specifications differ.
    A review before that point, or of another API, has one generation, so here only the specifications decide.
    """
    pod, old = review.object, review.old_object
    if not pod_spec.is_pod(pod):
        return deny(status=statuses.bad_request(f"expected a pod but got a {go_type(pod)}"))
    node_name = member(pod, "spec", "nodeName")
    if not isinstance(node_name, str) or not node_name:
        return allow()
    if not pod_spec.is_pod(old):
        return deny(status=statuses.bad_request(f"expected an old pod but got a {go_type(old)}"))
    required = list(required_features(mapping_at(old, "spec"), mapping_at(pod, "spec")))
    return _match_node(review, node_name, required) if required else allow()


def _match_node(review: Review, node_name: str, required: list[str]) -> Answer:
    node = review.cluster.get("", "nodes", node_name)
    if node is None:
        return deny(f"node {go_quoted(node_name)} not found")
    declared = list_at(node, "status", "declaredFeatures")
    missing = ", ".join(feature for feature in required if feature not in declared)
    if not missing:
        return allow()
    return deny(
        f"pod update requires features {missing} which are not available on node {go_quoted(node_name)}"
    )


def required_features(old: JSONObject, new: JSONObject) -> Iterator[str]:
    """The features that the change from one specification of a Pod to another needs, sorted.

    Raises:
        RefusalError: an amount is not a quantity; 400.
    """
    if _resizes_pod(old, new):
        yield POD_LEVEL_RESOURCES
    if _resizes_init_container(old, new):
        yield INIT_CONTAINERS
    if _resizes_memory_volume(old, new):
        yield MEMORY_BACKED_VOLUMES


def _resizes_pod(old: JSONObject, new: JSONObject) -> bool:
    path = FieldPath(("spec", "resources"))
    before, after = old.get("resources"), new.get("resources")
    if before is None or after is None:
        return (before is None) != (after is None)
    changed = read_requirements(before, path) != read_requirements(after, path)
    return changed or not semantically_equal(member(before, "claims"), member(after, "claims"))


def _resizes_init_container(old: JSONObject, new: JSONObject) -> bool:
    """Whether the resources of an init container that is no sidecar differ, in amount or in notation.

    Kubernetes compares with ``reflect.DeepEqual``: ``1`` and ``1000m`` differ, once anything else in the Pod does.
    """
    pairs = zip_longest(list_at(old, "initContainers"), list_at(new, "initContainers"))
    if all(
        before is None or _is_sidecar(before) or _spelled(before) == _spelled(after)
        for before, after in pairs
    ):
        return False
    return not semantically_equal(_with_amounts(old), _with_amounts(new))


def _is_sidecar(container: JSON) -> bool:
    return bool(member(container, "restartPolicy") == "Always")


def _spelled(container: JSON) -> JSON:
    """The resources of a container as they are written; numbers count as their texts."""
    resources = mapping_at(container, "resources")
    amounts = {
        field: {name: str(amount) for name, amount in mapping_at(resources, field).items()}
        for field in ("limits", "requests")
    }
    return {**amounts, "claims": list_at(resources, "claims")}


def _with_amounts(spec: JSONObject) -> JSONObject:
    """A specification in which all containers have their resources in one notation."""
    changed = {field: _containers_with_amounts(spec, field) for field in pod_spec.CONTAINER_FIELDS}
    return {**spec, **changed}


def _containers_with_amounts(spec: JSONObject, field: str) -> list[JSON]:
    containers: list[JSON] = []
    for index, container in enumerate(list_at(spec, field)):
        path = FieldPath(("spec", field, index, "resources"))
        requirements = read_requirements(member(container, "resources"), path)
        resources: JSONObject = {
            **mapping_at(container, "resources"),
            "requests": {name: str(amount) for name, amount in requirements.requests.items()},
            "limits": {name: str(amount) for name, amount in requirements.limits.items()},
        }
        containers.append({**container, "resources": resources} if isinstance(container, dict) else container)
    return containers


def _resizes_memory_volume(old: JSONObject, new: JSONObject) -> bool:
    """Whether a volume in memory has another size. Other changes of volumes are for validation to refuse."""
    before, after = list_at(old, "volumes"), list_at(new, "volumes")
    if len(before) != len(after):
        return False
    return any(
        _resizes_volume(first, second, FieldPath(("spec", "volumes", index, "emptyDir")))
        for index, (first, second) in enumerate(zip(before, after, strict=True))
    )


def _resizes_volume(old: JSON, new: JSON, path: FieldPath) -> bool:
    is_same = member(old, "name") == member(new, "name")
    if not is_same or member(new, "emptyDir", "medium") != "Memory":
        return False
    sizes = [member(volume, "emptyDir", "sizeLimit") for volume in (old, new)]
    if None in sizes:
        return False
    first, second = (read_resource_list({"sizeLimit": size}, path) for size in sizes)
    return first != second
