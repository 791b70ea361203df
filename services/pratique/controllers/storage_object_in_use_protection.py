"""StorageObjectInUseProtection: keeps volumes and claims from being deleted while they are in use.

Source: ``plugin/pkg/admission/storage/storageobjectinuseprotection/admission.go``. It only adds the finalizers; the
cluster's controllers remove them.
"""

from __future__ import annotations

import functools

import msgspec

from pratique.admission.controllers import MUTATE, Controller, Handlers
from pratique.admission.results import Answer, Edits, allow
from pratique.admission.reviews import Review
from pratique.admission.rules import rule
from pratique.apimachinery.json_values import member

_FINALIZERS = ("metadata", "finalizers")


class StorageProtectionFeatureGates(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="pascal"):
    """The feature gates of an API server that affect this controller."""

    storage_object_in_use_protection: bool = True
    """Protect claims and volumes. The gate existed from 1.9 (as ``PVCProtection``) to 1.24."""
    volume_attributes_class: bool = True
    """Also protect VolumeAttributesClasses; on by default since 1.34."""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Which release to follow where releases differ."""

    feature_gates: StorageProtectionFeatureGates = StorageProtectionFeatureGates()
    """As in the flag ``--feature-gates`` of an API server."""


def mutate(protected: dict[str, tuple[str, str]], review: Review) -> Answer:
    """Add the finalizer of the object's kind; ``protected`` holds kind and finalizer by resource."""
    kind, finalizer = protected.get(review.resource.resource, ("", ""))
    if not kind or not isinstance(review.object, dict) or review.object.get("kind", kind) != kind:
        return allow()
    finalizers = member(review.object, *_FINALIZERS)
    if isinstance(finalizers, list) and finalizer in finalizers:
        return allow()
    edits = Edits(review.object)
    edits.append(_FINALIZERS, finalizer)
    return edits.answer()


def _build(settings: Settings) -> Handlers:
    gates = settings.feature_gates
    protected: dict[str, tuple[str, str]] = {}
    if gates.storage_object_in_use_protection:
        protected["persistentvolumes"] = ("PersistentVolume", "kubernetes.io/pv-protection")
        protected["persistentvolumeclaims"] = ("PersistentVolumeClaim", "kubernetes.io/pvc-protection")
    if gates.volume_attributes_class:
        protected["volumeattributesclasses"] = ("VolumeAttributesClass", "kubernetes.io/vac-protection")
    return Handlers(mutate=functools.partial(mutate, protected))


CONTROLLER = Controller(
    name="StorageObjectInUseProtection",
    summary="Keeps claims, volumes and VolumeAttributesClasses from being removed while they are in use.",
    phases=MUTATE,
    rules=(
        rule("persistentvolumes", "persistentvolumeclaims", operations=("CREATE",)),
        rule("volumeattributesclasses", group="storage.k8s.io", operations=("CREATE",)),
    ),
    build=_build,
    settings=Settings,
    default=True,
    trusted=True,
)
