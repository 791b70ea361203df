"""Claims: a node reports how large a volume has become."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.controllers.node_restriction.requests import NodeRequest, Refusal, is_kind, unexpected_type
from pratique.equalities import differing_places
from pratique.reviews import Operation
from pratique.statuses import go_quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pratique.json_values import JSON, JSONObject

_KIND = "PersistentVolumeClaim"
_METADATA = ("resourceVersion", "managedFields")
_REPORTED = ("capacity", "conditions")
_EXPANSION = ("allocatedResources", "allocatedResourceStatuses")


def check(request: NodeRequest) -> Iterator[Refusal]:
    """Look at a request for a claim or a subresource of it."""
    review = request.review
    if review.subresource != "status":
        yield "may only update PVC status"
    elif review.operation is not Operation.UPDATE:
        yield f"unexpected operation {go_quoted(review.operation)}"
    else:
        for claim in (review.old_object, review.object):
            if not is_kind(claim, _KIND):
                yield unexpected_type(claim)
        yield from _check_changes(request)


def _check_changes(request: NodeRequest) -> Iterator[Refusal]:
    recovers = request.gates.recover_volume_expansion_failure
    free = (*_REPORTED, *_EXPANSION) if recovers else _REPORTED
    review = request.review
    places = differing_places(_fixed(review.old_object, free), _fixed(review.object, free))
    if places:
        allowed = "status.quantity and status.conditions"
        where = ", ".join(places)
        yield f"node {request.quoted} is not allowed to update fields other than {allowed}: {where}"


def _fixed(claim: JSONObject, free: tuple[str, ...]) -> JSONObject:
    """What of a claim has to stay as it is."""
    metadata, status = _without(claim.get("metadata"), _METADATA), _without(claim.get("status"), free)
    return claim | {"metadata": metadata, "status": status}


def _without(value: JSON, names: tuple[str, ...]) -> JSON:
    if not isinstance(value, dict):
        return value
    return {name: child for name, child in value.items() if name not in names}
