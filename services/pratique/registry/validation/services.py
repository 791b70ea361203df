"""Services.

Sources: ``ValidateServiceCreate`` and ``ValidateServiceUpdate`` of ``pkg/apis/core/validation/validation.go``, and
``pkg/api/service/{util,warnings}.go``. What only allocation finds, such as an address outside the cluster's range, is
not known here.
"""

from __future__ import annotations

from collections.abc import Iterator

from pratique.admission.reviews import Review
from pratique.apimachinery import names
from pratique.apimachinery.field_errors import (
    ROOT,
    FieldError,
    FieldPath,
    GoLiteral,
    duplicate,
    forbidden,
    invalid,
    json_text,
    not_supported,
    required,
)
from pratique.apimachinery.json_values import JSONObject, encode
from pratique.apimachinery.selectors import validate_labels
from pratique.apimachinery.statuses import go_quoted
from pratique.registry.validation.addresses import (
    cidr_warnings,
    ip_warnings,
    validate_endpoint_ip,
    validate_legacy_cidr,
    validate_legacy_ip,
    validate_port,
    validate_port_or_name,
)
from pratique.registry.validation.cluster_ips import (
    is_headless,
    validate_cluster_ips,
    validate_cluster_ips_update,
    validate_families_update,
    validate_family_counts,
)
from pratique.registry.validation.kind_validation import AllocationError, KindValidation, ValidationTable
from pratique.registry.validation.metadata import label_name, validate_metadata, validate_metadata_update

_METADATA, _SPEC = ROOT / "metadata", ROOT / "spec"
_CLUSTER_IP, _NODE_PORT, _LOAD_BALANCER = "ClusterIP", "NodePort", "LoadBalancer"
_EXTERNAL_NAME = "ExternalName"
_TYPES = (_CLUSTER_IP, _EXTERNAL_NAME, _LOAD_BALANCER, _NODE_PORT)
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_AFFINITIES = ("ClientIP", "None")
_POLICIES = ("Cluster", "Local")
_DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
_MAX_AFFINITY_SECONDS = 86400
_HINTS = "service.kubernetes.io/topology-aware-hints"
_MODE = "service.kubernetes.io/topology-mode"
_SOURCE_RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"
_FOR_LOAD_BALANCERS = "may only be used when `type` is 'LoadBalancer'"


def _create(service: JSONObject, _: Review) -> list[FieldError]:
    metadata = service.get("metadata") or {}
    spec = service.get("spec") or {}
    # allocation looks at the addresses before anything is validated, and refuses them alone
    if errors := validate_cluster_ips(spec, None) or validate_family_counts(spec, None):
        return errors
    return validate_metadata(metadata, label_name, _METADATA, namespaced=True) + _validate(service, None)


def _update(service: JSONObject, old: JSONObject, _: Review) -> list[FieldError]:
    spec, old_spec = service.get("spec") or {}, old.get("spec") or {}
    if errors := validate_cluster_ips(spec, old_spec) or validate_family_counts(spec, old_spec):
        return errors
    _check_node_ports(spec)
    errors = validate_metadata_update(service.get("metadata") or {}, old.get("metadata") or {}, _METADATA)
    errors += validate_cluster_ips_update(spec, old_spec)
    errors += validate_families_update(spec, old_spec)
    errors += _validate_class(spec, old_spec)
    if _needs_health_check(old_spec) and _needs_health_check(spec):
        port, old_port = spec.get("healthCheckNodePort"), old_spec.get("healthCheckNodePort")
        if port and old_port and port != old_port:
            errors.append(forbidden(_SPEC / "healthCheckNodePort", "field is immutable"))
    return errors + _validate(service, old)


def _check_node_ports(spec: JSONObject) -> None:
    """Fail as the allocator of an update does over a node port that is there twice: ``updateNodePorts``."""
    found = set()
    for port in spec.get("ports") or () if spec.get("type") in {_LOAD_BALANCER, _NODE_PORT} else ():
        key = (port.get("protocol", ""), port.get("nodePort") or 0)
        if key[1] and key in found:
            raise AllocationError(f"duplicate nodePort: {{{key[0]} {key[1]}}}")
        found.add(key)


