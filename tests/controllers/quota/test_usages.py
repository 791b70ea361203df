"""The usage of a quota, counted from existing objects."""

from __future__ import annotations

import pytest

from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.cluster.store import ObjectStore
from pratique.controllers.quota.checks import starting_usage, usage_of
from pratique.controllers.quota.resource_quotas import read_quota
from support.resource_quotas import counted_pod, document, quota, requesting, texts

DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "shop"}}
THERE = [
    counted_pod(requesting(cpu="1", limits={"cpu": "2"}), name="a", priorityClassName="high"),
    counted_pod(requesting(), name="b"),
    {**counted_pod(requesting(cpu="4"), name="over"), "status": {"phase": "Succeeded"}},
    {**counted_pod(requesting(cpu="8"), name="elsewhere"), "metadata": {"name": "c", "namespace": "other"}},
    document("services", {"type": "NodePort", "ports": [{"port": 1}]}),
    document("configmaps"),
    document("events"),
    DEPLOYMENT,
]


def counted(*names: str, there: list[JSONObject] = THERE, **spec: JSON) -> dict[str, str]:
    return texts(usage_of(quota(dict.fromkeys(names, "1"), **spec), ObjectStore(there)))


@pytest.mark.parametrize(
    ("name", "used"),
    [
        ("pods", "2"),
        ("count/pods", "3"),
        ("cpu", "1"),
        ("requests.cpu", "1"),
        ("limits.cpu", "2"),
        ("requests.memory", "0"),
        ("requests.example.com/gpu", "0"),
        ("services", "1"),
        ("services.nodeports", "1"),
        ("services.loadbalancers", "0"),
        ("persistentvolumeclaims", "0"),
        ("configmaps", "1"),
        ("count/configmaps", "1"),
        ("count/deployments.apps", "1"),
        ("count/deployments.extensions", "1"),
        ("count/secrets", "0"),
        ("count/widgets.example.com", "0"),
    ],
)
def test_existing_objects_are_counted(name: str, used: str) -> None:
    assert counted(name) == {name: used}


def test_unused_resources_are_left_out() -> None:
    assert counted("batteries", "count/events", "pods") == {"pods": "2"}


@pytest.mark.parametrize(
    ("spec", "used"),
    [
        ({"scopes": ["BestEffort"]}, "1"),
        ({"scopes": ["NotBestEffort"]}, "1"),
        ({"scopes": ["BestEffort", "NotBestEffort"]}, "0"),
        (
            {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists"}]}},
            "1",
        ),
        ({"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In"}]}}, "0"),
    ],
)
def test_objects_that_match_all_scopes_are_counted(spec: JSONObject, used: str) -> None:
    assert counted("pods", **spec) == {"pods": used}


def test_a_quota_with_scopes_counts_no_services() -> None:
    assert counted("services", "configmaps", scopes=["NotTerminating"]) == {
        "services": "0",
        "configmaps": "0",
    }


def test_a_quota_with_a_status_starts_with_its_usage() -> None:
    there = ObjectStore(THERE)
    assert texts(starting_usage(read_quota(quota({"pods": "5"}, {"pods": "4"})), there)) == {"pods": "4"}
    assert texts(starting_usage(read_quota(quota({"pods": "5"})), there)) == {"pods": "2"}


@pytest.mark.parametrize("status", [None, {}, {"hard": None, "used": None}])
def test_an_empty_status_counts_as_missing(status: JSON) -> None:
    read = read_quota({**quota({"pods": "5"}), "status": status})
    assert texts(read.hard) == {"pods": "5"}
    assert read.used is None


def test_the_status_overrides_the_spec() -> None:
    read = read_quota({**quota({"pods": "5"}), "status": {"used": {"pods": "4"}}})
    assert not read.hard
    assert texts(read.used or {}) == {"pods": "4"}


def test_an_object_that_cannot_be_counted_is_named() -> None:
    with pytest.raises(InputError) as caught:
        counted("pods", there=[counted_pod(requesting(cpu="much"))])
    assert str(caught.value).startswith('pods "shop/one": spec.containers[0].resources.requests.cpu: ')


def test_a_quota_that_cannot_be_read_is_named() -> None:
    with pytest.raises(InputError) as caught:
        read_quota(quota({"pods": "many"}))
    assert str(caught.value).startswith("resourcequotas shop/quota: spec.hard.pods: ")
