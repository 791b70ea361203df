"""The status of PodCertificateRequests: what signers answer kubelets.

Source: ``ValidatePodCertificateRequestStatusUpdate`` of ``pkg/apis/certificates/validation/validation.go``. Whether the
user may sign for the signer is not asked.
"""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Iterable
from typing import TYPE_CHECKING, NoReturn

from pratique.admission.reviews import Review
from pratique.apimachinery.field_errors import (
    OMITTED,
    ROOT,
    FieldError,
    invalid,
    not_supported,
    required,
    too_long,
)
from pratique.apimachinery.json_values import JSON, JSONObject, list_at, mapping_at
from pratique.apimachinery.pem import PemBlock, pem_blocks
from pratique.registry.custom_resources.formats import FORMATS
from pratique.registry.go_values import differs
from pratique.registry.validation.conditions import has_condition, validate_conditions
from pratique.registry.validation.kind_validation import SubresourceTable, SubresourceValidation
from pratique.registry.validation.metadata import validate_metadata_update

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

_STATUS = ROOT / "status"
_CONDITIONS, _CHAIN = _STATUS / "conditions", _STATUS / "certificateChain"
_ISSUED, _DENIED, _FAILED = "Issued", "Denied", "Failed"
_TYPES = (_ISSUED, _DENIED, _FAILED)
_STATUS_TYPE = "certificates.PodCertificateRequestStatus"
_LONGEST_CHAIN = 100 * 1024
_SKEW, _MARGIN, _SHORTEST = dt.timedelta(minutes=5), dt.timedelta(minutes=10), dt.timedelta(hours=1)


def _validate_status(written: JSONObject, old: JSONObject, _: Review) -> list[FieldError]:
    """Validate the conditions, and what else there is because of them."""
    metadata, stored = mapping_at(written, "metadata"), mapping_at(old, "metadata")
    if errors := validate_metadata_update(metadata, stored, ROOT / "metadata"):
        return errors
    conditions, before = (list_at(request, "status", "conditions") for request in (written, old))
    if errors := _validate_known(conditions) + validate_conditions(conditions, _CONDITIONS):
        return errors
    status, unchanged = mapping_at(written, "status"), old.get("status")
    if any(has_condition(before, type_) for type_ in _TYPES):
        detail = "immutable after PodCertificateRequest is issued, denied, or failed"
    elif has_condition(conditions, _DENIED) or has_condition(conditions, _FAILED):
        unchanged = {"conditions": conditions}
        detail = "non-condition status fields must be empty when denying or failing the PodCertificateRequest"
    elif has_condition(conditions, _ISSUED):
        try:
            _check_issued(status, mapping_at(old, "spec"))
        except _FaultsError as faults:
            return faults.errors
        return []
    else:
        detail = 'status is immutable unless transitioning to "Issued", "Denied", or "Failed"'
    return [invalid(_STATUS, OMITTED, detail)] if differs(_STATUS_TYPE, unchanged, status) else []


def _validate_known(conditions: Iterable[JSONObject]) -> list[FieldError]:
    """There is at most one condition of those that end a request, and it is true."""
    errors: list[FieldError] = []
    number = 0
    for index, condition in enumerate(conditions):
        path, type_ = _CONDITIONS / f"[{index}]", condition.get("type", "")
        if type_ not in _TYPES:
            errors.append(not_supported(path / "type", type_, _TYPES))
            continue
        number += 1
        if number > 1:
            detail = 'There may be at most one condition with type "Issued", "Denied", or "Failed"'
            errors.append(invalid(path / "type", type_, detail))
        if condition.get("status", "") != "True":
            errors.append(not_supported(path / "status", condition.get("status", ""), ("True",)))
    return errors


# What is issued


class _FaultsError(Exception):
    """What is wrong with a chain, which ends its validation."""

    def __init__(self, *errors: FieldError) -> None:
        super().__init__()
        self.errors = list(errors)


def _check_issued(status: JSONObject, spec: JSONObject) -> None:
    """Check a chain of certificates, which the status repeats the times of; stop at the first fault of most kinds."""
    chain: str = status.get("certificateChain", "")
    if len(chain.encode()) > _LONGEST_CHAIN:
        raise _FaultsError(too_long(_CHAIN, _LONGEST_CHAIN))

    def refuse(detail: str) -> NoReturn:
        raise _FaultsError(*tolerated, invalid(_CHAIN, chain, detail))

    tolerated: list[FieldError] = []
    blocks = list(pem_blocks(chain.encode()))
    if not blocks:
        refuse("issued certificate chain must contain at least one certificate")
    if blocks[0].type != "CERTIFICATE":
        refuse("issued certificate chain must consist entirely of CERTIFICATE PEM blocks")
    leaf = _certificate(blocks[0])
    if leaf is None:
        refuse("leaf certificate does not parse as valid X.509")
    tolerated += _validate_alternative_names(leaf)
    if not _is_for_key(leaf, spec):
        refuse("leaf certificate was not issued to the requested public key")
    _check_times(status, leaf, spec.get("maxExpirationSeconds", 0), tolerated)
    for block in blocks[1:]:
        if block.type != "CERTIFICATE":
            refuse("issued certificate chain must consist entirely of CERTFICATE PEM blocks")
        if _certificate(block) is None:
            refuse("intermediate certificate does not parse as valid X.509")