def _validate(service: JSONObject, old: JSONObject | None) -> list[FieldError]:
    annotations = (service.get("metadata") or {}).get("annotations") or {}
    spec, old_spec = service.get("spec") or {}, (old or {}).get("spec") or {}
    errors = []
    if _HINTS in annotations and annotations.get(_MODE, annotations[_HINTS]) != annotations[_HINTS]:
        path = (_METADATA / "annotations").key(_MODE)
        message = f"must match annotations[{_HINTS}] when both are specified"
        errors.append(invalid(path, annotations[_MODE], message))
    errors += _validate_type(spec)
    ports = spec.get("ports") or []
    found_names: set[str] = set()
    for index, port in enumerate(ports):
        errors += _validate_port(port, _SPEC / "ports" / index, found_names, needs_name=len(ports) > 1)
    errors += validate_labels(spec.get("selector") or {}, _SPEC / "selector")
    errors += _validate_affinity(spec)
    errors += _validate_external_ips(spec, old_spec)
    type_ = spec.get("type", "")
    if not type_:
        errors.append(required(_SPEC / "type"))
    elif type_ not in _TYPES:
        errors.append(not_supported(_SPEC / "type", type_, _TYPES))
    errors += _validate_distinct_ports(ports, type_)
    errors += _validate_source_ranges(service, old)
    errors += _validate_node_port_allocation(spec)
    errors += _validate_class(spec, None)
    errors += _validate_external_policy(spec)
    return errors + _validate_traffic(spec)


def _validate_type(spec: JSONObject) -> list[FieldError]:
    errors, type_ = [], spec.get("type", "")
    if not spec.get("ports") and not is_headless(spec) and type_ != _EXTERNAL_NAME:
        errors.append(required(_SPEC / "ports"))
    if type_ == _EXTERNAL_NAME:
        message = "may not be set for ExternalName services"
        fields = ("clusterIPs", "ipFamilies", "ipFamilyPolicy")
        given = [name for name in fields if spec.get(name) or (name == "ipFamilyPolicy" and name in spec)]
        errors += [forbidden(_SPEC / name, message) for name in given]
        path, host = _SPEC / "externalName", spec.get("externalName", "").removesuffix(".")
        errors += [invalid(path, host, message) for message in names.check_dns1123_subdomain(host) if host]
        if not host:
            errors.append(required(path))
    elif type_ in {_LOAD_BALANCER, _NODE_PORT} and (spec.get("clusterIPs") or [""])[0] == "None":
        message = f"may not be set to 'None' for {type_} services"
        errors.append(invalid(_SPEC / "clusterIPs" / 0, "None", message))
    return errors


def _validate_port(
    port: JSONObject, path: FieldPath, found_names: set[str], *, needs_name: bool
) -> list[FieldError]:
    errors = []
    name, protocol = port.get("name", ""), port.get("protocol", "")
    if name:
        errors += [invalid(path / "name", name, message) for message in names.check_dns1123_label(name)]
        if name in found_names:
            errors.append(duplicate(path / "name", name))
        found_names.add(name)
    elif needs_name:
        errors.append(required(path / "name"))
    errors += validate_port(port.get("port"), path / "port")
    if not protocol:
        errors.append(required(path / "protocol"))
    elif protocol not in _PROTOCOLS:
        errors.append(not_supported(path / "protocol", protocol, _PROTOCOLS))
    errors += validate_port_or_name(port.get("targetPort", 0), path / "targetPort")
    if (application := port.get("appProtocol")) is not None:
        errors += _validate_qualified_name(application, path / "appProtocol")
    return errors


def _validate_qualified_name(name: str, path: FieldPath) -> list[FieldError]:
    return [invalid(path, name, message) for message in names.check_qualified_name(name)]


def _validate_affinity(spec: JSONObject) -> list[FieldError]:
    affinity, path = spec.get("sessionAffinity", ""), _SPEC / "sessionAffinity"
    if not affinity:
        return [required(path)]
    if affinity not in _AFFINITIES:
        return [not_supported(path, affinity, _AFFINITIES)]
    config, path = spec.get("sessionAffinityConfig"), _SPEC / "sessionAffinityConfig"
    if affinity == "None":
        message = "must not be set when session affinity is None"
        return [] if config is None else [forbidden(path, message)]
    for name in ("clientIP", "timeoutSeconds"):
        if config is None:
            break
        config, path = config.get(name), path / name
    if config is None:
        return [required(path, "when session affinity type is ClientIP")]
    if 0 < config <= _MAX_AFFINITY_SECONDS:
        return []
    return [invalid(path, config, f"must be greater than 0 and less than {_MAX_AFFINITY_SECONDS}")]


