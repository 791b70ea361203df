"""LimitRanges and ResourceQuotas.

Source: ``ValidateLimitRange`` and ``ValidateResourceQuota`` of ``pkg/apis/core/validation/validation.go``,
``pkg/apis/core/helper/helpers.go``, and ``WarningsOnCreate`` of ``pkg/registry/core/resourcequota/strategy.go``. The
status of a quota is not the writer's, so that nothing of it is left to validate.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from pratique.admission.reviews import Review
from pratique.apimachinery import names
from pratique.apimachinery.field_errors import (
    ROOT,
    FieldError,
    FieldPath,
    duplicate,
    forbidden,
    invalid,
    json_text,
    required,
)
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.quantities import Quantity
from pratique.registry.go_values import internal_value
from pratique.registry.validation.kind_validation import KindValidation, ValidationTable
from pratique.registry.validation.metadata import (
    FIELD_IS_IMMUTABLE,
    subdomain_name,
    validate_metadata,
    validate_metadata_update,
)
from pratique.registry.validation.resource_amounts import (
    is_overcommit_allowed,
    is_quota_huge_page,
    validate_amount,
    validate_container_resource_name,
    validate_resource_name,
)

_METADATA, _SPEC = ROOT / "metadata", ROOT / "spec"
_POD, _CONTAINER, _CLAIM = "Pod", "Container", "PersistentVolumeClaim"
_LIMIT_TYPES = frozenset({_POD, _CONTAINER, _CLAIM})
_ONE = Quantity.parse("1")


def _metadata_errors(written: JSONObject) -> list[FieldError]:
    return validate_metadata(written.get("metadata") or {}, subdomain_name, _METADATA, namespaced=True)


def _limit_range(limit_range: JSONObject, _: Review) -> list[FieldError]:
    errors, types = _metadata_errors(limit_range), set()
    for index, limit in enumerate((limit_range.get("spec") or {}).get("limits") or ()):
        path, type_ = _SPEC / "limits" / index, limit.get("type", "")
        errors += _validate_limit_type(type_, path / "type")
        if type_ in types:
            errors.append(duplicate(path / "type", type_))
        types.add(type_)
        errors += _validate_limit(limit, type_, path)
    return errors


def _limit_range_update(limit_range: JSONObject, _old: JSONObject, review: Review) -> list[FieldError]:
    return _limit_range(limit_range, review)


def _validate_limit_type(type_: str, path: FieldPath) -> list[FieldError]:
    errors = [invalid(path, type_, message) for message in names.check_qualified_name(type_)]
    if not errors and "/" not in type_ and type_ not in _LIMIT_TYPES:
        errors.append(invalid(path, type_, "must be a standard limit type or fully qualified"))
    return errors


_NOT_OF_PODS = ("default", "defaultRequest")


def _validate_limit(limit: JSONObject, type_: str, path: FieldPath) -> list[FieldError]:
    errors: list[FieldError] = []
    amounts: dict[str, dict[str, Quantity]] = {}
    for field in ("max", "min", *_NOT_OF_PODS, "maxLimitRequestRatio"):
        given = limit.get(field) or {}
        if field == "maxLimitRequestRatio" and type_ == _CLAIM:
            errors += _validate_claim_limit(limit, path)
        if field in _NOT_OF_PODS and type_ == _POD:
            message = "may not be specified when `type` is 'Pod'"
            errors += [forbidden(path / field, message)] if given else []
            continue
        for name in sorted(given):
            errors += _validate_limited_resource(type_, name, (path / field).key(name))
            amounts.setdefault(name, {})[field] = Quantity.from_json(given[name])
    for name in sorted(amounts):
        errors += _Amounts(name, amounts[name], path).errors()
    return errors


def _validate_claim_limit(limit: JSONObject, path: FieldPath) -> list[FieldError]:
    if any("storage" in (limit.get(field) or {}) for field in ("min", "max")):
        return []
    message = "either minimum or maximum storage value is required, but neither was provided"
    return [required(path / "limits", message)]


def _validate_limited_resource(type_: str, name: str, path: FieldPath) -> list[FieldError]:
    if type_ in {_POD, _CONTAINER}:
        return validate_container_resource_name(name, path)
    return validate_resource_name(name, path)


_ORDERED = (
    ("min", "min", "max", "min", "min value {} is greater than max value {}"),
    (
        "defaultRequest",
        "min",
        "defaultRequest",
        "defaultRequest",
        "min value {} is greater than default request value {}",
    ),
    (
        "defaultRequest",
        "defaultRequest",
        "max",
        "defaultRequest",
        "default request value {} is greater than max value {}",
    ),
    (
        "defaultRequest",
        "defaultRequest",
        "default",
        "defaultRequest",
        "default request value {} is greater than default limit value {}",
    ),
    ("default", "min", "default", "min", "min value {} is greater than default value {}"),
    ("default", "default", "max", "max", "default value {} is greater than max value {}"),
)
"""Where an error stands, the amount that may not exceed the other, the value that is shown, and what is said."""


class _Amounts:
    """The amounts of one resource in a limit, by the field that they are of."""

    def __init__(self, name: str, amounts: Mapping[str, Quantity], path: FieldPath) -> None:
        self._name = name
        self._amounts = amounts
        self._path = path

    def errors(self) -> Iterator[FieldError]:
        """Hold the amounts against each other."""
        amounts = self._amounts
        for field, low, high, shown, message in _ORDERED:
            if low in amounts and high in amounts and amounts[low].compare(amounts[high]) > 0:
                yield self._error(field, shown, message.format(amounts[low], amounts[high]))
        if "maxLimitRequestRatio" in amounts:
            yield from self._ratio_errors(amounts["maxLimitRequestRatio"])
        if not is_overcommit_allowed(self._name) and amounts.keys() >= set(_NOT_OF_PODS):
            default, request = (amounts[field] for field in _NOT_OF_PODS)
            if default != request:
                message = (
                    f"default value {default} must equal to defaultRequest value {request} in {self._name}"
                )
                yield self._error("defaultRequest", "defaultRequest", message)

    def _error(self, field: str, shown: str, message: str) -> FieldError:
        return invalid((self._path / field).key(self._name), str(self._amounts[shown]), message)

    def _ratio_errors(self, ratio: Quantity) -> Iterator[FieldError]:
        field = "maxLimitRequestRatio"
        if ratio.compare(_ONE) < 0:
            yield self._error(field, field, f"ratio {ratio} is less than 1")
        if not self._amounts.keys() >= {"min", "max"}:
            return
        value, most = _ratios(ratio, self._amounts["min"], self._amounts["max"])
        if value > most:
            yield self._error(field, field, f"ratio {ratio} is greater than max/min = {_go_float(most)}")


_MOST_MILLIS = (2**63 - 1) // 1000


def _ratios(ratio: Quantity, least: Quantity, most: Quantity) -> tuple[float, float]:
    """A ratio, and the one that limits have: of thousandths, unless these are too many."""
    numbers = [amount.ceiling() for amount in (ratio, least, most)]
    if all(number < _MOST_MILLIS for number in numbers):
        value = ratio.ceiling(-3) / 1000
        low, high = least.ceiling(-3), most.ceiling(-3)
    else:
        value, low, high = float(numbers[0]), numbers[1], numbers[2]
    if low:
        return value, high / low
    return value, math.copysign(math.inf, high) if high else math.nan


def _go_float(number: float) -> str:
    return f"{number:+f}".replace("inf", "Inf") if math.isinf(number) else f"{number:f}"


_QUOTA_RESOURCES = frozenset(
    {
        "cpu", "memory", "ephemeral-storage", "requests.cpu", "requests.memory", "requests.storage",
        "requests.ephemeral-storage", "limits.cpu", "limits.memory", "limits.ephemeral-storage", "pods",
        "resourcequotas", "services", "replicationcontrollers", "secrets", "persistentvolumeclaims", "configmaps",
        "services.nodeports", "services.loadbalancers",
    }
)  # fmt: skip
_OF_PODS = frozenset(
    {"pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"}
)
_ALIKE = ("Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "CrossNamespacePodAffinity")
"""Scopes that a selector can only ask for, not compare with values."""
_RESOURCES_OF_SCOPES: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(_ALIKE, _OF_PODS),
    "PriorityClass": _OF_PODS,
    "BestEffort": frozenset({"pods"}),
    "VolumeAttributesClass": frozenset({"persistentvolumeclaims", "requests.storage"}),
}
"""The standard resources that each scope can limit: ``IsResourceQuotaScopeValidForResource``."""
_OPPOSITES = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})


def _quota(quota: JSONObject, _: Review) -> list[FieldError]:
    return _metadata_errors(quota) + _validate_quota_spec(quota.get("spec") or {})


def _quota_update(quota: JSONObject, old: JSONObject, _: Review) -> list[FieldError]:
    spec, old_spec = quota.get("spec") or {}, old.get("spec") or {}
    errors = validate_metadata_update(quota.get("metadata") or {}, old.get("metadata") or {}, _METADATA)
    errors += _validate_quota_spec(spec)
    if set(spec.get("scopes") or ()) != set(old_spec.get("scopes") or ()):
        errors.append(invalid(_SPEC / "scopes", spec.get("scopes"), FIELD_IS_IMMUTABLE))
    return errors


def _validate_quota_spec(spec: JSONObject) -> list[FieldError]:
    errors: list[FieldError] = []
    hard = spec.get("hard") or {}
    for name in sorted(hard):
        path = (_SPEC / "hard").key(name)
        errors += validate_quota_resource_name(name, path) + validate_amount(name, hard[name], path)
    if scopes := spec.get("scopes"):
        errors += _validate_scopes(scopes, hard)
    if (selector := spec.get("scopeSelector")) is not None:
        errors += _validate_scope_selector(selector, spec)
    return errors


def validate_quota_resource_name(name: str, path: FieldPath) -> list[FieldError]:
    """Validate the name of a resource in a quota: ``ValidateResourceQuotaResourceName``."""
    errors = validate_resource_name(name, path)
    if "/" not in name and not _is_quota_resource(name):
        errors.append(invalid(path, json_text(name), "must be a standard resource for quota"))
    return errors


def _is_quota_resource(name: str) -> bool:
    return name in _QUOTA_RESOURCES or is_quota_huge_page(name)


def _misplaced(scope: str, hard: JSONObject) -> int:
    """How many of the resources that a quota limits the scope cannot limit."""
    known = _RESOURCES_OF_SCOPES.get(scope)
    return 0 if known is None else sum(_is_quota_resource(name) and name not in known for name in hard)


_MISPLACED = "unsupported scope applied to resource"


def _validate_scopes(scopes: Sequence[str], hard: JSONObject) -> list[FieldError]:
    path, shown = _SPEC / "scopes", list(scopes)
    errors = []
    for scope in scopes:
        if scope not in _RESOURCES_OF_SCOPES:
            errors.append(invalid(path, shown, "unsupported scope"))
        errors += [invalid(path, shown, _MISPLACED)] * _misplaced(scope, hard)
    return errors + _validate_opposites(set(scopes), path, shown)


def _validate_opposites(scopes: set[str], path: FieldPath, shown: list[str] | None) -> list[FieldError]:
    return [invalid(path, shown, "conflicting scopes") for pair in _OPPOSITES if pair <= scopes]


def _validate_scope_selector(selector: JSONObject, spec: JSONObject) -> list[FieldError]:
    path, hard = _SPEC / "scopeSelector" / "matchExpressions", spec.get("hard") or {}
    errors, requirements = [], selector.get("matchExpressions") or ()
    for requirement in requirements:
        scope = requirement.get("scopeName", "")
        if scope not in _RESOURCES_OF_SCOPES:
            errors.append(invalid(path / "scopeName", scope, "unsupported scope"))
        if count := _misplaced(scope, hard):
            errors += [invalid(path, internal_value("*core.ScopeSelector", selector), _MISPLACED)] * count
        errors += _validate_requirement(scope, requirement, path)
    scopes = {requirement.get("scopeName", "") for requirement in requirements}
    return errors + _validate_opposites(scopes, path, spec.get("scopes"))


_SCOPES_WITHOUT_VALUES = (
    "ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, "
    "ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)


def _validate_requirement(scope: str, requirement: JSONObject, path: FieldPath) -> list[FieldError]:
    operator, values = requirement.get("operator", ""), requirement.get("values") or []
    errors = []
    if scope in _ALIKE and operator != "Exists":
        message = f"must be 'Exists' when scope is any of {_SCOPES_WITHOUT_VALUES}"
        errors.append(invalid(path / "operator", operator, message))
    if operator in {"In", "NotIn"}:
        if not values:
            message = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            errors.append(required(path / "values", message))
    elif operator in {"Exists", "DoesNotExist"}:
        if values:
            message = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            errors.append(invalid(path / "values", values, message))
    else:
        errors.append(invalid(path / "operator", operator, "not a valid selector operator"))
    return errors


def _quota_warnings(quota: JSONObject, old: JSONObject | None, _: Review) -> Iterator[str]:
    hard = (quota.get("spec") or {}).get("hard") or {}
    if old is not None:
        return
    for resource in ("cpu", "memory", "storage", "ephemeral-storage"):
        name, limit_name = f"requests.{resource}", f"limits.{resource}"
        if name not in hard and resource in {"cpu", "memory"}:
            name = resource
        if name not in hard or limit_name not in hard:
            continue
        request, limit = Quantity.from_json(hard[name]), Quantity.from_json(hard[limit_name])
        if request.compare(limit) > 0:
            yield f"ResourceQuota {name} ({request}) should be less than {limit_name} ({limit})"


VALIDATIONS: ValidationTable = {
    ("", "limitranges"): KindValidation(_limit_range, _limit_range_update),
    ("", "resourcequotas"): KindValidation(_quota, _quota_update, _quota_warnings),
}
"""The validation of LimitRanges and ResourceQuotas."""
