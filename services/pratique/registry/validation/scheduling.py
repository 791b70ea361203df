"""PriorityClasses, PodGroups and Workloads."""

from __future__ import annotations

from collections.abc import Mapping

from pratique.admission.reviews import Review
from pratique.apimachinery.field_errors import (
    ROOT,
    FieldError,
    forbidden,
    not_supported,
    required,
)
from pratique.apimachinery.json_values import JSONObject
from pratique.registry.validation.kind_validation import KindValidation, ValidationTable
from pratique.registry.validation.metadata import (
    subdomain_name,
    validate_immutable,
    validate_metadata,
    validate_metadata_update,
)

_METADATA = ROOT / "metadata"
_SYSTEM_PREFIX = "system-"
_SYSTEM_CLASSES: Mapping[str, int] = {
    "system-node-critical": 2_000_001_000,
    "system-cluster-critical": 2_000_000_000,
}
_HIGHEST_PRIORITY = 1_000_000_000
_PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")


def _validate_priority_class(written: JSONObject, _review: Review) -> list[FieldError]:
    """``ValidatePriorityClass``."""
    metadata = written.get("metadata", {})
    errors = validate_metadata(metadata, subdomain_name, _METADATA, namespaced=False)
    name, value = metadata.get("name", ""), written.get("value", 0)
    if name.startswith(_SYSTEM_PREFIX):
        if problem := _system_class_problem(name, value, is_default=written.get("globalDefault", False)):
            detail = f"priority class names with '{_SYSTEM_PREFIX}' prefix are reserved for system use only. error: "
            errors.append(forbidden(_METADATA / "name", detail + problem))
    elif value > _HIGHEST_PRIORITY:
        detail = f"maximum allowed value of a user defined priority is {_HIGHEST_PRIORITY}"
        errors.append(forbidden(ROOT / "value", detail))
    policy, path = written.get("preemptionPolicy"), ROOT / "preemptionPolicy"
    if policy == "":
        errors.append(required(path))
    elif policy is not None and policy not in _PREEMPTION_POLICIES:
        errors.append(not_supported(path, policy, _PREEMPTION_POLICIES))
    return errors


def _system_class_problem(name: str, value: int, *, is_default: bool) -> str:
    """Why a PriorityClass is not the one of the system with its name: ``IsKnownSystemPriorityClass``."""
    if name not in _SYSTEM_CLASSES:
        return f"{name} is not a known system priority class"
    if value != _SYSTEM_CLASSES[name]:
        return f"value of {name} PriorityClass must be {_SYSTEM_CLASSES[name]}"
    return f"globalDefault of {name} PriorityClass must be false" if is_default else ""


def _validate_priority_class_update(
    written: JSONObject, old: JSONObject, _review: Review
) -> list[FieldError]:
    """``ValidatePriorityClassUpdate``."""
    errors = validate_metadata_update(written.get("metadata", {}), old.get("metadata", {}), _METADATA)
    if written.get("value", 0) != old.get("value", 0):
        errors.append(forbidden(ROOT / "value", "may not be changed in an update."))
    policy, path = written.get("preemptionPolicy"), ROOT / "preemptionPolicy"
    return errors + validate_immutable(policy, old.get("preemptionPolicy"), path)


VALIDATIONS: ValidationTable = {
    ("scheduling.k8s.io", "priorityclasses"): KindValidation(
        _validate_priority_class, _validate_priority_class_update
    ),
}