def _validate_external_ips(spec: JSONObject, old_spec: JSONObject) -> list[FieldError]:
    errors, accepted = [], frozenset(old_spec.get("externalIPs") or ())
    for index, address in enumerate(spec.get("externalIPs") or ()):
        path = _SPEC / "externalIPs" / index
        errors += validate_legacy_ip(address, path, accepted) or validate_endpoint_ip(address, path)
    return errors


def _validate_distinct_ports(ports: list[JSONObject], type_: str) -> list[FieldError]:
    errors = []
    if type_ == _CLUSTER_IP:
        message = "may not be used when `type` is 'ClusterIP'"
        errors += [
            forbidden(_SPEC / "ports" / index / "nodePort", message)
            for index, port in enumerate(ports)
            if port.get("nodePort")
        ]
    node_ports, numbers = set(), set()
    for index, port in enumerate(ports):
        key = (port.get("protocol"), port.get("nodePort"))
        if key[1] and key in node_ports:
            errors.append(duplicate(_SPEC / "ports" / index / "nodePort", key[1]))
        node_ports.add(key)
    for index, port in enumerate(ports):
        key = (port.get("protocol", ""), port.get("port", 0))
        if key in numbers:
            errors.append(duplicate(_SPEC / "ports" / index, _port_value(*key)))
        numbers.add(key)
    return errors


def _port_value(protocol: str, port: int) -> GoLiteral:
    """A port of nothing but protocol and number, as Go prints the internal type."""
    name = encode(protocol).decode()
    return GoLiteral(
        f'{{"Name":"","Protocol":{name},"AppProtocol":null,"Port":{port},"TargetPort":0,"NodePort":0}}'
    )


def _validate_source_ranges(service: JSONObject, old: JSONObject | None) -> list[FieldError]:
    spec, path = service.get("spec") or {}, _SPEC / "LoadBalancerSourceRanges"
    annotation = _source_ranges_annotation(service)
    is_forbidden = spec.get("type") != _LOAD_BALANCER
    if ranges := spec.get("loadBalancerSourceRanges"):
        errors = [forbidden(path, _FOR_LOAD_BALANCERS)] if is_forbidden else []
        stored = ((old or {}).get("spec") or {}).get("loadBalancerSourceRanges") or ()
        accepted = {value.strip() for value in stored}
        for index, value in enumerate(ranges):
            errors += validate_legacy_cidr(value.strip(), path / index, accepted)
        return errors
    if annotation is None:
        return []
    path = (_METADATA / "annotations").key(_SOURCE_RANGES)
    errors = [forbidden(path, _FOR_LOAD_BALANCERS)] if is_forbidden else []
    if (old is None or _source_ranges_annotation(old) != annotation) and annotation.strip():
        for value in annotation.strip().split(","):
            errors += validate_legacy_cidr(value.strip(), path)
    return errors


def _source_ranges_annotation(service: JSONObject) -> str | None:
    found: str | None = ((service.get("metadata") or {}).get("annotations") or {}).get(_SOURCE_RANGES)
    return found


def _validate_node_port_allocation(spec: JSONObject) -> list[FieldError]:
    allocates = spec.get("allocateLoadBalancerNodePorts")
    if allocates is not None and spec.get("type") != _LOAD_BALANCER:
        return [forbidden(_SPEC / "allocateLoadBalancerNodePorts", _FOR_LOAD_BALANCERS)]
    if allocates is None and spec.get("type") == _LOAD_BALANCER:
        return [required(ROOT / "allocateLoadBalancerNodePorts")]
    return []


def _validate_class(spec: JSONObject, old_spec: JSONObject | None) -> list[FieldError]:
    path, class_ = _SPEC / "loadBalancerClass", spec.get("loadBalancerClass")
    errors = []
    stays = old_spec is not None and old_spec.get("type") == spec.get("type") == _LOAD_BALANCER
    if old_spec is not None and stays and old_spec.get("loadBalancerClass") != class_:
        printed = None if class_ is None else json_text(class_)
        errors.append(invalid(path, printed, "may not change once set"))
    if class_ is None:
        return errors
    if spec.get("type") == _LOAD_BALANCER:
        return errors + _validate_qualified_name(class_, path)
    return [*errors, forbidden(path, _FOR_LOAD_BALANCERS)]


