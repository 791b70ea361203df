"""ResourceClaims: how many there are, and how many devices of each class they may be given.

Source: ``pkg/quota/v1/evaluator/core/resource_claims.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.json_values import member
from pratique.quantities import Quantity
from pratique.quotas.evaluators import Evaluator
from pratique.quotas.object_counts import count_name
from pratique.quotas.resource_lists import ONE, add
from pratique.reviews import Operation, Review

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pratique.demands import ResourceList
    from pratique.json_values import JSON

_GROUP = "resource.k8s.io"
_COUNT = count_name(_GROUP, "resourceclaims")
_DEVICES = ".deviceclass.resource.k8s.io/devices"

_MOST_DEVICES = 32
"""As many devices a claim can be given at most: ``AllocationResultsMaxSize`` of ``k8s.io/api/resource/v1``."""


def usage(claim: JSON) -> ResourceList:
    """What a claim uses, at worst: one of several alternatives is the one that takes most of each class."""
    used: ResourceList = {_COUNT: ONE}
    for request in _list(member(claim, "spec", "devices", "requests")):
        most: dict[str, Quantity] = {}
        for name, devices in _alternatives(request):
            most[name] = max(most.get(name, devices), devices, key=lambda amount: amount.number)
        used = add(used, most)
    return used


def _alternatives(request: JSON) -> Iterator[tuple[str, Quantity]]:
    # Before v1beta2, a request held what stands below ``exactly`` since.
    exact = member(request, "exactly") or request
    for one in _list(member(request, "firstAvailable")) or [exact]:
        name = member(one, "deviceClassName")
        if name:
            yield f"{name}{_DEVICES}", Quantity(_devices(one))


def _devices(request: JSON) -> int:
    """The number of devices; an API server fills in one where neither mode nor count is given."""
    mode = member(request, "allocationMode") or "ExactCount"
    if mode == "All":
        return _MOST_DEVICES
    count = member(request, "count")
    return (count if isinstance(count, int) and count else 1) if mode == "ExactCount" else 0


def _list(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else []


def _is_charged(review: Review) -> bool:
    return not review.subresource and review.operation in {Operation.CREATE, Operation.UPDATE}


def _is_claim(document: JSON) -> bool:
    return isinstance(document, dict) and document.get("kind", "ResourceClaim") == "ResourceClaim"


EVALUATOR = Evaluator(
    group=_GROUP,
    resource="resourceclaims",
    is_charged=_is_charged,
    is_kind=_is_claim,
    measures=lambda name: name == _COUNT or name.endswith(_DEVICES),
    usage=usage,
)
