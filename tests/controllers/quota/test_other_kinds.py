"""What Services, claims and other objects use of quotas."""

from __future__ import annotations

import pytest

from pratique.apimachinery.errors import RefusalError
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.controllers.quota import evaluators
from pratique.controllers.quota.checks import evaluator_of, evaluators_of
from support.resource_quotas import document, review, texts

PORTS: list[JSONObject] = [{"port": 80}, {"port": 443, "nodePort": 30443}]


@pytest.mark.parametrize(
    ("spec", "node_ports", "load_balancers"),
    [
        ({"ports": PORTS}, "0", "0"),
        ({"type": "ClusterIP", "ports": PORTS}, "0", "0"),
        ({"type": "NodePort", "ports": PORTS}, "2", "0"),
        ({"type": "NodePort"}, "0", "0"),
        ({"type": "LoadBalancer", "ports": PORTS}, "2", "1"),
        ({"type": "LoadBalancer", "ports": PORTS, "allocateLoadBalancerNodePorts": True}, "2", "1"),
        ({"type": "LoadBalancer", "ports": PORTS, "allocateLoadBalancerNodePorts": False}, "1", "1"),
    ],
)
def test_services_use_node_ports_and_load_balancers(
    spec: JSONObject, node_ports: str, load_balancers: str
) -> None:
    found = evaluators.SERVICES.usage(document("services", spec))
    assert texts(found) == {
        "count/services": "1",
        "services": "1",
        "services.nodeports": node_ports,
        "services.loadbalancers": load_balancers,
    }
    assert all(map(evaluators.SERVICES.matches_resource, found))


def claim(storage: JSON = None, allocated: JSON = None, **spec: JSON) -> JSONObject:
    requests = {} if storage is None else {"storage": storage}
    status = {} if allocated is None else {"allocatedResources": {"storage": allocated}}
    spec = {"resources": {"requests": requests}, **spec}
    return document("persistentvolumeclaims", spec, status=status)


@pytest.mark.parametrize(
    ("reviewed", "storage"),
    [
        (claim("1Gi"), "1Gi"),
        (claim("1500m"), "2"),
        (claim("1Gi", "2Gi"), "2Gi"),
        (claim("3Gi", "2Gi"), "3Gi"),
        (claim(None, "2Gi"), None),
        (claim(), None),
    ],
)
def test_claims_use_the_requested_or_allocated_storage_in_bytes(
    reviewed: JSONObject, storage: str | None
) -> None:
    used = {"count/persistentvolumeclaims": "1", "persistentvolumeclaims": "1"}
    if storage is not None:
        used["requests.storage"] = storage
    assert texts(evaluators.VOLUME_CLAIMS.usage(reviewed)) == used


def test_claims_are_also_charged_per_storage_class() -> None:
    found = evaluators.VOLUME_CLAIMS.usage(claim("1Gi", storageClassName="gold"))
    assert texts(found) == {
        "count/persistentvolumeclaims": "1",
        "persistentvolumeclaims": "1",
        "requests.storage": "1Gi",
        "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
        "gold.storageclass.storage.k8s.io/requests.storage": "1Gi",
    }
    assert all(map(evaluators.VOLUME_CLAIMS.matches_resource, found))
    assert not evaluators.VOLUME_CLAIMS.matches_resource("gold.storageclass.storage.k8s.io/limits.storage")


@pytest.mark.parametrize(("subresource", "charged"), [("", True), ("status", True), ("finalize", False)])
def test_claims_are_charged_when_they_change(subresource: str, *, charged: bool) -> None:
    update = review(
        claim("2Gi"), resource="persistentvolumeclaims", old=claim("1Gi"), subresource=subresource
    )
    assert evaluators.VOLUME_CLAIMS.handles(update) is charged


@pytest.mark.parametrize(
    ("operation", "subresource", "charged"),
    [("CREATE", "", True), ("UPDATE", "", True), ("UPDATE", "status", False), ("CREATE", "binding", False)],
)
def test_resource_claims_are_charged_on_creation_and_update(
    operation: str, subresource: str, *, charged: bool
) -> None:
    claims = {"kind": "ResourceClaim", "metadata": {"name": "gpu", "namespace": "shop"}}
    old = claims if operation == "UPDATE" else None
    request = review(claims, resource="resourceclaims", old=old, subresource=subresource)
    assert evaluators.DEVICE_CLAIMS.handles(request) is charged