def _certificate(block: PemBlock) -> Certificate | None:
    from cryptography import x509  # noqa: PLC0415 - most chains see no certificates: 20 ms

    try:
        return x509.load_der_x509_certificate(block.der)
    except ValueError:
        return None


def _validate_alternative_names(leaf: Certificate) -> list[FieldError]:
    from cryptography import x509  # noqa: PLC0415

    try:
        found = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return []
    errors = []
    for name in found.get_values_for_type(x509.DNSName):
        for is_wrong, detail in (
            (not name, "leaf certificate should not contain empty DNSName"),
            (".." in name, "leaf certificate's DNSName should not contain '..'"),
            (
                name[:1] == "." or name[-1:] == ".",
                "leaf certificate's DNSName should not start or end with '.'",
            ),
        ):
            errors += [invalid(_CHAIN, name, detail)] if is_wrong else []
    for address in found.get_values_for_type(x509.RFC822Name):
        if not FORMATS["email"](address):
            detail = "leaf certificate should not contain invalid EmailAddress"
            errors.append(invalid(_CHAIN, address, detail))
    return errors


def _is_for_key(leaf: Certificate, spec: JSONObject) -> bool:
    """Tell whether a certificate is for the key that was asked for; one of an unknown kind is not looked at."""
    from cryptography import x509  # noqa: PLC0415
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import load_der_public_key  # noqa: PLC0415

    stub, key = (base64.b64decode(spec.get(name) or "") for name in ("stubPKCS10Request", "pkixPublicKey"))
    try:
        wanted = x509.load_der_x509_csr(stub).public_key() if stub else load_der_public_key(key)
        return leaf.public_key() == wanted
    except (UnsupportedAlgorithm, ValueError):
        return False


def _check_times(status: JSONObject, leaf: Certificate, longest: int, tolerated: list[FieldError]) -> None:
    """Check the times that the status repeats, and those that the certificate is valid for."""
    missing = [
        required(_STATUS / name, detail)
        for name, detail in (
            ("notBefore", "must be present and consistent with the issued certificate"),
            ("notAfter", "must be present and consistent with the issued certificate"),
            ("beginRefreshAt", "must be present and in the range [notbefore+10min, notafter-10min]"),
        )
        if status.get(name) is None
    ]
    if missing or tolerated:
        raise _FaultsError(*tolerated, *missing)
    start, end, refresh = (_time(status[name]) for name in ("notBefore", "notAfter", "beginRefreshAt"))
    lifetime = leaf.not_valid_after_utc - leaf.not_valid_before_utc
    nanoseconds = round(lifetime.total_seconds()) * 10**9
    for is_wrong, name, value, detail in (
        (start != leaf.not_valid_before_utc, "notBefore", start,
         "must be set to the NotBefore time encoded in the leaf certificate"),
        (abs(start - dt.datetime.now(dt.UTC)) >= _SKEW, "notBefore", start,
         "must be set to within 5 minutes of kube-apiserver's current time"),
        (end != leaf.not_valid_after_utc, "notAfter", end,
         "must be set to the NotAfter time encoded in the leaf certificate"),
        (lifetime < _SHORTEST, "certificateChain", nanoseconds, "leaf certificate lifetime must be >= 1 hour"),
        (lifetime > dt.timedelta(seconds=longest), "certificateChain", nanoseconds,
         f"leaf certificate lifetime must be <= spec.maxExpirationSeconds ({longest})"),
        (refresh < start + _MARGIN, "beginRefreshAt", refresh,
         "must be at least 10 minutes after status.notBefore"),
        (refresh > end - _MARGIN, "beginRefreshAt", refresh,
         "must be at least 10 minutes before status.notAfter"),
    ):  # fmt: skip
        if is_wrong:
            raise _FaultsError(invalid(_STATUS / name, _shown(value), detail))


def _time(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text).astimezone(dt.UTC)


def _shown(value: dt.datetime | int) -> JSON:
    return value if isinstance(value, int) else f"{value:%Y-%m-%dT%H:%M:%SZ}"


SUBRESOURCE_VALIDATIONS: SubresourceTable = {
    ("certificates.k8s.io", "podcertificaterequests", "status"): SubresourceValidation(_validate_status),
}
"""What updates of the status are validated with."""
