"""PersistentVolumeClaims: how many there are and what they request, as a whole and of each StorageClass.

Source: ``pkg/quota/v1/evaluator/core/persistent_volume_claims.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.claims import class_of, is_claim
from pratique.demands import read_list
from pratique.field_errors import FieldPath
from pratique.json_values import member
from pratique.quotas.evaluators import Evaluator
from pratique.quotas.object_counts import count_name
from pratique.quotas.resource_lists import ONE
from pratique.quotas.scopes import VOLUME_ATTRIBUTES_CLASS, ScopeRequirement, selects
from pratique.reviews import Operation, Review

if TYPE_CHECKING:
    from pratique.demands import ResourceList
    from pratique.json_values import JSON
    from pratique.quantities import Quantity

_COUNT = count_name("", "persistentvolumeclaims")
_CLAIMS = "persistentvolumeclaims"
_STORAGE = "requests.storage"
_OF_CLASS = ".storageclass.storage.k8s.io/"
"""Between the name of a StorageClass and what of it is limited."""

_CLASS_PLACES = (
    ("spec", "volumeAttributesClassName"),
    ("status", "currentVolumeAttributesClassName"),
    ("status", "modifyVolumeStatus", "targetVolumeAttributesClassName"),
)
"""Where a claim names VolumeAttributesClasses: what it wants, what it has, what it is on its way to."""


def usage(claim: JSON) -> ResourceList:
    """What a claim uses, whole bytes of storage.

    Raises:
        RefusalError: an amount is no quantity; 400.
    """
    used = {_CLAIMS: ONE, _COUNT: ONE}
    storage = _storage(claim)
    if storage is not None:
        used[_STORAGE] = storage
    storage_class = class_of(claim)
    if storage_class:
        used[f"{storage_class}{_OF_CLASS}{_CLAIMS}"] = ONE
        if storage is not None:
            used[f"{storage_class}{_OF_CLASS}{_STORAGE}"] = storage
    return used


def _storage(claim: JSON) -> Quantity | None:
    """What a claim requests, or what has been allocated already where that is more."""
    requested = _amount(claim, "spec", "resources", "requests")
    allocated = _amount(claim, "status", "allocatedResources")
    if requested is None or allocated is None or allocated.compare(requested) <= 0:
        return requested
    return allocated


def _amount(claim: JSON, *place: str) -> Quantity | None:
    storage = read_list(member(claim, *place), FieldPath(place)).get("storage")
    return None if storage is None else storage.rounded_up(0)


def measures(name: str) -> bool:
    """Tell whether a quota's resource is used by claims."""
    return name in {_COUNT, _CLAIMS, _STORAGE} or name.endswith(
        (f"{_OF_CLASS}{_CLAIMS}", f"{_OF_CLASS}{_STORAGE}")
    )


def fits(scope: ScopeRequirement, claim: JSON) -> bool:
    """Tell whether a claim is of a scope; claims have one, that of their VolumeAttributesClasses."""
    if scope.scope_name != VOLUME_ATTRIBUTES_CLASS:
        return False
    named = (member(claim, *place) for place in _CLASS_PLACES)
    return selects(scope, [str(name) for name in named if name])


def _is_charged(review: Review) -> bool:
    """Tell of updates, too, because claims grow, and of their status, where that shows first."""
    if review.subresource == "status":
        return is_claim(review.object) and is_claim(review.old_object)
    return not review.subresource and review.operation in {Operation.CREATE, Operation.UPDATE}


EVALUATOR = Evaluator(
    group="",
    resource="persistentvolumeclaims",
    is_charged=_is_charged,
    is_kind=is_claim,
    measures=measures,
    usage=usage,
    fits=fits,
)
