"""APIServices.

Source: ``k8s.io/kube-aggregator/pkg/apis/apiregistration/validation/validation.go``.
"""

from __future__ import annotations

import base64
import binascii

from pratique.admission.reviews import Review
from pratique.apimachinery import names
from pratique.apimachinery.field_errors import ROOT, FieldError, invalid, required
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.statuses import go_quoted
from pratique.registry.validation.kind_validation import KindValidation, ValidationTable
from pratique.registry.validation.metadata import NameRule, validate_metadata, validate_metadata_update

_METADATA = ROOT / "metadata"
_SPEC = ROOT / "spec"
_PRIORITIES = (
    ("groupPriorityMinimum", 20000),
    ("versionPriority", 1000),
)


def _service_name(wanted: str) -> NameRule:
    """The one name that an APIService may have: its version and group."""

    def check(name: str, _is_prefix: bool) -> list[str]:  # noqa: FBT001 - the shape of a NameRule
        if messages := names.check_path_segment(name):
            return messages
        detail = f'must be `spec.version+"."+spec.group`: {go_quoted(wanted)}'
        return [] if name == wanted else [detail]

    return check


def _validate_service(written: JSONObject, _review: Review) -> list[FieldError]:
    """``ValidateAPIService``."""
    spec = written.get("spec", {})
    group, version = spec.get("group", ""), spec.get("version", "")
    rule = _service_name(f"{version}.{group}")
    errors = validate_metadata(written.get("metadata", {}), rule, _METADATA, namespaced=False)
    if not group and version != "v1":
        detail = "only v1 may have an empty group and it better be legacy kube"
        errors.append(required(_SPEC / "group", detail))
    if group:
        messages = names.check_dns1123_subdomain(group)
        errors += [invalid(_SPEC / "group", group, message) for message in messages]
    messages = names.check_dns1035_label(version)
    errors += [invalid(_SPEC / "version", version, message) for message in messages]
    for field, maximum in _PRIORITIES:
        priority = spec.get(field, 0)
        if not 0 < priority <= maximum:
            errors.append(invalid(_SPEC / field, priority, f"must be positive and less than {maximum}"))
    service = spec.get("service")
    return errors + (_validate_local(spec) if service is None else _validate_remote(spec, service))


def _bundle_size(spec: JSONObject) -> int:
    try:
        return len(base64.b64decode(spec.get("caBundle") or ""))
    except binascii.Error:
        return 0


def _validate_local(spec: JSONObject) -> list[FieldError]:
    errors = []
    if size := _bundle_size(spec):
        errors.append(
            invalid(_SPEC / "caBundle", f"{size} bytes", "local APIServices may not have a caBundle")
        )
    if spec.get("insecureSkipTLSVerify"):
        path = _SPEC / "insecureSkipTLSVerify"
        errors.append(invalid(path, True, "local APIServices may not have insecureSkipTLSVerify"))
    return errors


def _validate_remote(spec: JSONObject, service: JSONObject) -> list[FieldError]:
    path = _SPEC / "service"
    errors = [required(path / field) for field in ("namespace", "name") if not service.get(field)]
    port = service.get("port", 0)
    if messages := names.check_port_number(port):
        errors.append(invalid(path / "port", port, f"port is not valid: {', '.join(messages)}"))
    if spec.get("insecureSkipTLSVerify") and _bundle_size(spec):
        place = _SPEC / "insecureSkipTLSVerify"
        errors.append(invalid(place, True, "may not be true if caBundle is present"))
    return errors


def _validate_service_update(written: JSONObject, old: JSONObject, review: Review) -> list[FieldError]:
    """``ValidateAPIServiceUpdate``."""
    errors = validate_metadata_update(written.get("metadata", {}), old.get("metadata", {}), _METADATA)
    return errors + _validate_service(written, review)


VALIDATIONS: ValidationTable = {
    ("apiregistration.k8s.io", "apiservices"): KindValidation(_validate_service, _validate_service_update),
}
