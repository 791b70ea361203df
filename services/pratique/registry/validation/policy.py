"""PodDisruptionBudgets.

Source: ``ValidatePodDisruptionBudget`` of ``pkg/apis/policy/validation/validation.go``, which leaves the metadata to
what is asked of every object.
"""

from __future__ import annotations

from pratique.admission.reviews import Review
from pratique.apimachinery.field_errors import ROOT, FieldError, invalid, not_supported
from pratique.apimachinery.json_values import JSONObject
from pratique.registry.go_values import internal_value
from pratique.registry.validation.kind_validation import KindValidation, ValidationTable
from pratique.registry.validation.metadata import (
    path_segment_name,
    validate_label_selector,
    validate_metadata,
)
from pratique.registry.validation.numbers import validate_at_most_all, validate_number_or_percent

_SPEC = ROOT / "spec"
_EVICTIONS = ("AlwaysAllow", "IfHealthyBudget")


def _spec(spec: JSONObject) -> list[FieldError]:
    errors = []
    amounts = [
        (name, spec[name]) for name in ("minAvailable", "maxUnavailable") if spec.get(name) is not None
    ]
    if len(amounts) > 1:
        value = internal_value("policy.PodDisruptionBudgetSpec", spec)
        errors.append(invalid(_SPEC, value, "minAvailable and maxUnavailable cannot be both set"))
    for name, amount in amounts:
        errors += validate_number_or_percent(amount, _SPEC / name)
        errors += validate_at_most_all(amount, _SPEC / name)
    errors += validate_label_selector(spec.get("selector"), _SPEC / "selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in _EVICTIONS:
        errors.append(not_supported(_SPEC / "unhealthyPodEvictionPolicy", policy, _EVICTIONS))
    return errors


def _create(budget: JSONObject, _: Review) -> list[FieldError]:
    metadata = budget.get("metadata") or {}
    return _spec(budget.get("spec") or {}) or validate_metadata(
        metadata, path_segment_name, ROOT / "metadata", namespaced=True, standard_finalizers=False
    )


def _update(budget: JSONObject, _old: JSONObject, _: Review) -> list[FieldError]:
    return _spec(budget.get("spec") or {})


VALIDATIONS: ValidationTable = {("policy", "poddisruptionbudgets"): KindValidation(_create, _update)}
