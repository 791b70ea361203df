"""Fields: where a field of a Pod that a workload made is written in the workload."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pratique.field_errors import Step

_OF_THE_WORKLOAD = {
    "name": ("metadata", "name"),
    "generateName": ("metadata", "name"),
    "namespace": ("metadata", "namespace"),
    "ownerReferences": ("metadata", "name"),
}
"""Metadata that no template gives, and where it comes from."""


def field_in_workload(
    path: Sequence[Step], template: Sequence[Step], volumes: Sequence[Sequence[Step]] | None = None
) -> tuple[Step, ...]:
    """Tell where a field of a Pod is written in its workload.

    Args:
        path: The field's in the Pod, such as ``("spec", "containers", 0, "image")``.
        template: The template's in the workload, such as ``("spec", "template")``.
        volumes: For each volume of the Pod, where that comes from; None where it is the one of the template.
    """
    match tuple(path):
        case ("metadata", str(name), *_) if name in _OF_THE_WORKLOAD:
            return _OF_THE_WORKLOAD[name]
        case ("spec", "volumes", int(index), *rest) if volumes is not None and 0 <= index < len(volumes):
            return (*volumes[index], *rest)
        case whole:
            return (*template, *whole)
