"""Leases and LeaseCandidates.

Source: ``pkg/apis/coordination/validation/validation.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.admission.reviews import Review
from pratique.apimachinery import names
from pratique.apimachinery.field_errors import (
    ROOT,
    FieldError,
    FieldPath,
    forbidden,
    invalid,
    not_supported,
    required,
)
from pratique.apimachinery.json_values import JSONObject
from pratique.registry.validation.core_objects import check_key
from pratique.registry.validation.kind_validation import KindValidation, ValidationTable
from pratique.registry.validation.metadata import (
    subdomain_name,
    validate_immutable,
    validate_metadata,
    validate_metadata_update,
    validate_nonnegative,
)

if TYPE_CHECKING:
    from pratique.cel.libraries.semvers import SemverValue

_METADATA, _SPEC = ROOT / "metadata", ROOT / "spec"


def _spec(spec: JSONObject) -> list[FieldError]:
    seconds, errors = spec.get("leaseDurationSeconds"), []
    if seconds is not None and seconds <= 0:
        errors.append(invalid(_SPEC / "leaseDurationSeconds", seconds, "must be greater than 0"))
    errors += validate_nonnegative(spec.get("leaseTransitions"), _SPEC / "leaseTransitions")
    if (strategy := spec.get("strategy")) is not None:
        errors += _validate_strategy(strategy, _SPEC / "strategy")
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


_OLDEST_VERSION = "OldestEmulationVersion"


def _validate_strategy(strategy: str, path: FieldPath) -> list[FieldError]:
    """``ValidateCoordinatedLeaseStrategy``, which names the field twice."""
    place = path / "strategy"
    if "/" not in strategy:
        return [] if strategy == _OLDEST_VERSION else [not_supported(place, strategy, (_OLDEST_VERSION,))]
    return [invalid(place, strategy, message) for message in names.check_qualified_name(strategy)]


def _candidate_name(name: str, _is_prefix: bool) -> list[str]:  # noqa: FBT001 - the shape of a NameRule
    return check_key(name)


def _candidate_spec(spec: JSONObject) -> list[FieldError]:
    """``ValidateLeaseCandidateSpec``."""
    errors = [] if spec.get("leaseName") else [required(_SPEC / "leaseName")]
    binary, emulated = spec.get("binaryVersion", ""), spec.get("emulationVersion", "")
    path, emulated_path = _SPEC / "binaryVersion", _SPEC / "emulationVersion"
    own, other, zero = _version(binary), _version(emulated), _version("0.0.0")
    if emulated and other is None:
        errors.append(invalid(emulated_path, emulated, "must be a valid semantic version"))
    if not binary:
        errors.append(required(path))
    elif own is None:
        errors.append(invalid(path, binary, "must be a valid semantic version"))
    if binary and emulated and _is_older(own or zero, other or zero):
        errors.append(invalid(path, binary, "must be greater than or equal to `emulationVersion`"))
    strategy = spec.get("strategy", "")
    if not strategy:
        return [*errors, required(_SPEC / "strategy")]
    if strategy == _OLDEST_VERSION and other in {None, zero}:
        detail = "must be specified when `strategy` is 'OldestEmulationVersion'"
        errors.append(required(emulated_path, detail))
    return errors + _validate_strategy(strategy, _SPEC / "strategy")


def _version(text: str) -> SemverValue | None:
    # Here, because CEL takes a tenth of a second to import, and most chains see no candidates.
    from pratique.cel.errors import EvaluationError  # noqa: PLC0415
    from pratique.cel.libraries.semvers import parse_semver  # noqa: PLC0415

    try:
        return parse_semver(text)
    except EvaluationError:
        return None


def _is_older(version: SemverValue | None, other: SemverValue | None) -> bool:
    return version is not None and other is not None and version.compare(other) < 0


def _candidate(candidate: JSONObject, _: Review) -> list[FieldError]:
    metadata = candidate.get("metadata") or {}
    errors = validate_metadata(metadata, _candidate_name, _METADATA, namespaced=True)
    return errors + _candidate_spec(candidate.get("spec") or {})


def _candidate_update(candidate: JSONObject, old: JSONObject, _: Review) -> list[FieldError]:
    metadata, spec = candidate.get("metadata") or {}, candidate.get("spec") or {}
    errors = validate_metadata_update(metadata, old.get("metadata") or {}, _METADATA)
    name, before = spec.get("leaseName", ""), (old.get("spec") or {}).get("leaseName", "")
    return errors + _candidate_spec(spec) + validate_immutable(name, before, _SPEC / "leaseName")


VALIDATIONS: ValidationTable = {
    ("coordination.k8s.io", "leases"): KindValidation(_create, _update),
    ("coordination.k8s.io", "leasecandidates"): KindValidation(_candidate, _candidate_update),
}
