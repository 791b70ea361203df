"""Leases.

Source: ``ValidateLease`` of ``pkg/apis/coordination/validation/validation.go``.
"""

from __future__ import annotations

from pratique.admission.reviews import Review
from pratique.apimachinery.field_errors import ROOT, FieldError, forbidden, invalid
from pratique.apimachinery.json_values import JSONObject
from pratique.registry.validation.kind_validation import KindValidation, ValidationTable
from pratique.registry.validation.metadata import (
    subdomain_name,
    validate_metadata,
    validate_metadata_update,
    validate_nonnegative,
)

_METADATA, _SPEC = ROOT / "metadata", ROOT / "spec"


def _spec(spec: JSONObject) -> list[FieldError]:
    seconds, errors = spec.get("leaseDurationSeconds"), []
    if seconds is not None and seconds <= 0:
        errors.append(invalid(_SPEC / "leaseDurationSeconds", seconds, "must be greater than 0"))
    errors += validate_nonnegative(spec.get("leaseTransitions"), _SPEC / "leaseTransitions")
    if spec.get("preferredHolder") and not spec.get("strategy"):
        detail = "may only be specified if `strategy` is defined"
        errors.append(forbidden(_SPEC / "preferredHolder", detail))
    return errors


def _create(lease: JSONObject, _: Review) -> list[FieldError]:
    metadata = lease.get("metadata") or {}
    errors = validate_metadata(metadata, subdomain_name, _METADATA, namespaced=True)
    return errors + _spec(lease.get("spec") or {})


def _update(lease: JSONObject, old: JSONObject, _: Review) -> list[FieldError]:
    metadata = lease.get("metadata") or {}
    errors = validate_metadata_update(metadata, old.get("metadata") or {}, _METADATA)
    return errors + _spec(lease.get("spec") or {})


VALIDATIONS: ValidationTable = {("coordination.k8s.io", "leases"): KindValidation(_create, _update)}
