"""Mounting ServiceAccount tokens into a Pod's containers.

Source: ``plugin/pkg/admission/serviceaccount/admission.go`` ``mountServiceAccountToken``; release 1.20 for tokens in
Secrets.
"""

from __future__ import annotations

from collections.abc import Callable

from pratique.admission.results import Edits
from pratique.apimachinery.json_values import JSONObject, member
from pratique.cluster.store import Cluster
from pratique.pods import pod_spec

MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
"""The path at which client libraries look for the token."""

_VOLUME_PREFIX = "kube-api-access-"
_EXPIRATION_SECONDS = 3607
"""An hour and 7 seconds, which distinguish an injected token from a requested one."""
_DEFAULT_MODE = 420
"""``0644``."""

_SECRET_TYPE = "kubernetes.io/service-account-token"  # noqa: S105 - the type of a Secret, not a secret
_ANNOTATION_PREFIX = "kubernetes.io/service-account."

_MOUNTING_FIELDS = ("initContainers", "containers")


def mount_bound_token(edits: Edits, generate: Callable[[str], str]) -> None:
    """Mount a token that the kubelet requests into every container; ``generate`` completes the volume's name."""
    present = [str(volume.get("name", "")) for _, _, volume in pod_spec.iter_volumes(edits.document)]
    name = next((volume_name for volume_name in present if volume_name.startswith(_VOLUME_PREFIX)), "")
    if _mount(edits, name or (name := generate(_VOLUME_PREFIX))) and name not in present:
        edits.append(("spec", "volumes"), {"name": name, "projected": _bound_token()})


def mount_secret(edits: Edits, secret: str, generate: Callable[[str], str]) -> None:
    """Mount a token Secret into every container."""
    volumes = [volume for _, _, volume in pod_spec.iter_volumes(edits.document)]
    token_volumes = (
        candidate for candidate in volumes if member(candidate, "secret", "secretName") == secret
    )
    volume = next(token_volumes, None)
    # A volume name cannot contain dots.
    name = secret.replace(".", "-") if volume is None else str(volume.get("name", ""))
    if volume is None and any(candidate.get("name") == name for candidate in volumes):
        name = generate(f"{name}-")
    if _mount(edits, name) and volume is None:
        edits.append(("spec", "volumes"), {"name": name, "secret": {"secretName": secret}})


def token_secret(account: JSONObject, cluster: Cluster) -> str:
    """The first token Secret among those that an account refers to; empty if there is none.

    An account without a uid, from a manifest, matches a Secret with any uid.
    """
    namespace = str(member(account, "metadata", "namespace") or "")
    references = account.get("secrets")
    for reference in references if isinstance(references, list) else ():
        name = str(member(reference, "name") or "")
        secret = cluster.get("", "secrets", name, namespace)
        if secret is not None and _is_token_secret_of(secret, account):
            return name
    return ""


def _is_token_secret_of(secret: JSONObject, account: JSONObject) -> bool:
    annotations = member(secret, "metadata", "annotations")
    name, uid = (member(annotations, f"{_ANNOTATION_PREFIX}{part}") for part in ("name", "uid"))
    owner = member(account, "metadata", "uid")
    return (
        secret.get("type") == _SECRET_TYPE
        and name == member(account, "metadata", "name")
        and owner in {None, "", uid}
    )


def _mount(edits: Edits, volume: str) -> bool:
    """Add a mount to every container without one at that path; False if all have one."""
    added = False
    mount = {"name": volume, "readOnly": True, "mountPath": MOUNT_PATH}
    for field, index, container in list(pod_spec.iter_containers(edits.document)):
        if field in _MOUNTING_FIELDS and not _has_mount(container):
            edits.append(("spec", field, index, "volumeMounts"), mount)
            added = True
    return added


def _has_mount(container: JSONObject) -> bool:
    mounts = container.get("volumeMounts")
    return isinstance(mounts, list) and any(member(mount, "mountPath") == MOUNT_PATH for mount in mounts)


def _bound_token() -> JSONObject:
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    authority = {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    return {
        "defaultMode": _DEFAULT_MODE,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": _EXPIRATION_SECONDS, "path": "token"}},
            {"configMap": authority},
            {"downwardAPI": {"items": [namespace]}},
        ],
    }
