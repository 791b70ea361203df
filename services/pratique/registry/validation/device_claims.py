"""ResourceClaims and ResourceClaimTemplates.

Source: ``k8s.io/kubernetes/pkg/apis/resource/validation/validation.go``, and ``pkg/registry/resource/utils.go`` for
what administrators may do. Derived attributes are dropped before, as their feature gate is off.
"""

from __future__ import annotations

from collections.abc import Sequence

from pratique.admission.reviews import Review
from pratique.apimachinery.field_errors import (
    ROOT,
    FieldError,
    FieldPath,
    covered,
    forbidden,
    internal,
    invalid,
    not_supported,
    required,
)
from pratique.apimachinery.json_values import JSONObject, list_at, mapping_at, member
from pratique.apimachinery.statuses import go_quoted
from pratique.registry.go_values import differs, internal_value
from pratique.registry.validation.device_names import (
    validate_class_name,
    validate_distinct,
    validate_full_attribute_name,
    validate_label_name,
    validate_toleration,
)
from pratique.registry.validation.device_selectors import (
    validate_bounded,
    validate_configuration,
    validate_selectors,
)
from pratique.registry.validation.kind_validation import KindValidation
from pratique.registry.validation.metadata import (
    subdomain_name,
    validate_metadata,
    validate_metadata_update,
    validate_template_metadata,
)

_METADATA = ROOT / "metadata"
_SPEC = ROOT / "spec"
_ADMIN_LABEL = "resource.kubernetes.io/admin-access"
_MAXIMUM, _MAXIMUM_ALTERNATIVES = 32, 8
_ONE_REQUEST = "exactly one of `exactly` or `firstAvailable` is required"


def _validate_claim(written: JSONObject, review: Review) -> list[FieldError]:
    """``Validate`` of ``resourceclaim/strategy.go``."""
    claim = mapping_at(written, "spec", "devices")
    errors = _validate_admin_access(claim, review)
    errors += validate_metadata(written.get("metadata", {}), subdomain_name, _METADATA, namespaced=True)
    return errors + _validate_devices(claim, _SPEC / "devices")


def _validate_admin_access(claim: JSONObject, review: Review) -> list[FieldError]:
    """Admin access needs a label of the namespace: ``AuthorizedForAdmin``; templates have the path of claims."""
    requests = list_at(claim, "requests")
    wanted = [index for index, each in enumerate(requests) if member(each, "exactly", "adminAccess") is True]
    if not wanted:
        return []
    return validate_admin_access(_SPEC / "devices" / "requests" / wanted[0] / "adminAccess", review)


def validate_admin_access(path: FieldPath, review: Review) -> list[FieldError]:
    """Validate that the namespace allows what a field asks for, admin access."""
    namespace = review.cluster.get("", "namespaces", review.namespace)
    if namespace is None:
        missing = f"namespaces {go_quoted(review.namespace)} not found"
        return [internal(path, f"could not retrieve namespace to verify admin access: {missing}")]
    if mapping_at(namespace, "metadata", "labels").get(_ADMIN_LABEL) == "true":
        return []
    detail = f"admin access to devices requires the `{_ADMIN_LABEL}: true` label on the containing namespace"
    return [forbidden(path, detail)]


def _validate_devices(claim: JSONObject, path: FieldPath) -> list[FieldError]:
    """``validateDeviceClaim``."""
    requests = claim.get("requests", [])
    known = request_names(requests)
    errors = validate_distinct(requests, _MAXIMUM, _validate_request, _name, path / "requests")
    errors += validate_bounded(
        claim.get("constraints", []),
        _MAXIMUM,
        lambda constraint, place: _validate_constraint(constraint, place, known),
        path / "constraints",
    )
    return errors + validate_bounded(
        claim.get("config", []),
        _MAXIMUM,
        lambda configuration, place: validate_configuration_of_requests(configuration, place, known),
        path / "config",
    )


def _name(item: JSONObject) -> str:
    name: str = item.get("name", "")
    return name


def request_names(requests: Sequence[JSONObject]) -> frozenset[str]:
    """The names by which a claim may refer to its requests: ``gatherRequestNames``."""
    alternatives = {
        f"{_name(request)}/{_name(each)}"
        for request in requests
        for each in request.get("firstAvailable", ())
    }
    return frozenset({*map(_name, requests), *alternatives})


def _validate_request(request: JSONObject, path: FieldPath) -> list[FieldError]:
    """``validateDeviceRequest``."""
    errors = validate_label_name(_name(request), path / "name")
    alternatives, exactly = request.get("firstAvailable", []), request.get("exactly")
    if alternatives and exactly is not None:
        return [*errors, invalid(path, None, f"{_ONE_REQUEST}, but multiple fields are set")]
    if alternatives:
        place = path / "firstAvailable"
        return errors + validate_distinct(
            alternatives, _MAXIMUM_ALTERNATIVES, _validate_alternative, _name, place
        )
    if exactly is None:
        return [*errors, required(path, _ONE_REQUEST)]
    place = path / "exactly"
    errors += validate_class_name(exactly.get("deviceClassName", ""), place / "deviceClassName")
    return errors + _validate_wanted(exactly, place)