def _is_externally_accessible(spec: JSONObject) -> bool:
    if spec.get("type") in {_LOAD_BALANCER, _NODE_PORT}:
        return True
    return spec.get("type") == _CLUSTER_IP and bool(spec.get("externalIPs"))


def _needs_health_check(spec: JSONObject) -> bool:
    return spec.get("type") == _LOAD_BALANCER and spec.get("externalTrafficPolicy") == "Local"


def _validate_external_policy(spec: JSONObject) -> list[FieldError]:
    policy, path = spec.get("externalTrafficPolicy", ""), _SPEC / "externalTrafficPolicy"
    errors = []
    if not _is_externally_accessible(spec):
        if policy:
            errors.append(invalid(path, policy, "may only be set for externally-accessible services"))
    elif not policy:
        errors.append(required(path))
    elif policy not in _POLICIES:
        errors.append(not_supported(path, policy, _POLICIES))
    port, path = spec.get("healthCheckNodePort") or 0, _SPEC / "healthCheckNodePort"
    if port and not _needs_health_check(spec):
        condition = "`type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        errors.append(invalid(path, port, f"may only be set when {condition}"))
    elif port:  # one that is missing is allocated
        errors += validate_port(port, path)
    return errors


def _validate_traffic(spec: JSONObject) -> list[FieldError]:
    errors = []
    policy, path = spec.get("internalTrafficPolicy"), _SPEC / "internalTrafficPolicy"
    if policy is None and spec.get("type") in {_NODE_PORT, _LOAD_BALANCER, _CLUSTER_IP}:
        errors.append(required(path))
    if policy is not None and policy not in _POLICIES:
        errors.append(not_supported(path, policy, _POLICIES))
    distribution = spec.get("trafficDistribution")
    if distribution is not None and distribution not in _DISTRIBUTIONS:
        errors.append(not_supported(_SPEC / "trafficDistribution", distribution, _DISTRIBUTIONS))
    return errors


def _warnings(service: JSONObject, _old: JSONObject | None, _: Review) -> Iterator[str]:
    spec = service.get("spec") or {}
    if _HINTS in ((service.get("metadata") or {}).get("annotations") or {}):
        yield f"annotation {_HINTS} is deprecated, please use {_MODE} instead"
    headless = is_headless(spec)
    if spec.get("clusterIP") not in {None, "", "None"}:
        for index, address in enumerate(spec.get("clusterIPs") or ()):
            yield from ip_warnings(address, _SPEC / "clusterIPs" / index)
    external_ips = spec.get("externalIPs") or ()
    if headless:
        yield from _headless_warnings(spec)
    for index, address in enumerate(external_ips):
        yield from ip_warnings(address, _SPEC / "externalIPs" / index)
    if external_ips and not headless and spec.get("type") != _EXTERNAL_NAME:
        yield "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
    if address := spec.get("loadBalancerIP"):
        yield from ip_warnings(address, _SPEC / "loadBalancerIP")
    for index, value in enumerate(spec.get("loadBalancerSourceRanges") or ()):
        yield from cidr_warnings(value, _SPEC / "loadBalancerSourceRanges" / index)
    yield from _type_warnings(spec)


def _headless_warnings(spec: JSONObject) -> Iterator[str]:
    if spec.get("loadBalancerIP"):
        yield "spec.loadBalancerIP is ignored for headless services"
    if spec.get("externalIPs"):
        yield "spec.externalIPs is ignored for headless services"
    if spec.get("sessionAffinity") != "None":
        yield "spec.SessionAffinity is ignored for headless services"


def _type_warnings(spec: JSONObject) -> Iterator[str]:
    quoted = go_quoted(_EXTERNAL_NAME)
    if spec.get("type") == _EXTERNAL_NAME and spec.get("externalIPs"):
        yield f"spec.externalIPs is ignored when spec.type is {quoted}"
    if spec.get("type") != _EXTERNAL_NAME and spec.get("externalName"):
        yield f"spec.externalName is ignored when spec.type is not {quoted}"
    if spec.get("trafficDistribution") == "PreferClose":
        yield 'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'


VALIDATIONS: ValidationTable = {("", "services"): KindValidation(_create, _update, _warnings)}
