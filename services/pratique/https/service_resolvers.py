"""Service resolvers: the address at which to reach a Service of the cluster.

Whatever the address, a webhook's certificate must have the Service's name. Source:
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
"""Maps a Service's host, ``<name>.<namespace>.svc``, and port to the host or address and port to connect to.

May raise :class:`UnresolvedError`.
"""


class UnresolvedError(Exception):
    """A Service has no address. The message is the API server's."""


def resolve_by_dns(host: str, port: int) -> tuple[str, int]:
    """Leave a Service to DNS, as in a Pod of its cluster."""
    return host, port


def cluster_resolver(cluster: Cluster) -> ServiceResolver:
    """Look up Services among the cluster's objects; leave unknown ones to DNS.

    The address is that of a ready endpoint if the cluster holds the Service's EndpointSlices, otherwise the cluster
    IP or the external name.
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
        endpoint_slice
        for endpoint_slice in cluster.list("discovery.k8s.io", "endpointslices", namespace)
        if member(endpoint_slice, "metadata", "labels", "kubernetes.io/service-name") == name
    ]


def _endpoints(service: JSONObject, slices: Iterable[JSONObject], port: int) -> list[tuple[str, int]]:
    port_name = member(_service_port(service, port), "name") or ""
    found = [
        (address, slice_port)
        for endpoint_slice in slices
        for slice_port in _ports(endpoint_slice, port_name)
        for address in _ready_addresses(endpoint_slice)
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
    for service_port in member(service, "spec", "ports") or ():
        if member(service_port, "port") == port:
            return service_port
    raise UnresolvedError(f"no service port {port} found for service {go_quoted(_name(service))}")


def _name(service: JSONObject) -> str:
    return str(member(service, "metadata", "name") or "")
