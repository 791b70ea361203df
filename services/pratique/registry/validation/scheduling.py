"""PriorityClasses, PodGroups and Workloads.

Source: ``k8s.io/kubernetes/pkg/apis/scheduling/validation/validation.go``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pratique.admission.reviews import Review
from pratique.apimachinery.field_errors import (
    ROOT,
    FieldError,
    FieldPath,
    covered,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from pratique.apimachinery.json_values import JSONObject
from pratique.registry.go_values import internal_value
from pratique.registry.validation.kind_validation import KindValidation, ValidationTable
from pratique.registry.validation.metadata import (
    subdomain_name,
    validate_immutable,
    validate_metadata,
    validate_metadata_update,
)

_METADATA = ROOT / "metadata"
_SPEC = ROOT / "spec"
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


def _validate_group(written: JSONObject, _review: Review) -> list[FieldError]:
    """``ValidatePodGroup``."""
    errors = validate_metadata(written.get("metadata", {}), subdomain_name, _METADATA, namespaced=True)
    spec = written.get("spec", {})
    if spec.get("parentCompositePodGroupName") is not None and spec.get("workloadRef") is None:
        detail = "must be set when parentCompositePodGroupName is set"
        errors += covered(required(_SPEC / "workloadRef", detail), "dependentRequired")
    return errors


def _validate_composite_group(written: JSONObject, _review: Review) -> list[FieldError]:
    """``ValidateCompositePodGroup``."""
    return validate_metadata(written.get("metadata", {}), subdomain_name, _METADATA, namespaced=True)


def _validate_only_metadata(written: JSONObject, old: JSONObject, _review: Review) -> list[FieldError]:
    return validate_metadata_update(written.get("metadata", {}), old.get("metadata", {}), _METADATA)


def _validate_workload(written: JSONObject, _review: Review) -> list[FieldError]:
    """``ValidateWorkload``."""
    errors = validate_metadata(written.get("metadata", {}), subdomain_name, _METADATA, namespaced=True)
    return errors + _validate_workload_spec(written.get("spec", {}))


def _validate_workload_update(written: JSONObject, old: JSONObject, review: Review) -> list[FieldError]:
    """``ValidateWorkloadUpdate``."""
    return _validate_only_metadata(written, old, review) + _validate_workload_spec(written.get("spec", {}))


_GROUPS, _COMPOSITES = "podGroupTemplates", "compositePodGroupTemplates"
_DEEPEST = 4


def _validate_workload_spec(spec: JSONObject) -> list[FieldError]:
    """``ValidateWorkloadSpec``: templates are a tree."""
    known = {template.get("name", "") for template in spec.get(_GROUPS, ())}
    composites, path = spec.get(_COMPOSITES, ()), _SPEC / _COMPOSITES
    errors = _validate_names(composites, path, known)
    for index, composite in enumerate(composites):
        if _depth(composite) >= _DEEPEST:
            children = composite.get(_COMPOSITES)
            value = internal_value("[]scheduling.CompositePodGroupTemplate", children)
            detail = f"maximum template hierarchy depth is {_DEEPEST}"
            errors.append(invalid(path / index, value, detail))
    errors += _validate_priorities(spec)
    for index, composite in enumerate(composites):
        errors += _validate_children(composite, path / index)
    return errors


def _validate_names(composites: Sequence[JSONObject], path: FieldPath, known: set[str]) -> list[FieldError]:
    """Refuse names of another list; those of the same list are found by a tag."""
    errors = _repeated(composites, path, known)
    for index, composite in enumerate(composites):
        place = path / index
        errors += _repeated(composite.get(_GROUPS, ()), place / _GROUPS, known)
        errors += _validate_names(composite.get(_COMPOSITES, ()), place / _COMPOSITES, known)
    return errors


def _repeated(templates: Sequence[JSONObject], path: FieldPath, known: set[str]) -> list[FieldError]:
    names = [template.get("name", "") for template in templates]
    errors = [duplicate(path / index / "name", name) for index, name in enumerate(names) if name in known]
    known.update(names)
    return errors


def _depth(composite: JSONObject) -> int:
    return 1 + max(map(_depth, composite.get(_COMPOSITES, ())), default=0)


def _validate_priorities(spec: JSONObject) -> list[FieldError]:
    """Refuse templates with different priorities: ``validateWorkloadPriority``."""
    own = [_priority(template) for template in spec.get(_GROUPS, ())]
    if len(set(own)) > 1:
        return [invalid(_SPEC, None, "detected multiple priority configurations")]
    found = {*own, *(each for composite in spec.get(_COMPOSITES, ()) for each in _priorities(composite))}
    detail = "all priority and priorityClassName values must be identical, detected multiple values"
    return [invalid(_SPEC, None, detail)] if len(found) > 1 else []


def _priority(template: JSONObject) -> tuple[str, int | None]:
    return template.get("priorityClassName", ""), template.get("priority")


def _priorities(composite: JSONObject) -> Iterator[tuple[str, int | None]]:
    yield _priority(composite)
    for child in composite.get(_COMPOSITES, ()):
        yield from _priorities(child)
    yield from map(_priority, composite.get(_GROUPS, ()))


def _validate_children(composite: JSONObject, path: FieldPath) -> list[FieldError]:
    children = composite.get(_COMPOSITES, ())
    errors = []
    if not children and not composite.get(_GROUPS):
        detail = "must have at least one child PodGroupTemplate or CompositePodGroupTemplate"
        errors.append(invalid(path, composite.get("name", ""), detail))
    for index, child in enumerate(children):
        errors += _validate_children(child, path / _COMPOSITES / index)
    return errors


VALIDATIONS: ValidationTable = {
    ("scheduling.k8s.io", "compositepodgroups"): KindValidation(
        _validate_composite_group, _validate_only_metadata
    ),
    ("scheduling.k8s.io", "podgroups"): KindValidation(_validate_group, _validate_only_metadata),
    ("scheduling.k8s.io", "priorityclasses"): KindValidation(
        _validate_priority_class, _validate_priority_class_update
    ),
    ("scheduling.k8s.io", "workloads"): KindValidation(_validate_workload, _validate_workload_update),
}