def devices(*requests: JSONObject) -> dict[str, str]:
    claims = {"kind": "ResourceClaim", "spec": {"devices": {"requests": list(requests)}}}
    found = evaluators.DEVICE_CLAIMS.usage(claims)
    assert all(map(evaluators.DEVICE_CLAIMS.matches_resource, found))
    used = texts(found)
    assert used.pop("count/resourceclaims.resource.k8s.io") == "1"
    return {name.removesuffix(".deviceclass.resource.k8s.io/devices"): count for name, count in used.items()}


def wanted(name: str, **how: JSON) -> JSONObject:
    return {"deviceClassName": name, **how}


@pytest.mark.parametrize(
    ("requests", "used"),
    [
        ([], {}),
        ([{"exactly": wanted("gpu")}], {"gpu": "1"}),
        ([{"exactly": wanted("gpu", allocationMode="ExactCount", count=3)}], {"gpu": "3"}),
        ([wanted("gpu", count=2), {"exactly": wanted("gpu")}], {"gpu": "3"}),
        ([{"exactly": wanted("gpu", allocationMode="All")}], {"gpu": "32"}),
        ([{"exactly": wanted("gpu", allocationMode="Most")}], {"gpu": "0"}),
        (
            [{"firstAvailable": [wanted("gpu", count=2), wanted("gpu", count=4), wanted("cpu")]}],
            {"gpu": "4", "cpu": "1"},
        ),
        ([{"name": "of a kind to come"}], {}),
    ],
)
def test_resource_claims_are_charged_their_maximum_of_devices(
    requests: list[JSONObject], used: dict[str, str]
) -> None:
    assert devices(*requests) == used


@pytest.mark.parametrize(
    ("group", "resource", "names"),
    [
        ("", "configmaps", {"configmaps", "count/configmaps"}),
        ("", "secrets", {"secrets", "count/secrets"}),
        ("", "endpoints", {"count/endpoints"}),
        ("apps", "deployments", {"count/deployments.apps"}),
        ("apps", "secrets", {"count/secrets.apps"}),
    ],
)
def test_all_other_resources_are_counted(group: str, resource: str, names: set[str]) -> None:
    evaluator = evaluator_of(group, resource)
    assert evaluator.usage({}).keys() == names
    assert set(filter(evaluator.matches_resource, {"configmaps", "secrets", "pods", *names})) == names


def test_counted_objects_are_charged_on_creation() -> None:
    evaluator = evaluator_of("", "configmaps")
    reviewed = document("configmaps")
    assert evaluator.handles(review(reviewed, resource="configmaps"))
    assert not evaluator.handles(review(reviewed, resource="configmaps", old=reviewed))
    assert not evaluator.handles(review(reviewed, resource="configmaps", subresource="status"))


def test_evaluators_are_chosen_by_the_names_in_a_quota() -> None:
    names = ["pods", "count/deployments.apps", "count/events", "count/events.events.k8s.io", "batteries"]
    found = {(evaluator.group, evaluator.resource) for evaluator in evaluators_of(names)}
    assert found == {("", "pods"), ("apps", "deployments")}


@pytest.mark.parametrize("reviewed", [{"kind": "Other"}, None, [], "Pod"])
@pytest.mark.parametrize(
    ("group", "resource", "name"),
    [
        ("", "services", "services"),
        ("", "persistentvolumeclaims", "persistentvolumeclaims"),
        ("", "pods", "pods"),
        ("resource.k8s.io", "resourceclaims", "resourceclaims.resource.k8s.io"),
    ],
)
def test_an_object_of_another_kind_is_a_bad_request(
    group: str, resource: str, name: str, reviewed: JSON
) -> None:
    with pytest.raises(RefusalError) as caught:
        evaluator_of(group, resource).check_kind(reviewed)
    assert caught.value.status.code == 400
    assert caught.value.status.message == f"Resource was marked as {name} but was unable to be converted"
