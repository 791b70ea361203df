"""EndpointSlices.

Sources: ``pkg/apis/discovery/validation/validation.go``, and the warnings of
``pkg/registry/discovery/endpointslice/strategy.go``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pratique.admission.reviews import Review
from pratique.apimachinery import names
from pratique.apimachinery.field_errors import (
    ROOT,
    FieldError,
    FieldPath,
    covered,
    duplicate,
    invalid,
    not_supported,
    required,
    too_many,
)
from pratique.apimachinery.json_values import JSONObject, mapping_at
from pratique.registry.validation.addresses import (
    ip_warnings,
    is_ipv6,
    validate_endpoint_ip,
    validate_ip,
    validate_legacy_ip,
)
from pratique.registry.validation.kind_validation import KindValidation, ValidationTable
from pratique.registry.validation.metadata import (
    subdomain_name,
    validate_immutable,
    validate_metadata,
)

_TYPES = ("FQDN", "IPv4", "IPv6")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_MAX_ENDPOINTS, _MAX_ADDRESSES, _MAX_PORTS, _MAX_HINTS = 1000, 100, 20_000, 8
_MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
_CONTROLLERS = frozenset({"endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"})
"""Who writes addresses as they should be, so that nobody looks."""


def _slice(endpoint_slice: JSONObject, old: JSONObject | None) -> list[FieldError]:
    metadata = endpoint_slice.get("metadata") or {}
    errors = validate_metadata(metadata, subdomain_name, ROOT / "metadata", namespaced=True)
    type_, path = endpoint_slice.get("addressType", ""), ROOT / "addressType"
    if not type_:
        errors += covered(required(path))
    elif type_ not in _TYPES:
        errors += covered(not_supported(path, type_, _TYPES))
    errors += _validate_ports(endpoint_slice.get("ports") or (), ROOT / "ports")
    endpoints = endpoint_slice.get("endpoints") or []
    if old is not None and endpoints == (old.get("endpoints") or []):
        return errors
    if len(endpoints) > _MAX_ENDPOINTS:
        return [*errors, too_many(ROOT / "endpoints", len(endpoints), _MAX_ENDPOINTS)]
    for index, endpoint in enumerate(endpoints):
        errors += _validate_endpoint(endpoint, type_, ROOT / "endpoints" / index)
    return errors


def _validate_ports(ports: Sequence[JSONObject], path: FieldPath) -> list[FieldError]:
    if len(ports) > _MAX_PORTS:
        return [too_many(path, len(ports), _MAX_PORTS)]
    errors: list[FieldError] = []
    found: set[str] = set()
    for index, port in enumerate(ports):
        place, name = path / index, port.get("name", "")
        messages = names.check_dns1123_label(name) if name else ()
        errors += [invalid(place / "name", name, message) for message in messages]
        if name in found:
            errors.append(duplicate(place / "name", name))
        found.add(name)
        protocol = port.get("protocol")
        if protocol is None:
            errors.append(required(place / "protocol"))
        elif protocol not in _PROTOCOLS:
            errors.append(not_supported(place / "protocol", protocol, _PROTOCOLS))
        if (application := port.get("appProtocol")) is not None:
            messages = names.check_qualified_name(application)
            errors += [invalid(place / "appProtocol", application, message) for message in messages]
    return errors


def _validate_endpoint(endpoint: JSONObject, type_: str, path: FieldPath) -> list[FieldError]:
    addresses, place = endpoint.get("addresses") or (), path / "addresses"
    errors = []
    if not addresses:
        errors += covered(required(place, "must contain at least 1 address"))
    elif len(addresses) > _MAX_ADDRESSES:
        errors += covered(too_many(place, len(addresses), _MAX_ADDRESSES), "maxItems")
    for index, address in enumerate(addresses):
        errors += _validate_address(address, type_, place, index)
    if (node := endpoint.get("nodeName")) is not None:
        errors += [invalid(path / "nodeName", node, message) for message in subdomain_name(node, False)]
    if (host := endpoint.get("hostname")) is not None:
        messages = names.check_dns1123_label(host)
        errors += [invalid(path / "hostname", host, message) for message in messages]
    return errors + _validate_hints(endpoint.get("hints") or {}, path / "hints")


def _validate_hints(hints: JSONObject, path: FieldPath) -> list[FieldError]:
    errors: list[FieldError] = []
    for field, check in (("forZones", names.check_label_value), ("forNodes", names.check_dns1123_subdomain)):
        hinted, found = hints.get(field) or (), set[str]()
        if len(hinted) > _MAX_HINTS:
            return [*errors, too_many(path / field, len(hinted), _MAX_HINTS)]
        for index, hint in enumerate(hinted):
            name, place = hint.get("name", ""), path / field / index / "name"
            if name in found:
                errors.append(duplicate(place, name))
            found.add(name)
            errors += [invalid(place, name, message) for message in check(name)]
    return errors


def _validate_address(address: str, type_: str, path: FieldPath, index: int) -> list[FieldError]:
    place = path / index
    if type_ == "FQDN":
        return _validate_domain(address, place)
    if type_ not in {"IPv4", "IPv6"}:
        return []
    errors = validate_ip(address, place) if type_ == "IPv6" else validate_legacy_ip(address, place)
    if errors:
        return errors
    if is_ipv6(address) is not (type_ == "IPv6"):
        errors.append(invalid(path, address, f"must be an {type_} address"))
    return errors + validate_endpoint_ip(address, place)


def _validate_domain(name: str, path: FieldPath) -> list[FieldError]:
    """``IsFullyQualifiedDomainName``."""
    if not name:
        return [required(path)]
    name = name.removesuffix(".")
    if messages := names.check_dns1123_subdomain(name):
        return [invalid(path, name, ",".join(messages))]
    if "." not in name:
        detail = "should be a domain with at least two segments separated by dots"
        return [invalid(path, name, detail)]
    return [
        invalid(path, label, ",".join(messages))
        for label in name.split(".")
        if (messages := names.check_dns1123_label(label))
    ]


def _create(endpoint_slice: JSONObject, _: Review) -> list[FieldError]:
    return _slice(endpoint_slice, None)


def _update(endpoint_slice: JSONObject, old: JSONObject, _: Review) -> list[FieldError]:
    type_, before = endpoint_slice.get("addressType", ""), old.get("addressType", "")
    changed = validate_immutable(type_, before, ROOT / "addressType")
    return _slice(endpoint_slice, old) + covered(changed, "immutable")


def _warnings(endpoint_slice: JSONObject, old: JSONObject | None, _: Review) -> Iterator[str]:
    if old is None and endpoint_slice.get("addressType") == "FQDN":
        yield "spec.addressType: FQDN endpoints are deprecated"
    if mapping_at(endpoint_slice, "metadata", "labels").get(_MANAGED_BY) in _CONTROLLERS:
        return
    for index, endpoint in enumerate(endpoint_slice.get("endpoints") or ()):
        for number, address in enumerate(endpoint.get("addresses") or ()):
            yield from ip_warnings(address, ROOT / "endpoints" / index / "addresses" / number)


VALIDATIONS: ValidationTable = {
    ("discovery.k8s.io", "endpointslices"): KindValidation(_create, _update, _warnings)
}
