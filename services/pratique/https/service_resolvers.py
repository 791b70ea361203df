"""Service resolvers: at which address a service of the cluster is to be reached.

The name that a webhook's certificate must bear stays the service's, whatever the address. Source:
``k8s.io/apiserver/pkg/util/proxy/proxy.go``.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import TypeAlias

from pratique.apimachinery.json_values import JSON, JSONObject, member
from pratique.apimachinery.statuses import go_quoted
from pratique.cluster.store import Cluster

ServiceResolver: TypeAlias = Callable[[str, int], tuple[str, int]]
"""From a service's host, ``<name>.<namespace>.svc``, and port to the host or address and port to use.

It may raise :class:`UnresolvedError`.
"""


class UnresolvedError(Exception):
    """A service has no address. Says why as the API server does."""


def resolve_by_dns(host: str, port: int) -> tuple[str, int]:
    """Leave a service to DNS, as in a Pod of its cluster."""
    return host, port


def cluster_resolver(cluster: Cluster) -> ServiceResolver:
    """Look services up among the cluster's objects; those that it does not hold are left to DNS.

    The address is that of a ready endpoint, where the cluster holds the service's EndpointSlices, else its
    cluster IP or external name.
    """

    def resolve(host: str, port: int) -> tuple[str, int]:
        name, _, rest = host.partition(".")
        namespace = rest.removesuffix(".svc")
        service = cluster.get("", "services", name, namespace)
        if service is None:
            return resolve_by_dns(host, port)
        slices = _slices(cluster, name, namespace)
        if slices:
            return random.choice(_endpoints(service, slices, port))  # noqa: S311  # spreads load, guards nothing
        return _cluster_address(service, port)

    return resolve


def _slices(cluster: Cluster, name: str, namespace: str) -> list[JSONObject]:
    return [
        each
        for each in cluster.list("discovery.k8s.io", "endpointslices", namespace)
        if member(each, "metadata", "labels", "kubernetes.io/service-name") == name
    ]


def _endpoints(service: JSONObject, slices: Iterable[JSONObject], port: int) -> list[tuple[str, int]]:
    port_name = member(_service_port(service, port), "name") or ""
    found = [
        (address, slice_port)
        for each in slices
        for slice_port in _ports(each, port_name)
        for address in _ready_addresses(each)
    ]
    if not found:
        raise UnresolvedError(f"no endpoints available for service {go_quoted(_name(service))}")
    return found


def _ports(endpoint_slice: JSONObject, name: str) -> Iterable[int]:
    for port in endpoint_slice.get("ports") or ():
        number = member(port, "port")
        if (member(port, "name") or "") == name and isinstance(number, int):
            yield number


def _ready_addresses(endpoint_slice: JSONObject) -> Iterable[str]:
    for endpoint in endpoint_slice.get("endpoints") or ():
        address = member(endpoint, "addresses", 0)
        if member(endpoint, "conditions", "ready") is not False and isinstance(address, str):
            yield address


def _cluster_address(service: JSONObject, port: int) -> tuple[str, int]:
    kind = member(service, "spec", "type") or "ClusterIP"
    if kind == "ExternalName":
        return str(member(service, "spec", "externalName")), port
    _service_port(service, port)
    address = member(service, "spec", "clusterIP")
    if not isinstance(address, str) or address in {"", "None"}:
        raise UnresolvedError(f"no endpoints available for service {go_quoted(_name(service))}")
    return address, port


def _service_port(service: JSONObject, port: int) -> JSON:
    for each in member(service, "spec", "ports") or ():
        if member(each, "port") == port:
            return each
    raise UnresolvedError(f"no service port {port} found for service {go_quoted(_name(service))}")


def _name(service: JSONObject) -> str:
    return str(member(service, "metadata", "name") or "")
