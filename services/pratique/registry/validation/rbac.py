"""Roles, ClusterRoles and their bindings.

Source: ``pkg/apis/rbac/validation/validation.go``.
"""

from __future__ import annotations

from pratique.admission.reviews import Review
from pratique.apimachinery import names
from pratique.apimachinery.field_errors import (
    ROOT,
    FieldError,
    FieldPath,
    covered,
    invalid,
    not_supported,
    required,
)
from pratique.apimachinery.json_values import JSONObject
from pratique.registry.validation.kind_validation import KindValidation, ValidationTable
from pratique.registry.validation.metadata import (
    FIELD_IS_IMMUTABLE,
    subdomain_name,
    validate_label_selector,
    validate_metadata,
    validate_metadata_update,
)

_GROUP = "rbac.authorization.k8s.io"
_METADATA, _ROLE_REF = ROOT / "metadata", ROOT / "roleRef"


def _role_name(name: str, _is_prefix: bool) -> list[str]:  # noqa: FBT001 - the shape of a NameRule
    return names.check_path_segment(name)


def _metadata_errors(document: JSONObject, *, namespaced: bool) -> list[FieldError]:
    return validate_metadata(document.get("metadata") or {}, _role_name, _METADATA, namespaced=namespaced)


def _metadata_update_errors(document: JSONObject, old: JSONObject) -> list[FieldError]:
    return validate_metadata_update(document.get("metadata") or {}, old.get("metadata") or {}, _METADATA)


def _role(role: JSONObject, _: Review) -> list[FieldError]:
    return _metadata_errors(role, namespaced=True) + _validate_rules(role, namespaced=True)


def _role_update(role: JSONObject, old: JSONObject, review: Review) -> list[FieldError]:
    return _role(role, review) + _metadata_update_errors(role, old)


def _cluster_role(role: JSONObject, _: Review) -> list[FieldError]:
    errors = _metadata_errors(role, namespaced=False) + _validate_rules(role, namespaced=False)
    aggregation, path = role.get("aggregationRule"), ROOT / "aggregationRule" / "clusterRoleSelectors"
    if aggregation is None:
        return errors
    selectors = aggregation.get("clusterRoleSelectors") or ()
    if not selectors:
        detail = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        errors.append(required(path, detail))
    for index, selector in enumerate(selectors):
        found = validate_label_selector(selector, path / index)
        if found:
            found.append(invalid(path / index, None, "invalid label selector."))
        errors += found
    return errors


def _cluster_role_update(role: JSONObject, old: JSONObject, review: Review) -> list[FieldError]:
    return _cluster_role(role, review) + _metadata_update_errors(role, old)


def _validate_rules(role: JSONObject, *, namespaced: bool) -> list[FieldError]:
    return [
        error
        for index, rule in enumerate(role.get("rules") or ())
        for error in _validate_rule(rule, ROOT / "rules" / index, namespaced=namespaced)
    ]


def _validate_rule(rule: JSONObject, path: FieldPath, *, namespaced: bool) -> list[FieldError]:
    errors = []
    if not rule.get("verbs"):
        errors += covered(required(path / "verbs", "verbs must contain at least one value"))
    if urls := rule.get("nonResourceURLs"):
        if namespaced:
            detail = "namespaced rules cannot apply to non-resource URLs"
            errors.append(invalid(path / "nonResourceURLs", urls, detail))
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            detail = "rules cannot apply to both regular resources and non-resource URLs"
            errors.append(invalid(path / "nonResourceURLs", urls, detail))
        return errors
    if not rule.get("apiGroups"):
        errors.append(required(path / "apiGroups", "resource rules must supply at least one api group"))
    if not rule.get("resources"):
        errors.append(required(path / "resources", "resource rules must supply at least one resource"))
    return errors


def _validate_binding(binding: JSONObject, *, namespaced: bool) -> list[FieldError]:
    errors = _metadata_errors(binding, namespaced=namespaced)
    reference = binding.get("roleRef") or {}
    group, kind, name = (reference.get(field, "") for field in ("apiGroup", "kind", "name"))
    kinds = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)
    if group != _GROUP:
        errors.append(not_supported(_ROLE_REF / "apiGroup", group, (_GROUP,)))
    if kind not in kinds:
        errors.append(not_supported(_ROLE_REF / "kind", kind, kinds))
    if not name:
        errors += covered(required(_ROLE_REF / "name"))
    errors += [invalid(_ROLE_REF / "name", name, text) for text in names.check_path_segment(name)]
    for index, subject in enumerate(binding.get("subjects") or ()):
        errors += _validate_subject(subject, ROOT / "subjects" / index, namespaced=namespaced)
    return errors


_SUBJECT_KINDS = ("ServiceAccount", "User", "Group")


def _validate_subject(subject: JSONObject, path: FieldPath, *, namespaced: bool) -> list[FieldError]:
    group, kind, name = (subject.get(field, "") for field in ("apiGroup", "kind", "name"))
    errors = [] if name else covered(required(path / "name"))
    if kind == "ServiceAccount":
        messages = subdomain_name(name, False) if name else ()
        errors += [invalid(path / "name", name, message) for message in messages]
        if group:
            errors.append(not_supported(path / "apiGroup", group, ("",)))
        if not namespaced and not subject.get("namespace"):
            errors.append(required(path / "namespace"))
    elif kind not in _SUBJECT_KINDS:
        errors.append(not_supported(path / "kind", kind, _SUBJECT_KINDS))
    elif group != _GROUP:
        errors.append(not_supported(path / "apiGroup", group, (_GROUP,)))
    return errors


def _validate_role_ref_update(binding: JSONObject, old: JSONObject) -> list[FieldError]:
    reference, stored = binding.get("roleRef") or {}, old.get("roleRef") or {}
    fields = [("APIGroup", "apiGroup"), ("Kind", "kind"), ("Name", "name")]
    value = {shown: reference.get(field, "") for shown, field in fields}
    if value == {shown: stored.get(field, "") for shown, field in fields}:
        return []
    error = invalid(_ROLE_REF, value, FIELD_IS_IMMUTABLE)
    return covered(error, "immutable")


def _role_binding(binding: JSONObject, _: Review) -> list[FieldError]:
    return _validate_binding(binding, namespaced=True)


def _cluster_role_binding(binding: JSONObject, _: Review) -> list[FieldError]:
    return _validate_binding(binding, namespaced=False)


def _role_binding_update(binding: JSONObject, old: JSONObject, review: Review) -> list[FieldError]:
    errors = _role_binding(binding, review) + _metadata_update_errors(binding, old)
    return errors + _validate_role_ref_update(binding, old)


def _cluster_role_binding_update(binding: JSONObject, old: JSONObject, review: Review) -> list[FieldError]:
    errors = _cluster_role_binding(binding, review) + _metadata_update_errors(binding, old)
    return errors + _validate_role_ref_update(binding, old)


VALIDATIONS: ValidationTable = {
    (_GROUP, "roles"): KindValidation(_role, _role_update),
    (_GROUP, "clusterroles"): KindValidation(_cluster_role, _cluster_role_update),
    (_GROUP, "rolebindings"): KindValidation(_role_binding, _role_binding_update),
    (_GROUP, "clusterrolebindings"): KindValidation(_cluster_role_binding, _cluster_role_binding_update),
}
