"""What an API server fills in of Services: families of addresses, addresses and ports that they have already.

What only an allocator can give out, addresses and node ports, is left open. The cluster has one stack, of IPv4.

Sources: ``pkg/registry/core/service/strategy.go`` and ``pkg/registry/core/service/storage/{storage,alloc}.go`` of
Kubernetes 1.37.
"""

from __future__ import annotations

from pratique.apimachinery.json_values import JSON, JSONObject, mapping_at
from pratique.registry.validation.cluster_ips import validate_cluster_ips, validate_family_counts

_NONE = "None"
_IPV4, _IPV6 = "IPv4", "IPv6"
_SINGLE, _PREFER, _REQUIRE = "SingleStack", "PreferDualStack", "RequireDualStack"
_WITH_NODE_PORTS = frozenset({"NodePort", "LoadBalancer"})
_WITH_ADDRESS = frozenset({"ClusterIP", "NodePort", "LoadBalancer"})


def created_service(service: JSONObject) -> JSONObject:
    """A Service as it is created."""
    spec = mapping_at(service, "spec")
    filled = _with_both_addresses(spec)
    return {**service, "spec": _with_families(filled, {})}


def updated_service(service: JSONObject, stored: JSONObject) -> JSONObject:
    """A Service as it is updated: it keeps what was given out to it, as far as its type still needs it."""
    old = read_spec(mapping_at(stored, "spec"))
    spec = _with_given_out(mapping_at(service, "spec"), old)
    spec = _with_addresses_of_update(spec, old)
    return {**service, "spec": _of_type(_with_families(spec, old), old)}


def read_spec(spec: JSONObject) -> JSONObject:
    """A stored spec as it is read: ``defaultOnRead``."""
    spec = _with_both_addresses(spec)
    if not _needs_address(spec):
        return {name: value for name, value in spec.items() if name != "internalTrafficPolicy"}
    if spec.get("ipFamilies"):
        return spec
    if spec.get("clusterIP") == _NONE:
        dual = not spec.get("selector")
        families = [_IPV4, _IPV6] if dual else [_IPV4]
        return {**spec, "ipFamilies": families, "ipFamilyPolicy": _REQUIRE if dual else _SINGLE}
    families = [_family(address) for address in spec.get("clusterIPs") or ()]
    if not families:
        return spec
    return {**spec, "ipFamilies": families, "ipFamilyPolicy": _SINGLE if len(families) == 1 else _REQUIRE}


def _with_both_addresses(spec: JSONObject) -> JSONObject:
    """Name the address of an old client in the list, too: ``normalizeClusterIPs``."""
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        return {**spec, "clusterIPs": [spec["clusterIP"]]}
    return spec


def _with_families(spec: JSONObject, old: JSONObject) -> JSONObject:
    """Choose the families of addresses: ``initIPFamilyFields``."""
    if not _needs_address(spec) or _prefers_the_same(spec, old):
        return spec
    is_headless = spec.get("clusterIP") == _NONE and not spec.get("selector")
    policy = spec.get("ipFamilyPolicy")
    if policy is None:
        policy = old.get("ipFamilyPolicy") or (_REQUIRE if is_headless else _SINGLE)
    filled = {**spec, "ipFamilyPolicy": policy}
    if old and policy == _SINGLE:
        for field in ("clusterIPs", "ipFamilies"):
            if len(spec.get(field) or ()) > 1 and _same(field, spec, old):
                filled[field] = spec[field][:1]
    if validate_cluster_ips(filled, old or None) or validate_family_counts(filled, old or None):
        return filled  # refused for that alone
    families = list(filled.get("ipFamilies") or ())
    for address in (filled.get("clusterIPs") or ())[len(families) :]:
        if address == _NONE:
            break
        families.append(_family(address))
    families = families or [_IPV4]
    if is_headless and len(families) == 1 and policy != _SINGLE:
        families.append(_IPV6 if families[0] == _IPV4 else _IPV4)
    return {**filled, "ipFamilies": families}


def _prefers_the_same(spec: JSONObject, old: JSONObject) -> bool:
    """Tell an update that prefers both families and changes nothing: ``isMatchingPreferDualStackClusterIPFields``."""
    if not old or spec.get("ipFamilyPolicy") != _PREFER or spec.get("type") != old.get("type"):
        return False
    if spec.get("type") not in _WITH_ADDRESS or old.get("ipFamilyPolicy") not in (None, _PREFER):
        return False
    return _same("clusterIPs", spec, old) and _same("ipFamilies", spec, old)


