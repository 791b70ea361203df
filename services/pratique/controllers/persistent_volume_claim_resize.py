"""PersistentVolumeClaimResize: a claim may grow only if its StorageClass allows expansion.

Source: ``plugin/pkg/admission/storage/persistentvolume/resize/admission.go``.
"""

from __future__ import annotations

import functools

import msgspec

from pratique.admission.controllers import VALIDATE, Controller, Handlers
from pratique.admission.results import Answer, allow, deny
from pratique.admission.reviews import Review
from pratique.admission.rules import rule
from pratique.apimachinery.field_errors import FieldPath
from pratique.apimachinery.json_values import JSON, member
from pratique.apimachinery.quantities import Quantity
from pratique.pods.resource_requirements import read_resource_list
from pratique.pods.volumes import is_persistent_volume_claim, storage_class_of

NOT_BOUND = "Only bound persistent volume claims can be expanded"
NOT_EXPANDABLE = (
    "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must"
    " support resize"
)
NO_VOLUME = "Error updating persistent volume claim because fetching associated persistent volume failed"
UNSUPPORTED_VOLUME = "volume plugin does not support resize"

RESIZABLE_SOURCES = frozenset(
    {
        "glusterfs",
        "cinder",
        "rbd",
        "portworxVolume",
        "gcePersistentDisk",
        "awsElasticBlockStore",
        "azureFile",
        "flexVolume",
    }
)
"""The volume sources that 1.11's plugins can resize."""

_REQUESTS = ("spec", "resources", "requests")


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Which release to follow where releases differ."""

    check_volume_plugin: bool = False
    """Also require a volume whose plugin can resize it, as releases from 1.8 to 1.11 do."""


def validate(settings: Settings, review: Review) -> Answer:
    """Deny the growth of a claim that cannot be resized. The API server's validation denies shrinking."""
    new, old = review.object, review.old_object
    if (
        not is_persistent_volume_claim(new)
        or not is_persistent_volume_claim(old)
        or _requested_size(new).compare(_requested_size(old)) <= 0
    ):
        return allow()
    if member(old, "status", "phase") != "Bound":
        return deny(NOT_BOUND)
    if not _is_expandable(review):
        return deny(NOT_EXPANDABLE)
    return _check_volume(review) if settings.check_volume_plugin else allow()


def _requested_size(claim: JSON) -> Quantity:
    """What a claim requests; zero if it requests nothing."""
    storage = member(claim, *_REQUESTS, "storage")
    return read_resource_list({"storage": storage}, FieldPath(_REQUESTS))["storage"]


def _is_expandable(review: Review) -> bool:
    new, old = storage_class_of(review.object), storage_class_of(review.old_object)
    if not new or new != old:
        return False
    storage_class = review.cluster.get("storage.k8s.io", "storageclasses", new)
    return member(storage_class, "allowVolumeExpansion") is True


def _check_volume(review: Review) -> Answer:
    name = member(review.object, "spec", "volumeName") or ""
    volume = review.cluster.get("", "persistentvolumes", str(name))
    if volume is None:
        return deny(NO_VOLUME)
    spec = member(volume, "spec")
    sources = (
        {source for source, value in spec.items() if value is not None} if isinstance(spec, dict) else ()
    )
    return deny(UNSUPPORTED_VOLUME) if RESIZABLE_SOURCES.isdisjoint(sources) else allow()


def _build(settings: Settings) -> Handlers:
    return Handlers(validate=functools.partial(validate, settings))


CONTROLLER = Controller(
    name="PersistentVolumeClaimResize",
    summary="Lets a claim grow only if it is bound and its StorageClass allows expansion.",
    phases=VALIDATE,
    rules=(rule("persistentvolumeclaims", operations=("UPDATE",)),),
    build=_build,
    settings=Settings,
    default=True,
    looks_up=("storageclasses", "persistentvolumes"),
    trusted=True,
)
