"""What a Pod holds: its containers, its volumes, and the API objects it refers to.

Source: ``pkg/api/pod/util.go`` ``VisitPodSecretNames``, ``VisitPodConfigmapNames``, ``HasAPIObjectReference``.
"""

from __future__ import annotations

from collections.abc import Iterator

from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import JSON, JSONObject, list_at, member

CONTAINER_FIELDS = ("initContainers", "containers", "ephemeralContainers")
"""The fields of a Pod's spec that hold containers, in Kubernetes' order.

Source: ``pkg/apis/core/pods/helpers.go`` ``VisitContainersWithPath``.
"""

MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
"""The annotation of mirror Pods, which a kubelet creates to represent the static Pods that it runs."""

NOT_A_POD = "Resource was marked with kind Pod but was unable to be converted"
"""The message, with code 400, of most controllers for an object under ``pods`` that is not a Pod."""


def is_pod(document: JSON) -> bool:
    """Tell whether an object is a Pod; an object without a kind counts as one."""
    return isinstance(document, dict) and document.get("kind", "Pod") == "Pod"


def is_pod_review(review: Review) -> bool:
    """Tell whether a review is of a Pod itself, not of a subresource."""
    return review.concerns("", "pods")


def iter_containers(pod: JSONObject) -> Iterator[tuple[str, int, JSONObject]]:
    """All containers, each with its field of ``spec`` and its index."""
    for field in CONTAINER_FIELDS:
        yield from _iter_items(pod, field)


def iter_volumes(pod: JSONObject) -> Iterator[tuple[str, int, JSONObject]]:
    """All volumes, each with its field of ``spec`` and its index."""
    yield from _iter_items(pod, "volumes")


def _iter_items(pod: JSONObject, field: str) -> Iterator[tuple[str, int, JSONObject]]:
    items = member(pod, "spec", field)
    if isinstance(items, list):
        for index, item in enumerate(items):
            if isinstance(item, dict):
                yield field, index, item


"""Marks a Pod that shows one which a node runs of its own accord."""

_VOLUME_SECRETS = (
    ("azureFile", "secretName"),
    ("cephfs", "secretRef", "name"),
    ("cinder", "secretRef", "name"),
    ("flexVolume", "secretRef", "name"),
    ("rbd", "secretRef", "name"),
    ("secret", "secretName"),
    ("scaleIO", "secretRef", "name"),
    ("iscsi", "secretRef", "name"),
    ("storageos", "secretRef", "name"),
    ("csi", "nodePublishSecretRef", "name"),
)

_REFERRING_VOLUMES = {
    "configMap": "configmaps (via configmap volumes)",
    "secret": "secrets (via secret volumes)",
    "csi": "csidrivers (via CSI volumes)",
    "glusterfs": "endpoints (via glusterFS volumes)",
    "persistentVolumeClaim": "persistentvolumeclaims",
    "ephemeral": "persistentvolumeclaims (via ephemeral volumes)",
    "azureFile": "secrets (via azureFile volumes)",
}
_REFERRING_SOURCES = {
    "configMap": "configmaps (via projected volumes)",
    "secret": "secrets (via projected volumes)",
    "serviceAccountToken": "serviceaccounts (via projected volumes)",
    "clusterTrustBundle": "clustertrustbundles",
    "podCertificate": "podcertificates",
}


def is_mirror(pod: JSON) -> bool:
    """Tell whether a Pod is a mirror Pod."""
    annotations = member(pod, "metadata", "annotations")
    return isinstance(annotations, dict) and MIRROR_ANNOTATION in annotations


def service_account_name(pod: JSON) -> str:
    """The ServiceAccount of a Pod, from ``serviceAccountName`` or its deprecated alias; empty if there is none."""
    spec = member(pod, "spec")
    return str(member(spec, "serviceAccountName") or member(spec, "serviceAccount") or "")


APP_ARMOR_ANNOTATION = "container.apparmor.security.beta.kubernetes.io/"
"""The beginning of the annotation that named a container's AppArmor profile; the container's name follows."""


def has_app_armor_annotation(pod: JSON) -> bool:
    """Tell whether an annotation names the AppArmor profile of a container."""
    annotations = member(pod, "metadata", "annotations")
    return isinstance(annotations, dict) and any(key.startswith(APP_ARMOR_ANNOTATION) for key in annotations)


def secret_names(pod: JSONObject) -> Iterator[str]:
    """The Secrets that a Pod refers to."""
    for reference in list_at(pod, "spec", "imagePullSecrets"):
        yield from _iter_name(reference, "name")
    yield from _container_references(pod, "secretRef", "secretKeyRef")
    for _, _, volume in iter_volumes(pod):
        for steps in _VOLUME_SECRETS:
            yield from _iter_name(volume, *steps)
        for source in projections(volume):
            yield from _iter_name(source, "secret", "name")


def config_map_names(pod: JSONObject) -> Iterator[str]:
    """The ConfigMaps that a Pod refers to."""
    yield from _container_references(pod, "configMapRef", "configMapKeyRef")
    for _, _, volume in iter_volumes(pod):
        yield from _iter_name(volume, "configMap", "name")
        for source in projections(volume):
            yield from _iter_name(source, "configMap", "name")


def projections(volume: JSONObject) -> Iterator[JSONObject]:
    """The sources of a projected volume; none for other volumes."""
    return (source for source in list_at(volume, "projected", "sources") if isinstance(source, dict))


def first_reference(pod: JSONObject) -> str:
    """The resource of the first object that a Pod refers to, as messages name it; empty if there is none."""
    if service_account_name(pod):
        return "serviceaccounts"
    if any(secret_names(pod)):
        return "secrets"
    if any(config_map_names(pod)):
        return "configmaps"
    if list_at(pod, "spec", "resourceClaims"):
        return "resourceclaims"
    return next((found for _, _, volume in iter_volumes(pod) if (found := _volume_reference(volume))), "")


def _volume_reference(volume: JSONObject) -> str:
    for field, resource in _REFERRING_VOLUMES.items():
        if volume.get(field) is not None:
            return resource
    for source in projections(volume):
        for field, resource in _REFERRING_SOURCES.items():
            if source.get(field) is not None:
                return resource
    return ""


def _container_references(pod: JSONObject, all_of: str, one_of: str) -> Iterator[str]:
    for _, _, container in iter_containers(pod):
        for source in list_at(container, "envFrom"):
            yield from _iter_name(source, all_of, "name")
        for variable in list_at(container, "env"):
            yield from _iter_name(variable, "valueFrom", one_of, "name")


def _iter_name(value: JSON, *steps: str) -> Iterator[str]:
    name = member(value, *steps)
    if isinstance(name, str) and name:
        yield name
