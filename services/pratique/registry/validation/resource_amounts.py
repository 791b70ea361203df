"""Names and amounts of resources: of containers, quotas and claims.

Sources: ``validateResourceName``, ``ValidateResourceQuantityValue`` and ``validateResourceRequirements`` of
``pkg/apis/core/validation/validation.go``, ``pkg/apis/core/helper/helpers.go``, and
``k8s.io/apimachinery/pkg/api/resource/{quantity,scale_int,math}.go``.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeAlias

import msgspec

from pratique.apimachinery import names
from pratique.apimachinery.field_errors import (
    FieldError,
    FieldPath,
    duplicate,
    forbidden,
    invalid,
    json_text,
    not_found,
    required,
)
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.apimachinery.quantities import (
    Quantity,
    QuantityError,
    is_extended_resource,
    is_native_resource,
)

ResourceNameRule: TypeAlias = Callable[[str, FieldPath], list[FieldError]]
"""Validates the name of a resource at a path."""

_HUGE_PAGES = "hugepages-"
_STANDARD = frozenset(
    {
        "cpu", "memory", "ephemeral-storage", "requests.cpu", "requests.memory", "requests.ephemeral-storage",
        "limits.cpu", "limits.memory", "limits.ephemeral-storage", "pods", "resourcequotas", "services",
        "replicationcontrollers", "secrets", "persistentvolumeclaims", "configmaps", "storage",
        "requests.storage", "services.nodeports", "services.loadbalancers",
    }
)  # fmt: skip
_OF_CONTAINERS = frozenset({"cpu", "memory", "ephemeral-storage"})
_INTEGERS = frozenset(
    {
        "pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps",
        "persistentvolumeclaims", "services.nodeports", "services.loadbalancers",
    }
)  # fmt: skip


def is_huge_page(name: str) -> bool:
    """Tell whether a resource is huge pages of some size."""
    return name.startswith(_HUGE_PAGES)


def is_quota_huge_page(name: str) -> bool:
    """Tell whether a resource is huge pages, or requests for them in a quota: ``IsQuotaHugePageResourceName``."""
    return name.startswith((_HUGE_PAGES, f"requests.{_HUGE_PAGES}"))


def is_overcommit_allowed(name: str) -> bool:
    """Tell whether requests of a resource may be below its limits: ``IsOvercommitAllowed``."""
    return is_native_resource(name) and not is_huge_page(name)


def validate_resource_name(name: str, path: FieldPath) -> list[FieldError]:
    """Validate the name of a resource: ``validateResourceName``."""
    errors = [invalid(path, json_text(name), message) for message in names.check_qualified_name(name)]
    if not errors and "/" not in name and name not in _STANDARD and not is_quota_huge_page(name):
        errors.append(invalid(path, json_text(name), "must be a standard resource type or fully qualified"))
    return errors


def validate_container_resource_name(name: str, path: FieldPath) -> list[FieldError]:
    """Validate the name of a resource of a container: ``ValidateContainerResourceName``."""
    if name in _OF_CONTAINERS:
        return []
    errors = validate_resource_name(name, path)
    if "/" not in name:
        if not is_huge_page(name):
            errors.append(invalid(path, json_text(name), "must be a standard resource for containers"))
    elif not is_native_resource(name) and not is_extended_resource(name):
        errors.append(invalid(path, json_text(name), "doesn't follow extended resource name standard"))
    return errors


def go_int64(quantity: Quantity, scale: int = 0) -> int:
    """An amount of a resource list in units of ``10**scale`` as Go computes it: ``ScaledValue``.

    What is too large overflows. Quantities that Go holds as decimals are in thousandths, because the defaults of
    resource lists round them up.

    Args:
        quantity: The amount.
        scale: 0 for units, -3 for thousandths.
    """
    if not quantity.is_big:
        return _go_product(quantity, scale) if quantity.scale >= scale else quantity.ceiling(scale)
    thousandths = quantity.ceiling(_MILLI)
    if scale == _MILLI:
        return _wrapped(thousandths)
    if thousandths >= _MAXIMUM_INT64:
        return _wrapped(-(-thousandths // 1000))
    cut = _wrapped(thousandths)
    return abs(cut) // 1000 * (-1 if cut < 0 else 1) + bool(cut % 1000)


_MILLI = -3
_MAXIMUM_INT64 = 2**63 - 1
_AT_ONCE = frozenset({0, 1, 2, 3, 6, 9})
"""The powers of ten by which Go multiplies in one step, so that what overflows is left over."""


def _go_product(quantity: Quantity, scale: int) -> int:
    """Multiply an int64 by a power of ten: ``positiveScaleInt64``."""
    exact, cut = quantity.ceiling(scale), _wrapped(quantity.ceiling(scale))
    return cut if exact == cut or quantity.scale - scale in _AT_ONCE else 0


def _wrapped(number: int) -> int:
    """A number as the int64 that it overflows to."""
    return (number + _MAXIMUM_INT64 + 1) % 2**64 - _MAXIMUM_INT64 - 1


def is_fractional(quantity: Quantity) -> bool:
    """Tell whether Go takes an amount for no integer, as it does some that overflow in thousandths, such as ``1Ei``."""
    return go_int64(quantity, _MILLI) % 1000 != 0


def validate_amount(name: str, value: JSON, path: FieldPath) -> list[FieldError]:
    """Validate the amount of a resource: ``ValidateResourceQuantityValue``."""
    quantity = Quantity.from_json(value)
    errors = []
    if quantity.sign < 0:
        errors.append(invalid(path, str(quantity), "must be greater than or equal to 0"))
    is_integer = name in _INTEGERS or is_extended_resource(name)
    if is_integer and is_fractional(quantity):
        errors.append(invalid(path, str(quantity), "must be an integer"))
    return errors


def validate_positive_amount(value: JSON, path: FieldPath) -> list[FieldError]:
    """Refuse amounts of nothing and less: ``ValidatePositiveQuantityValue``."""
    quantity = Quantity.from_json(value)
    return [] if quantity.sign > 0 else [invalid(path, str(quantity), "must be greater than zero")]


def validate_requirements(
    resources: JSONObject,
    path: FieldPath,
    *,
    name_rule: ResourceNameRule = validate_container_resource_name,
    claim_names: AbstractSet[str] = frozenset(),
    indivisible_huge_pages: bool = False,
) -> list[FieldError]:
    """Validate requests, limits and claims: ``validateResourceRequirements``.

    Args:
        resources: Requests and limits, and claims by name.
        path: The path to them.
        name_rule: What the names of resources look like.
        claim_names: The names of the Pod's claims.
        indivisible_huge_pages: Whether amounts of huge pages may be no multiples of a page.
    """
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    errors = []
    uses_huge_pages = False
    for kind, amounts in (("limits", limits), ("requests", requests)):
        for name, value in sorted(amounts.items()):
            place = (path / kind).key(name)
            errors += name_rule(name, place)
            errors += validate_amount(name, value, place)
            if kind == "requests":
                errors += _validate_request(name, value, limits, path)
            if is_huge_page(name):
                uses_huge_pages = True
                errors += [] if indivisible_huge_pages else validate_huge_pages(name, value, place)
    if uses_huge_pages and (limits.keys() | requests.keys()).isdisjoint(("cpu", "memory")):
        errors.append(forbidden(path, "HugePages require cpu or memory"))
    if claims := resources.get("claims"):
        errors += _validate_claims(claims, claim_names, path / "claims")
    return errors


def validate_huge_pages(name: str, value: JSON, path: FieldPath) -> list[FieldError]:
    """Refuse amounts of huge pages that are no multiples of a page: ``IsHugePageResourceValueDivisible``."""
    quantity = Quantity.from_json(value)
    try:
        page = Quantity.parse(name.removeprefix(_HUGE_PAGES))
    except QuantityError:
        page = Quantity.from_json(None)
    size = page.ceiling(0)
    if page.sign > 0 and page.ceiling(-3) % 1000 == 0 and go_int64(quantity) % size == 0:
        return []
    return [invalid(path, str(quantity), f"{quantity} is not positive integer multiple of {name}")]


def _validate_claims(
    claims: Sequence[JSONObject], claim_names: AbstractSet[str], path: FieldPath
) -> list[FieldError]:
    """Validate which of the Pod's claims a container uses: ``validateResourceClaimNames``."""
    errors: list[FieldError] = []
    found: set[str] = set()
    requests: collections.Counter[str] = collections.Counter()
    for index, claim in enumerate(claims):
        place, name, request = path / index, claim.get("name", ""), claim.get("request", "")
        if not name:
            errors.append(required(place))
            continue
        key = f"{name}/{request}" if request else name
        if name in found:
            errors.append(duplicate(place, name))
        else:
            messages = names.check_dns1123_label(request) if request else ()
            errors += [invalid(place / "request", request, message) for message in messages]
            if key in found:
                errors.append(duplicate(place, key))
            elif not request:
                errors += [duplicate(place, name)] * requests[name]
            requests[name] += key not in found and bool(request)
            found.add(key)
        if name not in claim_names:
            which = f": {', '.join(sorted(claim_names))}" if claim_names else " which is empty"
            detail = f"must be one of the names in pod.spec.resourceClaims{which}"
            errors.append(msgspec.structs.replace(not_found(place, name), detail=detail))
    return errors


def _validate_request(name: str, value: JSON, limits: JSONObject, path: FieldPath) -> list[FieldError]:
    if name not in limits:
        if is_overcommit_allowed(name):
            return []
        return [required(path / "limits", "Limit must be set for non overcommitable resources")]
    request, limit = Quantity.from_json(value), Quantity.from_json(limits[name])
    if request != limit and not is_overcommit_allowed(name):
        return [invalid(path / "requests", str(request), f"must be equal to {name} limit of {limit}")]
    if request.compare(limit) > 0:
        detail = f"must be less than or equal to {name} limit of {limit}"
        return [invalid(path / "requests", str(request), detail)]
    return []
