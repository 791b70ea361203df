from __future__ import annotations

from collections.abc import Sequence

import pytest

from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.cluster.api_resources import ApiResources, built_in_resources
from pratique.cluster.store import ANY_NAMESPACE
from pratique.https.service_resolvers import UnresolvedError, cluster_resolver, resolve_by_dns

HOST = "hook.shop.svc"


class Held:
    """A cluster with one Service and its EndpointSlices."""

    def __init__(self, spec: JSONObject | None, *slices: JSONObject) -> None:
        self._service = None if spec is None else {"metadata": {"name": "hook"}, "spec": spec}
        self._slices = slices

    def get(self, group: str, resource: str, name: str, namespace: str = "") -> JSONObject | None:
        asked = (group, resource, name, namespace)
        return self._service if asked == ("", "services", "hook", "shop") else None

    @property
    def resources(self) -> ApiResources:
        return built_in_resources()

    def list(self, group: str, resource: str, namespace: str | None = None) -> Sequence[JSONObject]:
        asked = (group, resource, namespace)
        return self._slices if asked == ("discovery.k8s.io", "endpointslices", "shop") else ()


def endpoint_slice(
    *endpoints: JSON, port: int = 9443, name: str = "https", service: str = "hook"
) -> JSONObject:
    return {
        "metadata": {"labels": {"kubernetes.io/service-name": service}},
        "endpoints": list(endpoints),
        "ports": [{"name": "metrics", "port": 1}, {"name": name, "port": port}],
    }


PORTS = [{"name": "metrics", "port": 80}, {"name": "https", "port": 443}]
CLUSTER_IP = {"clusterIP": "10.96.0.7", "ports": PORTS}


@pytest.mark.parametrize("cluster", [ANY_NAMESPACE, Held(None)])
def test_an_unknown_service_is_left_to_dns(cluster: Held) -> None:
    assert cluster_resolver(cluster)(HOST, 443) == resolve_by_dns(HOST, 443) == (HOST, 443)


@pytest.mark.parametrize("kind", [{}, {"type": "ClusterIP"}, {"type": "NodePort"}, {"type": "LoadBalancer"}])
def test_a_service_without_endpoint_slices_resolves_to_its_cluster_ip(kind: JSONObject) -> None:
    assert cluster_resolver(Held({**CLUSTER_IP, **kind}))(HOST, 443) == ("10.96.0.7", 443)


def test_an_external_name_service_resolves_to_its_name() -> None:
    spec = {"type": "ExternalName", "externalName": "hook.example.com"}
    assert cluster_resolver(Held(spec))(HOST, 8443) == ("hook.example.com", 8443)


def test_an_endpoint_is_reached_at_the_port_with_the_same_name() -> None:
    slices = endpoint_slice({"addresses": ["10.1.0.5", "10.1.0.6"]})
    assert cluster_resolver(Held(CLUSTER_IP, slices))(HOST, 443) == ("10.1.0.5", 9443)


def test_a_port_without_name_matches_an_empty_name() -> None:
    slices = endpoint_slice({"addresses": ["10.1.0.5"]}, name="")
    spec = {"clusterIP": "None", "ports": [{"port": 443}]}
    assert cluster_resolver(Held(spec, slices))(HOST, 443) == ("10.1.0.5", 9443)


def test_only_ready_endpoints_of_the_service_are_used() -> None:
    slices = [
        endpoint_slice({"addresses": ["10.1.0.1"], "conditions": {"ready": False}}),
        endpoint_slice({"addresses": ["10.1.0.2"]}, service="other"),
        endpoint_slice(
            {"addresses": ["10.1.0.3"], "conditions": {"ready": True}}, {"addresses": ["10.1.0.4"]}
        ),
    ]
    resolve = cluster_resolver(Held(CLUSTER_IP, *slices))
    assert {resolve(HOST, 443)[0] for _ in range(100)} == {"10.1.0.3", "10.1.0.4"}


@pytest.mark.parametrize(
    ("cluster", "text"),
    [
        (Held({"clusterIP": "10.96.0.7", "ports": []}), 'no service port 443 found for service "hook"'),
        (Held({"clusterIP": "None", "ports": PORTS}), 'no endpoints available for service "hook"'),
        (Held(CLUSTER_IP, endpoint_slice()), 'no endpoints available for service "hook"'),
        (
            Held(CLUSTER_IP, endpoint_slice({"addresses": ["10.1.0.1"]}, name="other")),
            'no endpoints available for service "hook"',
        ),
    ],
)
def test_a_service_without_address_fails_in_the_api_servers_words(cluster: Held, text: str) -> None:
    with pytest.raises(UnresolvedError) as raised:
        cluster_resolver(cluster)(HOST, 443)
    assert str(raised.value) == text
