"""DeviceClasses.

Source: ``k8s.io/kubernetes/pkg/apis/resource/validation/validation.go``.
"""

from __future__ import annotations

from pratique.admission.reviews import Review
from pratique.apimachinery.field_errors import ROOT, FieldError, covered, invalid
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.quantities import is_extended_resource
from pratique.registry.validation.device_selectors import validate_configurations, validate_selectors
from pratique.registry.validation.kind_validation import KindValidation, ValidationTable
from pratique.registry.validation.metadata import (
    subdomain_name,
    validate_metadata,
    validate_metadata_update,
)

_METADATA = ROOT / "metadata"
_NAME = _METADATA / "name"
_SPEC = ROOT / "spec"


def _validate_class(written: JSONObject, _review: Review) -> list[FieldError]:
    """``ValidateDeviceClass``."""
    return _validate_name(written) + _validate_class_spec(written.get("spec", {}), None)


def _validate_name(written: JSONObject) -> list[FieldError]:
    """Validate metadata, whose name a tag of the type checks too."""
    errors = validate_metadata(written.get("metadata", {}), subdomain_name, _METADATA, namespaced=False)
    return [
        marked
        for error in errors
        for marked in (covered(error, "format=k8s-long-name") if error.path == _NAME else [error])
    ]


def _validate_class_spec(spec: JSONObject, old: JSONObject | None) -> list[FieldError]:
    selectors, configurations = spec.get("selectors", []), spec.get("config", [])
    keeps_selectors = old is not None and selectors == old.get("selectors", [])
    keeps_configurations = old is not None and configurations == old.get("config", [])
    errors = validate_selectors(selectors, _SPEC / "selectors", is_stored=keeps_selectors)
    errors += validate_configurations(configurations, _SPEC / "config", is_stored=keeps_configurations)
    resource = spec.get("extendedResourceName")
    if resource is not None and not is_extended_resource(resource):
        error = invalid(_SPEC / "extendedResourceName", resource, "must be a valid extended resource name")
        errors += covered(error, "format=k8s-extended-resource-name")
    return errors


def _validate_class_update(written: JSONObject, old: JSONObject, _review: Review) -> list[FieldError]:
    """``ValidateDeviceClassUpdate``."""
    errors = _validate_name(written)
    errors += validate_metadata_update(written.get("metadata", {}), old.get("metadata", {}), _METADATA)
    return errors + _validate_class_spec(written.get("spec", {}), old.get("spec", {}))


VALIDATIONS: ValidationTable = {
    ("resource.k8s.io", "deviceclasses"): KindValidation(_validate_class, _validate_class_update),
}
