"""Who reaches whom, by the network policies of the chart."""

from __future__ import annotations

from typing import Any

import pytest

from support.charts import by_name, refusal, rendered

SERVICES = ("frontdoor", "mutator", "validator")
NAME = "app.kubernetes.io/name"
API_SERVERS = {"ipBlock": {"cidr": "192.0.2.0/24"}}
CERT_MANAGER = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "cert-manager"}}}
ELSEWHERE = {"ipBlock": {"cidr": "198.51.100.7/32"}}
KUBE_DNS = {
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
    "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
}


def egress(peer: dict[str, Any], port: int) -> dict[str, Any]:
    return {"to": [peer], "ports": [{"protocol": "TCP", "port": port}]}


def selects(selector: dict[str, Any], name: str) -> bool:
    """Whether a selector of Pods selects those of a service; all that it may ask for is their name."""
    expressions = selector.get("matchExpressions", [])
    wanted = [[selector.get("matchLabels", {}).get(NAME, name)], *(item["values"] for item in expressions)]
    assert all(item["key"] == NAME and item["operator"] == "In" for item in expressions)
    return all(name in names for names in wanted)


def reached_by(service: str, values: dict[str, Any]) -> list[tuple[dict[str, Any], int]]:
    """Where the Pods of a service may connect to: peers and ports."""
    made = by_name(rendered(values))
    specs = [document["spec"] for (kind, _), document in made.items() if kind == "NetworkPolicy"]
    return [
        (peer, port["port"])
        for spec in specs
        if "Egress" in spec["policyTypes"] and selects(spec["podSelector"], f"pratique-{service}")
        for rule in spec.get("egress", [])
        for peer in rule["to"]
        for port in rule["ports"]
    ]


@pytest.mark.parametrize("service", SERVICES)
def test_conversion_webhooks_are_reached_by_all_services_that_ask_them(service: str) -> None:
    reached = reached_by(service, {"networkPolicy": {"egress": {"services": [egress(CERT_MANAGER, 10250)]}}})
    assert (CERT_MANAGER, 10250) in reached
    assert (KUBE_DNS, 53) in reached


@pytest.mark.parametrize("service", SERVICES)
def test_what_one_service_needs_is_open_to_no_other(service: str) -> None:
    values = {"networkPolicy": {"egress": {service: [egress(ELSEWHERE, 5432)]}}}
    assert [name for name in SERVICES if (ELSEWHERE, 5432) in reached_by(name, values)] == [service]


@pytest.mark.parametrize("live", [True, False])
def test_services_reach_the_api_server_where_they_follow_it_and_nobody_else_does(*, live: bool) -> None:
    values = {"liveCluster": {"enabled": live, "authorizer": "cluster"}}
    for service in SERVICES:
        assert ((API_SERVERS, 6443) in reached_by(service, values)) == live
    assert (API_SERVERS, 6443) not in reached_by("test", values)


def test_another_dns_takes_the_place_of_the_usual_one_everywhere() -> None:
    local = {"ipBlock": {"cidr": "169.254.20.10/32"}}
    values = {"networkPolicy": {"dns": egress(local, 53)}}
    text = rendered(values, hooks=True)
    assert text.count("169.254.20.10/32") == 2, "the front door's, and that of `helm test`"
    assert "kube-dns" not in text


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"to": [ELSEWHERE]}, "missing property 'ports'"),
        ({"ports": [{"port": 443}]}, "missing property 'to'"),
        ({"to": [], "ports": [{"port": 443}]}, "minItems"),
        ({"from": [ELSEWHERE]}, "additional properties 'from' not allowed"),
    ],
)
def test_rules_that_would_open_more_than_they_say_are_refused(rule: dict[str, Any], message: str) -> None:
    assert message in refusal({"networkPolicy": {"egress": {"services": [rule]}}})


def test_values_that_helm_kept_from_an_older_chart_are_refused_in_clear_words() -> None:
    """What ``helm upgrade --reuse-values`` does."""
    said = refusal({"networkPolicy": {"egress": None}})
    assert "at '/networkPolicy': missing property 'egress'" in said
