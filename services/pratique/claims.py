"""PersistentVolumeClaims, as the controllers that concern them read them.

Source: ``k8s.io/component-helpers/storage/volume/helpers.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.json_values import member

if TYPE_CHECKING:
    from pratique.json_values import JSON

CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
"""Named a claim's class before there was ``spec.storageClassName``, and still takes precedence over it."""


def is_claim(document: JSON) -> bool:
    """Tell whether a document is a claim; one that does not say its kind counts as one."""
    return isinstance(document, dict) and document.get("kind", "PersistentVolumeClaim") == (
        "PersistentVolumeClaim"
    )


def class_of(claim: JSON) -> str | None:
    """The StorageClass that a claim asks for; None where it says nothing of that, empty where it wants none."""
    annotations = member(claim, "metadata", "annotations")
    if isinstance(annotations, dict) and CLASS_ANNOTATION in annotations:
        return str(annotations[CLASS_ANNOTATION] or "")
    name = member(claim, "spec", "storageClassName")
    return None if name is None else str(name)
