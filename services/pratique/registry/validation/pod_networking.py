"""How Pods are named and reached: host names, host ports, DNS.

Source: ``validatePodDNSConfig``, ``ValidateHostAliases``, ``validatePodHostName`` and
``validatePodHostNetworkDeps`` of ``pkg/apis/core/validation/validation.go``.
"""

from __future__ import annotations

from collections.abc import Sequence

from pratique.apimachinery import names
from pratique.apimachinery.field_errors import FieldError, FieldPath, forbidden, invalid, required, too_long
from pratique.apimachinery.json_values import JSONObject
from pratique.registry.validation.addresses import validate_legacy_ip
from pratique.registry.validation.pod_context import PodOptions, visit_containers


def validate_host_ports(spec: JSONObject, path: FieldPath, *, is_pod: bool) -> list[FieldError]:
    """Validate the ports of containers in the host's network."""
    errors, detail = [], "must match `containerPort` when `hostNetwork` is true"
    for index, container in enumerate(spec.get("containers") or ()):
        for number, port in enumerate(container.get("ports") or ()):
            host_port = port.get("hostPort", 0)
            if (is_pod or host_port) and host_port != port.get("containerPort", 0):
                place = path / "containers" / index / "ports" / number / "hostPort"
                errors.append(invalid(place, host_port, detail))
    return errors


_MAX_NAMESERVERS, _MAX_SEARCHES, _MAX_SEARCH_CHARACTERS = 3, 32, 2048


def validate_dns(spec: JSONObject, path: FieldPath) -> list[FieldError]:
    """Validate the configuration of DNS, at its path, by the Pod's policy."""
    config = spec.get("dnsConfig")
    if spec.get("dnsPolicy") == "None":
        if config is None:
            return [required(path, "must provide `dnsConfig` when `dnsPolicy` is None")]
        if not config.get("nameservers"):
            detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            return [required(path / "nameservers", detail)]
    if config is None:
        return []
    errors, servers, place = [], config.get("nameservers") or [], path / "nameservers"
    if len(servers) > _MAX_NAMESERVERS:
        errors.append(invalid(place, servers, f"must not have more than {_MAX_NAMESERVERS} nameservers"))
    for index, server in enumerate(servers):
        errors += validate_legacy_ip(server, place / index)
    errors += _validate_searches(config.get("searches") or [], path / "searches")
    return errors + [
        required(path / "options" / index, "must not be empty")
        for index, option in enumerate(config.get("options") or ())
        if not option.get("name")
    ]


def _validate_searches(searches: list[str], path: FieldPath) -> list[FieldError]:
    errors = []
    if len(searches) > _MAX_SEARCHES:
        errors.append(invalid(path, searches, f"must not have more than {_MAX_SEARCHES} search paths"))
    if len(" ".join(searches).encode()) > _MAX_SEARCH_CHARACTERS:
        limit = f"{_MAX_SEARCH_CHARACTERS} characters (including spaces)"
        errors.append(invalid(path, searches, f"must not have more than {limit} in the search list"))
    for index, search in enumerate(searches):
        domain = search.removesuffix(".")
        if search != ".":
            messages = names.check_dns1123_subdomain_with_underscore(domain)
            errors += [invalid(path / index, domain, message) for message in messages]
    return errors


def validate_host_aliases(aliases: Sequence[JSONObject], path: FieldPath) -> list[FieldError]:
    """Validate entries of the Pod's hosts file."""
    errors = []
    for index, alias in enumerate(aliases):
        errors += validate_legacy_ip(alias.get("ip", ""), path / index / "ip")
        for number, name in enumerate(alias.get("hostnames") or ()):
            place = path / index / "hostnames" / number
            errors += [invalid(place, name, message) for message in names.check_dns1123_subdomain(name)]
    return errors


_LONGEST_HOST_NAME = 64


def validate_host_name(spec: JSONObject, path: FieldPath) -> list[FieldError]:
    """Validate a host name that is not the Pod's own."""
    name, place = spec["hostnameOverride"], path / "hostnameOverride"
    reasons = (("setHostnameAsFQDN", spec.get("setHostnameAsFQDN")), ("hostNetwork", spec.get("hostNetwork")))
    errors = [
        forbidden(place, f"may not be specified when {field} is true") for field, is_set in reasons if is_set
    ]
    if len(name.encode()) > _LONGEST_HOST_NAME:
        errors.append(too_long(place, _LONGEST_HOST_NAME))
    return errors + [invalid(place, name, message) for message in names.check_dns1123_subdomain(name)]


def validate_host_users(spec: JSONObject, path: FieldPath, options: PodOptions) -> list[FieldError]:
    """Validate that a Pod of a user namespace of its own shares no other with the host: ``validateHostUsers``."""
    detail = "when `hostUsers` is false"
    fields = (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC"))
    errors = [forbidden(path / shown, detail) for field, shown in fields if spec.get(field)]
    if options.devices_of_user_namespaces:
        return errors
    return errors + [
        forbidden(place / "volumeDevices", detail)
        for container, place in visit_containers(spec, path)
        if container.get("volumeDevices")
    ]
