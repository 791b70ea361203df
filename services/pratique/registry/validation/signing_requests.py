"""CertificateSigningRequests, their approval and their status.

Source: ``k8s.io/kubernetes/pkg/apis/certificates/validation/validation.go``. A certificate that is no valid DER may be
refused in other words than Go's.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence

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
from pratique.apimachinery.json_values import JSONObject, list_at, mapping_at
from pratique.registry.validation.certificates import validate_signer_name
from pratique.registry.validation.conditions import STATUSES
from pratique.registry.validation.kind_validation import (
    KindValidation,
    SubresourceTable,
    SubresourceValidation,
    ValidationTable,
)
from pratique.registry.validation.metadata import validate_metadata, validate_metadata_update
from pratique.registry.validation.x509 import certificate_request_problem, certificates_problem

_METADATA, _SPEC = ROOT / "metadata", ROOT / "spec"
_CONDITIONS, _CERTIFICATE = ROOT / "status" / "conditions", ROOT / "status" / "certificate"
_USAGES = (
    "any", "cert sign", "client auth", "code signing", "content commitment", "crl sign", "data encipherment",
    "decipher only", "digital signature", "email protection", "encipher only", "ipsec end system", "ipsec tunnel",
    "ipsec user", "key agreement", "key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime",
    "server auth", "signing", "timestamping",
)  # fmt: skip
_LEGACY_SIGNER = "kubernetes.io/legacy-unknown"
_SHORTEST_VALIDITY = 600
_APPROVED, _DENIED, _FAILED = "Approved", "Denied", "Failed"
_ALWAYS_TRUE = frozenset({_APPROVED, _DENIED, _FAILED})
"""Conditions that are there or not, and never false."""


def _any_name(_name: str, _is_prefix: bool) -> list[str]:  # noqa: FBT001 - the shape of a NameRule
    return []


def _create(written: JSONObject, _review: Review) -> list[FieldError]:
    """``ValidateCertificateSigningRequestCreate``; the strategy has emptied the status."""
    return _validate_request(written, {})


def _validate_request(written: JSONObject, old: JSONObject) -> list[FieldError]:
    """Validate a request; what was wrong in the stored one already is tolerated."""
    errors = validate_metadata(mapping_at(written, "metadata"), _any_name, _METADATA, namespaced=False)
    errors += _validate_spec(mapping_at(written, "spec"), mapping_at(old, "spec"))
    errors += _validate_conditions(_conditions(written), _conditions(old))
    issued, before = _certificate(written), _certificate(old)
    is_tolerated = bool(old) and (issued == before or certificates_problem(before))
    if not is_tolerated and (problem := certificates_problem(issued)):
        errors.append(invalid(_CERTIFICATE, "<certificate data>", problem))
    return errors


def _conditions(request: JSONObject) -> list[JSONObject]:
    return list_at(request, "status", "conditions")


def _certificate(request: JSONObject) -> bytes:
    return _bytes(mapping_at(request, "status").get("certificate"))


def _bytes(encoded: str | None) -> bytes:
    """The bytes of a field in base64."""
    try:
        return base64.b64decode(encoded or "")
    except binascii.Error:
        return b""


def _validate_spec(spec: JSONObject, old: JSONObject) -> list[FieldError]:
    request = spec.get("request")
    errors = []
    if problem := certificate_request_problem(_bytes(request)):
        errors.append(invalid(_SPEC / "request", request, problem))
    errors += _validate_usages(spec.get("usages", ()), old.get("usages", ()), _SPEC / "usages")
    signer, path = spec.get("signerName", ""), _SPEC / "signerName"
    if signer == _LEGACY_SIGNER and old.get("signerName") != _LEGACY_SIGNER:
        errors.append(invalid(path, signer, "the legacy signerName is not allowed via this API version"))
    else:
        errors += validate_signer_name(signer, path)
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < _SHORTEST_VALIDITY:
        detail = "may not specify a duration less than 600 seconds (10 minutes)"
        errors.append(invalid(_SPEC / "expirationSeconds", seconds, detail))
    return errors


def _validate_usages(usages: Sequence[str], old: Sequence[str], path: FieldPath) -> list[FieldError]:
    errors = [] if usages else [required(path)]
    if set(old).issubset(_USAGES):
        errors += [
            not_supported(path / index, usage, _USAGES)
            for index, usage in enumerate(usages)
            if usage not in _USAGES
        ]
    if len(set(old)) == len(old):
        known: set[str] = set()
        for index, usage in enumerate(usages):
            errors += [duplicate(path / index, usage)] if usage in known else []
            known.add(usage)
    return errors


def _validate_conditions(conditions: Sequence[JSONObject], old: Sequence[JSONObject]) -> list[FieldError]:
    types, before = [_type(found) for found in conditions], [_type(found) for found in old]
    is_one_sided = not {_APPROVED, _DENIED}.issubset(before)
    has_unique_types = len(set(before)) == len(before)
    errors: list[FieldError] = []
    known: set[str] = set()
    for index, condition in enumerate(conditions):
        path, type_, status = _CONDITIONS / index, types[index], condition.get("status", "")
        errors += [] if type_ or "" in before else [required(path / "type")]
        allowed = ("True",) if type_ in _ALWAYS_TRUE else STATUSES
        if not status:
            errors.append(required(path / "status"))
        elif status not in allowed:
            errors.append(not_supported(path / "status", status, allowed))
        opposite = {_APPROVED: _DENIED, _DENIED: _APPROVED}.get(type_)
        if is_one_sided and opposite in known:
            detail = "Approved and Denied conditions are mutually exclusive"
            errors += covered(invalid(_CONDITIONS, type_, detail), "zeroOrOneOf")
        if has_unique_types and type_ in known:
            errors.append(duplicate(path / "type", type_))
        known.add(type_)
    return errors


def _type(condition: JSONObject) -> str:
    found: str = condition.get("type", "")
    return found


def _update(written: JSONObject, old: JSONObject, _review: Review) -> list[FieldError]:
    """``ValidateCertificateSigningRequestUpdate``; the strategy has restored the spec and the status."""
    return _validate_update(written, old)


def _update_status(written: JSONObject, old: JSONObject, _review: Review) -> list[FieldError]:
    """``ValidateCertificateSigningRequestStatusUpdate``."""
    return _validate_update(written, old, may_issue=True)


def _update_approval(written: JSONObject, old: JSONObject, _review: Review) -> list[FieldError]:
    """``ValidateCertificateSigningRequestApprovalUpdate``."""
    return _validate_update(written, old, may_approve=True)


def _validate_update(
    written: JSONObject, old: JSONObject, *, may_issue: bool = False, may_approve: bool = False
) -> list[FieldError]:
    errors = _validate_request(written, old)
    numbers = {
        type_: (
            sum(_type(found) == type_ for found in _conditions(written)),
            sum(_type(found) == type_ for found in _conditions(old)),
        )
        for type_ in (_APPROVED, _DENIED, _FAILED)
    }
    for type_, (now, before) in numbers.items():
        if now < before:
            detail = f'updates may not remove a condition of type "{type_}"'
            errors.append(forbidden(_CONDITIONS, detail))
    for type_ in () if may_approve else (_APPROVED, _DENIED):
        now, before = numbers[type_]
        if now > before:  # the strategy has put back what a request changes of them
            errors.append(forbidden(_CONDITIONS, f'updates may not add a condition of type "{type_}"'))
    if _certificate(written) != (issued := _certificate(old)):
        if not may_issue:
            errors.append(forbidden(_CERTIFICATE, "updates may not set certificate content"))
        elif issued:
            errors.append(forbidden(_CERTIFICATE, "updates may not modify existing certificate content"))
    metadata, stored = mapping_at(written, "metadata"), mapping_at(old, "metadata")
    return errors + validate_metadata_update(metadata, stored, _METADATA)


_GROUP, _RESOURCE = "certificates.k8s.io", "certificatesigningrequests"
VALIDATIONS: ValidationTable = {(_GROUP, _RESOURCE): KindValidation(_create, _update)}
"""The validation of CertificateSigningRequests."""
SUBRESOURCE_VALIDATIONS: SubresourceTable = {
    (_GROUP, _RESOURCE, "approval"): SubresourceValidation(_update_approval),
    (_GROUP, _RESOURCE, "status"): SubresourceValidation(_update_status),
}
"""What updates of the status and of the approval are validated with."""
