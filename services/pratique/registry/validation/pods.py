"""Pods, on creation and update.

Source: ``ValidatePodCreate`` of ``pkg/apis/core/validation/validation.go``.
"""

from __future__ import annotations

from collections.abc import Iterator

from pratique.admission.reviews import Review
from pratique.apimachinery.field_errors import ROOT, FieldError, forbidden
from pratique.apimachinery.json_values import JSONObject
from pratique.registry.validation.kind_validation import KindValidation, ValidationTable
from pratique.registry.validation.metadata import (
    subdomain_name,
    validate_metadata,
    validate_metadata_update,
    validate_nonnegative,
)
from pratique.registry.validation.pod_spec import pod_template_warnings, validate_pod_spec

_METADATA, _SPEC = ROOT / "metadata", ROOT / "spec"


def _spec(pod: JSONObject) -> list[FieldError]:
    spec = pod.get("spec") or {}
    errors = validate_pod_spec(spec, _SPEC, is_pod=True)
    grace = spec.get("terminationGracePeriodSeconds")
    return errors + validate_nonnegative(grace, _SPEC / "terminationGracePeriodSeconds")


def _create(pod: JSONObject, _: Review) -> list[FieldError]:
    spec = pod.get("spec") or {}
    errors = validate_metadata(pod.get("metadata") or {}, subdomain_name, _METADATA, namespaced=True)
    errors += _spec(pod)
    if spec.get("ephemeralContainers"):
        errors.append(forbidden(_SPEC / "ephemeralContainers", "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        detail = "cannot be set until all schedulingGates have been cleared"
        errors.append(forbidden(_SPEC / "nodeName", detail))
    return errors


def _update(pod: JSONObject, old: JSONObject, _: Review) -> list[FieldError]:
    metadata = validate_metadata_update(pod.get("metadata") or {}, old.get("metadata") or {}, _METADATA)
    return metadata + _spec(pod)


def _warnings(pod: JSONObject, old: JSONObject | None, _: Review) -> Iterator[str]:
    if old is None:
        yield from pod_template_warnings(pod, ROOT)


VALIDATIONS: ValidationTable = {("", "pods"): KindValidation(_create, _update, _warnings)}
