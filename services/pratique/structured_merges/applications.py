"""Applying a part of an object to it, as mutating policies do.

Source: ``k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch/smd.go`` ``ApplyStructuredMergeDiff``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.errors import PratiqueError
from pratique.structured_merges.conformity import atomics, faults
from pratique.structured_merges.elements import UnidentifiedError
from pratique.structured_merges.merging import merge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pratique.json_values import JSONObject
    from pratique.schemas import Structure


class ApplyError(PratiqueError):
    """A part of an object cannot be applied. The text is the API server's."""


def apply(kind: Structure, stored: JSONObject, part: JSONObject) -> JSONObject:
    """Apply ``part`` to an object. Neither is changed.

    Raises:
        ApplyError: the part is not of the kind, or sets something as a whole that is never merged.
    """
    typed = {"apiVersion": stored.get("apiVersion"), "kind": stored.get("kind")}
    part = part | {name: value for name, value in typed.items() if value is not None}
    if found := list(faults(kind, part)):
        raise ApplyError(f"failed to convert patch object to typed object: {_joined(found)}")
    if paths := list(atomics(kind, part)):
        listed = ", ".join(paths)
        raise ApplyError(
            f"invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {listed}"
        )
    try:
        merged: JSONObject = merge(kind, stored, part)
    except UnidentifiedError as error:
        raise ApplyError(f"failed to merge patch: {error}") from None
    return merged


def _joined(found: Sequence[str]) -> str:
    return found[0] if len(found) == 1 else "\n  ".join(["errors:", *found])
