"""LimitRanges: their defaults for containers, and their limits.

Source: ``plugin/pkg/admission/limitranger/admission.go``, and ``pkg/apis/core/v1/defaults.go``
``SetDefaults_LimitRangeItem``.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from pratique.apimachinery.field_errors import FieldPath
from pratique.apimachinery.json_values import JSON, JSONObject, member
from pratique.apimachinery.quantities import Quantity
from pratique.pods.resource_requirements import ResourceList, ResourceRequirements, read_resource_list

CONTAINER = "Container"
POD = "Pod"
CLAIM = "PersistentVolumeClaim"

_MILLION = 10**6
"""A ratio prints with six decimals, as Go's ``%f``."""


class LimitRangeBounds(msgspec.Struct, frozen=True):
    """The limits of one item of a LimitRange."""

    type: str
    """``Container``, ``Pod`` or ``PersistentVolumeClaim``."""
    minimum: ResourceList
    maximum: ResourceList
    ratio: ResourceList
    """The maximum ratio of limit to request."""


def container_defaults(limit_range: JSONObject, *, filled: bool) -> ResourceRequirements:
    """The default requests and limits of containers. The last item that names a resource wins.

    Args:
        limit_range: The LimitRange.
        filled: Fill in every item's defaults first, as an API server does when it stores one: a missing ``default`` is
            the ``max``, a missing ``defaultRequest`` is the ``default``, else the ``min``.

    Raises:
        RefusalError: an amount is not a quantity.
    """
    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}
    for item, path in _items(limit_range, CONTAINER):
        default, default_request = _list(item, path, "default"), _list(item, path, "defaultRequest")
        if filled:
            default = {**_list(item, path, "max"), **default}
            default_request = {**_list(item, path, "min"), **default, **default_request}
        requests |= default_request
        limits |= default
    return ResourceRequirements(requests, limits)


def bounds_of(limit_range: JSONObject, *types: str) -> Iterator[LimitRangeBounds]:
    """The limits of a LimitRange for some types, in the order of its items.

    Raises:
        RefusalError: an amount is not a quantity.
    """
    for item, path in _items(limit_range, *types):
        yield LimitRangeBounds(
            item["type"],
            _list(item, path, "min"),
            _list(item, path, "max"),
            _list(item, path, "maxLimitRequestRatio"),
        )


def limit_violations(bounds: LimitRangeBounds, resources: ResourceRequirements) -> Iterator[str]:
    """The violations of the limits, resource by resource: minimum, maximum, then the ratio of limit to request."""
    for name, bound in sorted(bounds.minimum.items()):
        yield from _minimum_violations(_usage("minimum", name, bounds.type, bound), name, bound, resources)
    for name, bound in sorted(bounds.maximum.items()):
        usage = _usage("maximum", name, bounds.type, bound)
        if bounds.type == CLAIM:
            yield from _claim_violations(usage, name, bound, resources)
        else:
            yield from _maximum_violations(usage, name, bound, resources)
    # A claim's limits are ignored.
    for name, bound in sorted(bounds.ratio.items()) if bounds.type != CLAIM else ():
        text = f"{name} max limit to request ratio per {bounds.type} is {bound}"
        yield from _ratio_violations(text, name, bound, resources)


def _usage(which: str, name: str, what: str, bound: Quantity) -> str:
    return f"{which} {name} usage per {what} is {bound}"


def _minimum_violations(
    usage: str, name: str, bound: Quantity, resources: ResourceRequirements
) -> Iterator[str]:
    request, limit = resources.requests.get(name), resources.limits.get(name)
    if request is None:
        yield f"{usage}.  No request is specified"
    elif request.compare(bound) < 0:
        yield f"{usage}, but request is {request}"
    elif limit is not None and limit.compare(bound) < 0:
        yield f"{usage}, but limit is {limit}"


def _maximum_violations(
    usage: str, name: str, bound: Quantity, resources: ResourceRequirements
) -> Iterator[str]:
    request, limit = resources.requests.get(name), resources.limits.get(name)
    if limit is None:
        yield f"{usage}.  No limit is specified"
    elif limit.compare(bound) > 0:
        yield f"{usage}, but limit is {limit}"
    elif request is not None and request.compare(bound) > 0:
        yield f"{usage}, but request is {request}"


def _claim_violations(
    usage: str, name: str, bound: Quantity, resources: ResourceRequirements
) -> Iterator[str]:
    request = resources.requests.get(name)
    if request is None:
        yield f"{usage}.  No request is specified"
    elif request.compare(bound) > 0:
        yield f"{usage}, but request is {request}"


def _ratio_violations(
    text: str, name: str, bound: Quantity, resources: ResourceRequirements
) -> Iterator[str]:
    request, limit = resources.requests.get(name), resources.limits.get(name)
    if request is None or not request.sign:
        yield f"{text}, but no request is specified or request is 0"
    elif limit is None or not limit.sign:
        yield f"{text}, but no limit is specified or limit is 0"
    else:
        # In thousandths all three are integers.
        asked, most, allowed = (abs(amount.ceiling(-3)) for amount in (request, limit, bound))
        if most * 1000 > asked * allowed:
            yield f"{text}, but provided ratio is {_six_decimals(most, asked)}"


def _six_decimals(number: int, divisor: int) -> str:
    """Divide, round half to even, and write the result with six decimals."""
    quotient, rest = divmod(number * _MILLION, divisor)
    quotient += rest * 2 > divisor or (rest * 2 == divisor and quotient % 2 == 1)
    return f"{quotient // _MILLION}.{quotient % _MILLION:06}"


def _items(limit_range: JSONObject, *types: str) -> Iterator[tuple[JSONObject, FieldPath]]:
    items = member(limit_range, "spec", "limits")
    for index, item in enumerate(items if isinstance(items, list) else ()):
        if member(item, "type") in types:
            yield item, FieldPath(("spec", "limits", index))


def _list(item: JSON, path: FieldPath, name: str) -> ResourceList:
    return read_resource_list(item.get(name), path / name)
