"""DefaultStorageClass: gives a claim that names no StorageClass the class marked as default.

Source: ``plugin/pkg/admission/storage/storageclass/setdefault/admission.go`` and ``pkg/volume/util/storageclass.go``
``GetDefaultClass``.
"""

from __future__ import annotations

import functools

import msgspec

from pratique.admission.controllers import MUTATE, Controller, Handlers
from pratique.admission.results import Answer, Edits, allow, deny
from pratique.admission.reviews import Review
from pratique.admission.rules import rule
from pratique.apimachinery.json_values import JSONObject, member
from pratique.apimachinery.names import creation_time_of
from pratique.pods import volumes

DEFAULT_CLASS_ANNOTATIONS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
"""The annotations that mark a default class; one of them must be ``"true"``."""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Which release to follow where releases differ."""

    refuse_several_defaults: bool = False
    """Deny every claim without a class while several classes are marked as default, as releases before 1.26 do. Later
    releases take the newest class."""


def mutate(settings: Settings, review: Review) -> Answer:
    """Set the class of a claim that names none."""
    if (
        not volumes.is_persistent_volume_claim(review.object)
        or volumes.storage_class_of(review.object) is not None
    ):
        return allow()
    defaults = [
        storage_class
        for storage_class in review.cluster.list("storage.k8s.io", "storageclasses")
        if _is_default(storage_class)
    ]
    if not defaults:
        return allow()
    if settings.refuse_several_defaults and len(defaults) > 1:
        return deny(f"Internal error occurred: {len(defaults)} default StorageClasses were found")
    edits = Edits(review.object)
    # The list is sorted by name, and max() takes the first of the newest.
    edits.set(("spec", "storageClassName"), max(defaults, key=creation_time_of)["metadata"]["name"])
    return edits.answer()


def _is_default(storage_class: JSONObject) -> bool:
    return any(
        member(storage_class, "metadata", "annotations", mark) == "true" for mark in DEFAULT_CLASS_ANNOTATIONS
    )


def _build(settings: Settings) -> Handlers:
    return Handlers(mutate=functools.partial(mutate, settings))


CONTROLLER = Controller(
    name="DefaultStorageClass",
    summary="Gives a claim that names no StorageClass the default one.",
    phases=MUTATE,
    rules=(rule("persistentvolumeclaims", operations=("CREATE",)),),
    build=_build,
    settings=Settings,
    default=True,
    looks_up=("storageclasses",),
    trusted=True,
)