def _validate_alternative(request: JSONObject, path: FieldPath) -> list[FieldError]:
    """``validateDeviceSubRequest``."""
    errors = validate_label_name(_name(request), path / "name")
    errors += covered(validate_class_name(request.get("deviceClassName", ""), path / "deviceClassName"))
    return errors + _validate_wanted(request, path)


_ALL, _EXACT_COUNT = "All", "ExactCount"


def _validate_wanted(request: JSONObject, path: FieldPath) -> list[FieldError]:
    """Validate what requests and alternatives have in common."""
    errors = validate_selectors(request.get("selectors", []), path / "selectors")
    mode, count = request.get("allocationMode", ""), request.get("count", 0)
    if mode == _ALL and count:
        detail = f"must not be specified when allocationMode is '{_ALL}'"
        errors.append(invalid(path / "count", count, detail))
    elif mode == _EXACT_COUNT and count <= 0:
        errors.append(invalid(path / "count", count, "must be greater than zero"))
    elif mode not in {_ALL, _EXACT_COUNT}:
        errors += covered(not_supported(path / "allocationMode", mode, (_ALL, _EXACT_COUNT)))
    for index, toleration in enumerate(request.get("tolerations", ())):
        errors += validate_toleration(toleration, path / "tolerations" / index)
    return errors


_ONE_ATTRIBUTE = (
    'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
)


def _validate_constraint(constraint: JSONObject, path: FieldPath, known: frozenset[str]) -> list[FieldError]:
    """``validateDeviceConstraint``."""
    errors = _validate_references(constraint, path / "requests", known)
    for field in ("matchAttribute", "distinctAttribute"):
        attribute = constraint.get(field)
        if attribute is not None:
            return errors + covered(validate_full_attribute_name(attribute, path / field))
    return [*errors, required(path, _ONE_ATTRIBUTE)]


def validate_configuration_of_requests(
    configuration: JSONObject, path: FieldPath, known: frozenset[str]
) -> list[FieldError]:
    """Validate the configuration of a device that is for some requests: ``validateDeviceClaimConfiguration``."""
    errors = _validate_references(configuration, path / "requests", known)
    return errors + validate_configuration(configuration, path, is_stored=False)


def _validate_references(referring: JSONObject, path: FieldPath, known: frozenset[str]) -> list[FieldError]:
    def validate(name: str, place: FieldPath) -> list[FieldError]:
        return validate_request_reference(name, place, known)

    return validate_distinct(referring.get("requests", []), _MAXIMUM, validate, lambda name: name, path)


def validate_request_reference(name: str, path: FieldPath, known: frozenset[str]) -> list[FieldError]:
    """Validate a reference to a request, or to an alternative of one: ``validateRequestNameRef``."""
    detail = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
    segments = name.split("/")
    if len(segments) > 2:
        return [invalid(path, name, detail)]
    errors = [error for segment in segments for error in validate_label_name(segment, path)]
    return errors if name in known else [*errors, invalid(path, name, detail)]


def _validate_claim_update(written: JSONObject, old: JSONObject, _review: Review) -> list[FieldError]:
    """``ValidateResourceClaimUpdate``."""
    errors = validate_metadata(written.get("metadata", {}), subdomain_name, _METADATA, namespaced=True)
    errors += validate_metadata_update(written.get("metadata", {}), old.get("metadata", {}), _METADATA)
    if differs("resource.ResourceClaimSpec", old.get("spec"), written.get("spec")):
        value = internal_value("resource.ResourceClaimSpec", written.get("spec", {}))
        errors += covered(invalid(_SPEC, value, "field is immutable"), "immutable")
    return errors


CLAIM_VALIDATION = KindValidation(_validate_claim, _validate_claim_update)
"""The validation of ResourceClaims."""


def _validate_template(written: JSONObject, review: Review) -> list[FieldError]:
    """``Validate`` of ``resourceclaimtemplate/strategy.go``."""
    claim = mapping_at(written, "spec", "spec", "devices")
    return _validate_admin_access(claim, review) + _validate_template_itself(written)


def _validate_template_itself(written: JSONObject) -> list[FieldError]:
    """``ValidateResourceClaimTemplate``."""
    metadata, path = mapping_at(written, "spec", "metadata"), _SPEC / "metadata"
    errors = validate_metadata(written.get("metadata", {}), subdomain_name, _METADATA, namespaced=True)
    errors += validate_template_metadata(metadata, path)
    claim = mapping_at(written, "spec", "spec", "devices")
    return errors + _validate_devices(claim, _SPEC / "spec" / "devices")


def _validate_template_update(written: JSONObject, old: JSONObject, _review: Review) -> list[FieldError]:
    """``ValidateUpdate`` of ``resourceclaimtemplate/strategy.go``."""
    errors = _validate_template_itself(written)
    errors += validate_metadata_update(written.get("metadata", {}), old.get("metadata", {}), _METADATA)
    if differs("resource.ResourceClaimTemplateSpec", old.get("spec"), written.get("spec")):
        value = internal_value("resource.ResourceClaimTemplateSpec", written.get("spec", {}))
        errors.append(invalid(_SPEC, value, "field is immutable"))
    return errors


TEMPLATE_VALIDATION = KindValidation(_validate_template, _validate_template_update)
"""The validation of ResourceClaimTemplates."""
