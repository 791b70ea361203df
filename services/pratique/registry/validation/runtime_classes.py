"""RuntimeClasses.

Source: ``pkg/apis/node/validation/validation.go``.
"""

from __future__ import annotations

from collections.abc import Iterator

from pratique.admission.reviews import Review
from pratique.apimachinery.field_errors import ROOT, FieldError, covered, duplicate, invalid, required
from pratique.apimachinery.json_values import JSONObject, mapping_at
from pratique.apimachinery.selectors import validate_labels
from pratique.registry.go_values import internal_value
from pratique.registry.validation.kind_validation import KindValidation, ValidationTable
from pratique.registry.validation.metadata import (
    label_name,
    subdomain_name,
    validate_immutable,
    validate_metadata,
    validate_metadata_update,
)
from pratique.registry.validation.node_labels import DEPRECATED_NODE_LABELS
from pratique.registry.validation.resource_amounts import validate_requirements
from pratique.registry.validation.scheduling_constraints import validate_tolerations

_METADATA, _HANDLER = ROOT / "metadata", ROOT / "handler"


def _create(runtime_class: JSONObject, _: Review) -> list[FieldError]:
    metadata, handler = runtime_class.get("metadata") or {}, runtime_class.get("handler", "")
    errors = validate_metadata(metadata, subdomain_name, _METADATA, namespaced=False)
    if not handler:
        errors += covered(required(_HANDLER))
    else:
        found = [invalid(_HANDLER, handler, message) for message in label_name(handler, False)]
        errors += covered(found, "format=k8s-short-name")
    if overhead := runtime_class.get("overhead"):
        errors += validate_requirements({"limits": overhead.get("podFixed") or {}}, ROOT / "overhead")
    scheduling, path = runtime_class.get("scheduling") or {}, ROOT / "scheduling"
    errors += validate_labels(scheduling.get("nodeSelector") or {}, path / "nodeSelector")
    tolerations, path = scheduling.get("tolerations") or (), path / "tolerations"
    errors += validate_tolerations(tolerations, path)
    known = set()
    for index, toleration in enumerate(tolerations):
        key = tuple(toleration.get(name, "") for name in ("key", "operator", "value", "effect"))
        if key in known:
            errors.append(duplicate(path / index, internal_value("core.Toleration", toleration)))
        known.add(key)
    return errors


def _update(runtime_class: JSONObject, old: JSONObject, review: Review) -> list[FieldError]:
    metadata = runtime_class.get("metadata") or {}
    errors = _create(runtime_class, review)
    errors += validate_metadata_update(metadata, old.get("metadata") or {}, _METADATA)
    changed = validate_immutable(runtime_class.get("handler", ""), old.get("handler", ""), _HANDLER)
    return errors + covered(changed, "immutable")


def _warnings(runtime_class: JSONObject, _old: JSONObject | None, _: Review) -> Iterator[str]:
    """Warn of deprecated labels: ``GetWarningsForRuntimeClass``, in the order of their names instead of any."""
    for label in sorted(mapping_at(runtime_class, "scheduling", "nodeSelector")):
        if label in DEPRECATED_NODE_LABELS:
            yield f"scheduling.nodeSelector: {DEPRECATED_NODE_LABELS[label]}"


VALIDATIONS: ValidationTable = {
    ("node.k8s.io", "runtimeclasses"): KindValidation(_create, _update, _warnings)
}
