"""NetworkPolicies, IngressClasses, IPAddresses and ServiceCIDRs.

Source: ``pkg/apis/networking/validation/validation.go``.
"""

from __future__ import annotations

from collections.abc import Iterator

from pratique.admission.reviews import Review
from pratique.apimachinery import names
from pratique.apimachinery.field_errors import (
    ROOT,
    FieldError,
    FieldPath,
    covered,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.apimachinery.patterns import pattern
from pratique.registry.go_values import differs, internal_value
from pratique.registry.validation.addresses import (
    Address,
    check_port_name,
    cidr_warnings,
    is_ipv6,
    parse_cidr,
    validate_cidr,
    validate_ip,
    validate_legacy_cidr,
    validate_port,
)
from pratique.registry.validation.kind_validation import KindValidation, ValidationTable
from pratique.registry.validation.metadata import (
    FIELD_IS_IMMUTABLE,
    label_name,
    subdomain_name,
    validate_immutable,
    validate_label_selector,
    validate_metadata,
    validate_metadata_update,
)

_GROUP = "networking.k8s.io"
_METADATA, _SPEC = ROOT / "metadata", ROOT / "spec"
_PROTOCOLS = ("TCP", "UDP", "SCTP")
_TYPES = ("Ingress", "Egress")
_DIRECTIONS = (("ingress", "from"), ("egress", "to"))


def _policy_spec(spec: JSONObject, accepted: frozenset[str]) -> list[FieldError]:
    errors = validate_label_selector(spec.get("podSelector"), _SPEC / "podSelector")
    for direction, peers in _DIRECTIONS:
        for index, rule in enumerate(spec.get(direction) or ()):
            path = _SPEC / direction / index
            for number, port in enumerate(rule.get("ports") or ()):
                errors += _validate_policy_port(port, path / "ports" / number)
            for number, peer in enumerate(rule.get(peers) or ()):
                errors += _validate_peer(peer, path / peers / number, accepted)
    types, path = spec.get("policyTypes") or [], _SPEC / "policyTypes"
    if len(types) > len(_TYPES):
        return [*errors, invalid(path, types, "may not specify more than two policyTypes")]
    return errors + [
        not_supported(path / index, type_, _TYPES) for index, type_ in enumerate(types) if type_ not in _TYPES
    ]


def _validate_policy_port(port: JSONObject, path: FieldPath) -> list[FieldError]:
    errors = []
    protocol, number, end = port.get("protocol"), port.get("port"), port.get("endPort")
    if protocol is not None and protocol not in _PROTOCOLS:
        errors.append(not_supported(path / "protocol", protocol, _PROTOCOLS))
    if isinstance(number, str):
        if end is not None:
            detail = "may not be specified when `port` is non-numeric"
            errors.append(invalid(path / "endPort", end, detail))
        return errors + [invalid(path / "port", number, message) for message in check_port_name(number)]
    if number is None:
        detail = "may not be specified when `port` is not specified"
        return errors if end is None else [*errors, invalid(path / "endPort", end, detail)]
    errors += validate_port(number, path / "port")
    if end is not None:
        if end < number:
            errors.append(invalid(path / "endPort", end, "must be greater than or equal to `port`"))
        errors += validate_port(end, path / "endPort")
    return errors


def _validate_peer(peer: JSONObject, path: FieldPath, accepted: frozenset[str]) -> list[FieldError]:
    given = [name for name in ("podSelector", "namespaceSelector", "ipBlock") if peer.get(name) is not None]
    errors = []
    for name in given:
        if name == "ipBlock":
            errors += _validate_block(peer[name], path / name, accepted)
        else:
            errors += validate_label_selector(peer[name], path / name)
    if not given:
        errors.append(required(path, "must specify a peer"))
    elif len(given) > 1 and "ipBlock" in given:
        errors.append(forbidden(path, "may not specify both ipBlock and another peer"))
    return errors


def _validate_block(block: JSONObject, path: FieldPath, accepted: frozenset[str]) -> list[FieldError]:
    cidr = block.get("cidr", "")
    if not cidr:
        return covered(required(path / "cidr"))
    errors = validate_legacy_cidr(cidr, path / "cidr", accepted)
    whole = parse_cidr(cidr)
    if whole is None:
        return errors
    for index, text in enumerate(block.get("except") or ()):
        place, part = path / "except" / index, parse_cidr(text)
        errors += validate_legacy_cidr(text, place, accepted)
        if part is None:
            continue
        contains = part[1].network_address in whole[1]
        if not contains or whole[1].prefixlen >= part[1].prefixlen:
            errors.append(invalid(place, text, "must be a strict subset of `cidr`"))
    return errors


def _blocks(spec: JSONObject) -> Iterator[tuple[FieldPath, str]]:
    """All CIDR values, and where they are."""
    for direction, peers in _DIRECTIONS:
        for index, rule in enumerate(spec.get(direction) or ()):
            for number, peer in enumerate(rule.get(peers) or ()):
                block, path = peer.get("ipBlock"), _SPEC / direction / index / peers / number / "ipBlock"
                if block is not None:
                    yield path / "cidr", block.get("cidr", "")
                    excepted = enumerate(block.get("except") or ())
                    yield from ((path / "except" / place, text) for place, text in excepted)


def _policy_warnings(policy: JSONObject, _old: JSONObject | None, _: Review) -> Iterator[str]:
    for path, text in _blocks(policy.get("spec") or {}):
        yield from cidr_warnings(text, path)


def _policy(policy: JSONObject, _: Review) -> list[FieldError]:
    metadata = policy.get("metadata") or {}
    errors = validate_metadata(metadata, subdomain_name, _METADATA, namespaced=True)
    return errors + _policy_spec(policy.get("spec") or {}, frozenset())


def _policy_update(policy: JSONObject, old: JSONObject, _: Review) -> list[FieldError]:
    metadata = policy.get("metadata") or {}
    errors = validate_metadata_update(metadata, old.get("metadata") or {}, _METADATA)
    accepted = frozenset(text for _, text in _blocks(old.get("spec") or {}))
    return errors + _policy_spec(policy.get("spec") or {}, accepted)


_MAX_CONTROLLER = 250
_HTTP_PATH = pattern(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")
_HTTP_PATH_MESSAGE = f"Invalid path (regex used for validation is '{_HTTP_PATH.pattern}')"


def validate_prefixed_path(text: str, path: FieldPath) -> list[FieldError]:
    """Validate a path that begins with a domain: ``IsDomainPrefixedPath``."""
    if not text:
        return [required(path)]
    host, _, rest = text.partition("/")
    if not host or not rest:
        return [invalid(path, text, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    errors = [invalid(path, host, message) for message in names.check_dns1123_subdomain(host)]
    if not _HTTP_PATH.fullmatch(rest):
        errors.append(invalid(path, rest, _HTTP_PATH_MESSAGE))
    return errors


def _class(ingress_class: JSONObject, _: Review) -> list[FieldError]:
    metadata, spec = ingress_class.get("metadata") or {}, ingress_class.get("spec") or {}
    errors = validate_metadata(metadata, subdomain_name, _METADATA, namespaced=False)
    controller, path = spec.get("controller", ""), _SPEC / "controller"
    if len(controller.encode()) > _MAX_CONTROLLER:
        errors.append(too_long(path, _MAX_CONTROLLER))
    errors += validate_prefixed_path(controller, path)
    parameters = spec.get("parameters")
    if parameters is None:
        return errors
    return errors + _validate_parameters(parameters, _SPEC / "parameters")


def _validate_parameters(parameters: JSONObject, path: FieldPath) -> list[FieldError]:
    errors = validate_typed_reference(parameters, path, is_covered=True)
    scope, namespace, place = parameters.get("scope"), parameters.get("namespace"), path / "namespace"
    if scope is None:
        return [*errors, required(path / "scope")]
    if scope not in {"Cluster", "Namespace"}:
        return [*errors, not_supported(path / "scope", scope, ("Cluster", "Namespace"))]
    if scope == "Cluster":
        detail = "`parameters.scope` is set to 'Cluster'"
        return errors if namespace is None else [*errors, forbidden(place, detail)]
    if namespace is None:
        return [*errors, required(place, "`parameters.scope` is set to 'Namespace'")]
    return errors + [invalid(place, namespace, message) for message in label_name(namespace, False)]


def validate_typed_reference(
    reference: JSONObject, path: FieldPath, *, is_covered: bool = False
) -> list[FieldError]:
    """Validate group, kind and name of a reference to an object."""
    errors = []
    group: JSON = reference.get("apiGroup")
    if group is not None:
        messages = names.check_dns1123_subdomain(group)
        errors += [invalid(path / "apiGroup", group, message) for message in messages]
    for name in ("kind", "name"):
        text = reference.get(name, "")
        if not text:
            error = required(path / name)
            errors += covered(error) if is_covered else [error]
        errors += [invalid(path / name, text, message) for message in names.check_path_segment(text)]
    return errors


def _class_update(ingress_class: JSONObject, old: JSONObject, review: Review) -> list[FieldError]:
    metadata, spec = ingress_class.get("metadata") or {}, ingress_class.get("spec") or {}
    errors = validate_metadata_update(metadata, old.get("metadata") or {}, _METADATA)
    before = (old.get("spec") or {}).get("controller", "")
    errors += validate_immutable(spec.get("controller", ""), before, _SPEC / "controller")
    return errors + _class(ingress_class, review)


def _address_name(name: str, _is_prefix: bool) -> list[str]:  # noqa: FBT001 - the shape of a NameRule
    return [error.detail for error in validate_ip(name, ROOT)]


def _address(address: JSONObject, _: Review) -> list[FieldError]:
    errors = validate_metadata(address.get("metadata") or {}, _address_name, _METADATA, namespaced=False)
    parent, path = (address.get("spec") or {}).get("parentRef"), _SPEC / "parentRef"
    if parent is None:
        return errors + covered(required(path))
    group = parent.get("group", "")
    if group:
        errors += [invalid(path / "group", group, text) for text in names.check_dns1123_subdomain(group)]
    for name in ("resource", "name", "namespace"):
        segment = parent.get(name, "")
        if segment:
            errors += [invalid(path / name, segment, text) for text in names.check_path_segment(segment)]
        elif name != "namespace":
            errors += covered(required(path / name))
    return errors


def _address_update(address: JSONObject, old: JSONObject, review: Review) -> list[FieldError]:
    errors = _address(address, review)
    errors += validate_metadata_update(address.get("metadata") or {}, old.get("metadata") or {}, _METADATA)
    parent, before = ((value.get("spec") or {}).get("parentRef") for value in (address, old))
    if not differs("*networking.ParentReference", before, parent):
        return errors
    value = internal_value("*networking.ParentReference", parent)
    return errors + covered(invalid(_SPEC / "parentRef", value, FIELD_IS_IMMUTABLE), "immutable")


_CIDRS = _SPEC / "cidrs"
_MOST_CIDRS = 2
_ONE_OF_EACH = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"


def _service_cidr(written: JSONObject, _: Review) -> list[FieldError]:
    metadata = written.get("metadata") or {}
    errors = validate_metadata(metadata, subdomain_name, _METADATA, namespaced=False)
    return errors + _validate_service_cidrs(written.get("spec") or {})


def _validate_service_cidrs(spec: JSONObject) -> list[FieldError]:
    cidrs = spec.get("cidrs") or []
    if not cidrs:
        return [required(_CIDRS, "at least one CIDR required")]
    if len(cidrs) > _MOST_CIDRS:
        value = internal_value("*networking.ServiceCIDRSpec", spec)
        return [invalid(_CIDRS, value, f"may only hold up to {_MOST_CIDRS} values")]
    errors = [error for index, cidr in enumerate(cidrs) for error in validate_cidr(cidr, _CIDRS / index)]
    parsed = [parse_cidr(cidr) for cidr in cidrs]
    families = [found and _family(found[0]) for found in parsed]
    if len(cidrs) == _MOST_CIDRS and families[0] is not None and families[0] == families[1]:
        errors.append(invalid(_CIDRS, cidrs, _ONE_OF_EACH))
    return errors


def _family(address: Address) -> int:
    """The family of an address; one of IPv6 that stands for IPv4 is of IPv4."""
    return 6 if is_ipv6(str(address)) else 4


def _service_cidr_update(written: JSONObject, old: JSONObject, _: Review) -> list[FieldError]:
    errors = validate_metadata_update(written.get("metadata") or {}, old.get("metadata") or {}, _METADATA)
    spec = written.get("spec") or {}
    cidrs, before = spec.get("cidrs") or [], (old.get("spec") or {}).get("cidrs") or []
    is_extended = len(before) == 1 and len(cidrs) == _MOST_CIDRS
    if len(cidrs) != len(before) and not is_extended:
        return [*errors, invalid(_CIDRS, spec.get("cidrs"), FIELD_IS_IMMUTABLE)]
    errors += [
        invalid(_CIDRS / index, cidr, FIELD_IS_IMMUTABLE)
        for index, (cidr, stored) in enumerate(zip(cidrs, before, strict=False))
        if cidr != stored
    ]
    return errors + (_validate_service_cidrs(spec) if is_extended else [])


VALIDATIONS: ValidationTable = {
    (_GROUP, "networkpolicies"): KindValidation(_policy, _policy_update, _policy_warnings),
    (_GROUP, "ingressclasses"): KindValidation(_class, _class_update),
    (_GROUP, "ipaddresses"): KindValidation(_address, _address_update),
    (_GROUP, "servicecidrs"): KindValidation(_service_cidr, _service_cidr_update),
}