def _with_given_out(spec: JSONObject, old: JSONObject) -> JSONObject:
    """Keep addresses and ports that an update leaves out: ``patchAllocatedValues``."""
    kept: JSONObject = {}
    if _needs_address(spec) and _needs_address(old):
        kept = {
            field: old[field]
            for field in ("clusterIP", "clusterIPs")
            if old.get(field) and not spec.get(field)
        }
    if _has_node_ports(spec) and _has_node_ports(old):
        kept["ports"] = _with_node_ports(spec.get("ports") or [], old.get("ports") or [])
    if _checks_health(spec) and _checks_health(old) and not spec.get("healthCheckNodePort"):
        kept |= {field: old[field] for field in ("healthCheckNodePort",) if old.get(field)}
    return {**spec, **kept} if kept else spec


def _with_node_ports(ports: list[JSON], old_ports: list[JSON]) -> list[JSON]:
    used = _node_ports(ports) & _node_ports(old_ports)
    by_name = {port.get("name") or "": port.get("nodePort") for port in old_ports}
    given_out = [by_name.get(port.get("name") or "") for port in ports]
    return [
        port if port.get("nodePort") or not number or number in used else {**port, "nodePort": number}
        for port, number in zip(ports, given_out, strict=True)
    ]


def _with_addresses_of_update(spec: JSONObject, old: JSONObject) -> JSONObject:
    """Let the list of addresses follow the one that an old client changes: ``normalizeClusterIPs``."""
    new_address, old_address = spec.get("clusterIP") or "", old.get("clusterIP") or ""
    if new_address == old_address:
        if old.get("clusterIPs") and not spec.get("clusterIPs"):
            return {**spec, "clusterIPs": old["clusterIPs"]}
        return spec
    if not _same("clusterIPs", spec, old):
        return spec
    if old_address and not new_address:
        return _without(spec, "clusterIPs")
    return {**spec, "clusterIPs": [new_address]}


def _of_type(spec: JSONObject, old: JSONObject) -> JSONObject:
    """Drop what the new type does not have, if it is still as it was: ``dropTypeDependentFields``."""
    dropped: list[str] = []
    if _needs_address(old) and not _needs_address(spec):
        if _same_addresses(spec, old):
            dropped += ("clusterIP", "clusterIPs")
        dropped += (field for field in ("ipFamilies", "ipFamilyPolicy") if _same(field, spec, old))
    if _checks_health(old) and not _checks_health(spec) and _same("healthCheckNodePort", spec, old):
        dropped.append("healthCheckNodePort")
    if old.get("type") == "LoadBalancer" and spec.get("type") != "LoadBalancer":
        dropped += (
            field
            for field in ("allocateLoadBalancerNodePorts", "loadBalancerClass")
            if _same(field, spec, old)
        )
    if _is_accessible(old) and not _is_accessible(spec) and _same("externalTrafficPolicy", spec, old):
        dropped.append("externalTrafficPolicy")
    spec = _without(spec, *dropped) if dropped else spec
    ports, old_ports = spec.get("ports") or [], old.get("ports") or []
    loses_ports = _has_node_ports(old) and not _has_node_ports(spec)
    if loses_ports and _node_ports(ports) and _node_ports(ports) <= _node_ports(old_ports):
        spec = {**spec, "ports": [_without(port, "nodePort") for port in ports]}
    return spec


def _without(value: JSONObject, *fields: str) -> JSONObject:
    return {name: inner for name, inner in value.items() if name not in fields}


def _same(field: str, spec: JSONObject, old: JSONObject) -> bool:
    return (spec.get(field) or None) == (old.get(field) or None)


def _same_addresses(spec: JSONObject, old: JSONObject) -> bool:
    return _same("clusterIP", spec, old) and _same("clusterIPs", spec, old)


def _needs_address(spec: JSONObject) -> bool:
    return spec.get("type") != "ExternalName"


def _has_node_ports(spec: JSONObject) -> bool:
    return spec.get("type") in _WITH_NODE_PORTS


def _checks_health(spec: JSONObject) -> bool:
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def _is_accessible(spec: JSONObject) -> bool:
    kind = spec.get("type")
    return kind in _WITH_NODE_PORTS or (kind == "ClusterIP" and bool(spec.get("externalIPs")))


def _node_ports(ports: list[JSON]) -> set[int]:
    return {port["nodePort"] for port in ports if port.get("nodePort")}


def _family(address: str) -> str:
    return _IPV6 if ":" in address else _IPV4
