"""DeviceClasses and DeviceTaintRules, and the table of all kinds of devices.

Source: ``k8s.io/kubernetes/pkg/apis/resource/validation/validation.go``.
"""

from __future__ import annotations

from pratique.admission.reviews import Review
from pratique.apimachinery.field_errors import ROOT, FieldError, covered, invalid
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.quantities import is_extended_resource
from pratique.registry.validation.csi_objects import validate_driver_name
from pratique.registry.validation.device_claims import CLAIM_VALIDATION, TEMPLATE_VALIDATION
from pratique.registry.validation.device_names import validate_label_name, validate_pool_name, validate_taint
from pratique.registry.validation.device_selectors import validate_configurations, validate_selectors
from pratique.registry.validation.kind_validation import KindValidation, ValidationTable
from pratique.registry.validation.metadata import (
    subdomain_name,
    validate_metadata,
    validate_metadata_update,
)
from pratique.registry.validation.resource_slices import SLICE_VALIDATION

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


def _validate_rule(written: JSONObject, _review: Review) -> list[FieldError]:
    """``ValidateDeviceTaintRule``."""
    errors = validate_metadata(written.get("metadata", {}), subdomain_name, _METADATA, namespaced=False)
    return errors + _validate_rule_spec(written.get("spec", {}), None)


def _validate_rule_update(written: JSONObject, old: JSONObject, _review: Review) -> list[FieldError]:
    """``ValidateDeviceTaintRuleUpdate``."""
    errors = validate_metadata_update(written.get("metadata", {}), old.get("metadata", {}), _METADATA)
    return errors + _validate_rule_spec(written.get("spec", {}), old.get("spec", {}))


def _validate_rule_spec(spec: JSONObject, old: JSONObject | None) -> list[FieldError]:
    selector, path = spec.get("deviceSelector") or {}, _SPEC / "deviceSelector"
    errors: list[FieldError] = []
    for field, validate in (
        ("driver", validate_driver_name),
        ("pool", validate_pool_name),
        ("device", validate_label_name),
    ):
        if selector.get(field) is not None:
            errors += validate(selector[field], path / field)
    stored = None if old is None else old.get("taint", {})
    return errors + validate_taint(spec.get("taint", {}), stored, _SPEC / "taint")


VALIDATIONS: ValidationTable = {
    ("resource.k8s.io", "deviceclasses"): KindValidation(_validate_class, _validate_class_update),
    ("resource.k8s.io", "devicetaintrules"): KindValidation(_validate_rule, _validate_rule_update),
    ("resource.k8s.io", "resourceclaims"): CLAIM_VALIDATION,
    ("resource.k8s.io", "resourceclaimtemplates"): TEMPLATE_VALIDATION,
    ("resource.k8s.io", "resourceslices"): SLICE_VALIDATION,
}
