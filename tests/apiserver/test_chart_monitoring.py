"""What the chart tells Prometheus, Grafana and the autoscaler, and what ``helm test`` asks: names that there are."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from support.charts import CHART, RELEASE, by_name, rendered

DOCS = Path(__file__).parents[2] / "docs"
ROW = re.compile(r"^\| `(\w+)` \| (?:(counter)|(gauge)|(histogram)) \|", re.MULTILINE)
NAME = re.compile(r"\b(?:pratique|apiserver|grpc|process)_\w+")


def documented() -> set[str]:
    """The series of all documented metrics: other tests hold the pages to what services show."""
    names = set()
    for page in ("observability.md", "live-cluster.md"):
        for name, _, _, histogram in ROW.findall((DOCS / page).read_text()):
            names |= {f"{name}{end}" for end in ("_bucket", "_count", "_sum")} if histogram else {name}
    return names


def everything(**values: Any) -> dict[tuple[str, str], Any]:
    given = {"monitoring": {"enabled": True}, "autoscaling": {"enabled": True, "inFlight": 10}, **values}
    return by_name(rendered(given))


def expressions() -> list[str]:
    made = everything(liveCluster={"enabled": True})
    groups = made["PrometheusRule", RELEASE]["spec"]["groups"]
    dashboard = json.loads(made["ConfigMap", "pratique-dashboard"]["data"]["pratique.json"])
    alerts = [rule["expr"] for group in groups for rule in group["rules"]]
    return alerts + [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


def test_every_metric_that_is_named_exists() -> None:
    made = everything()
    scaled = [
        metric["pods"]["metric"]["name"]
        for (kind, _), document in made.items()
        if kind == "HorizontalPodAutoscaler"
        for metric in document["spec"]["metrics"]
        if metric["type"] == "Pods"
    ]
    named = {name for text in (*expressions(), *scaled) for name in NAME.findall(text)}
    assert len(named) > 20
    assert named <= documented(), named - documented()


def test_every_alert_that_the_documentation_asks_for_is_there() -> None:
    text = (DOCS / "observability.md").read_text()
    listed = text.partition("### What to alert on")[2].partition("## Audit")[0].partition("To see whether")[0]
    asked = {name for name in NAME.findall(listed) if not name.endswith("time")}
    given = {name for expression in expressions() for name in NAME.findall(expression)}
    assert asked - {"pratique_inputs_mismatches_total"} <= given


def test_brackets_of_expressions_are_closed_and_alerts_say_what_to_do() -> None:
    for expression in expressions():
        for opening, closing in ("()", "{}", "[]"):
            assert expression.count(opening) == expression.count(closing), expression
    for group in everything()["PrometheusRule", RELEASE]["spec"]["groups"]:
        for rule in group["rules"]:
            assert rule["labels"]["severity"] in {"warning", "critical"}
            assert rule["annotations"].keys() == {"summary", "description"}


def test_alerts_of_a_live_cluster_are_only_where_there_is_one() -> None:
    names = [group["name"] for group in everything()["PrometheusRule", RELEASE]["spec"]["groups"]]
    assert names == ["pratique"]


@pytest.mark.parametrize("service", ["frontdoor", "mutator", "validator"])
def test_an_autoscaler_decides_how_many_pods_there_are(service: str) -> None:
    made = everything()
    assert "replicas" not in made["Deployment", f"pratique-{service}"]["spec"]
    scaler = made["HorizontalPodAutoscaler", f"pratique-{service}"]["spec"]
    assert scaler["scaleTargetRef"]["name"] == f"pratique-{service}"
    assert scaler["minReplicas"] == 2 < scaler["maxReplicas"]
    assert [metric["type"] for metric in scaler["metrics"]] == ["Pods", "Resource"]


def test_prometheus_is_let_in_where_metrics_are_and_nowhere_else() -> None:
    made = everything()
    args = made["Deployment", "pratique-frontdoor"]["spec"]["template"]["spec"]["containers"][0]["args"]
    assert "--client-allowed-names=kube-apiserver,prometheus" in args
    [policy] = made["NetworkPolicy", "monitoring-to-metrics"]["spec"]["ingress"]
    assert [port["port"] for port in policy["ports"]] == [8443, 9101]
    for service in ("mutator", "validator"):
        ports = made["Service", f"pratique-{service}"]["spec"]["ports"]
        assert [port["name"] for port in ports] == ["grpc", "metrics"]
    [monitored] = made["ServiceMonitor", "pratique-frontdoor"]["spec"]["endpoints"]
    assert monitored["tlsConfig"]["keySecret"]["name"] == "pratique-prometheus-tls"


def test_selectors_of_monitors_find_their_services() -> None:
    made = everything()
    labels = {name: made["Service", name]["metadata"]["labels"] for name in ("pratique", "pratique-mutator")}
    key = "app.kubernetes.io/name"
    assert (
        made["ServiceMonitor", "pratique-frontdoor"]["spec"]["selector"]["matchLabels"][key]
        == labels["pratique"][key]
    )
    [wanted] = made["ServiceMonitor", "pratique-services"]["spec"]["selector"]["matchExpressions"]
    assert labels["pratique-mutator"][wanted["key"]] in wanted["values"]


def test_panels_of_the_dashboard_do_not_overlap() -> None:
    dashboard = json.loads((CHART / "files" / "dashboard.json").read_text())
    places = [panel["gridPos"] for panel in dashboard["panels"]]
    assert len({(place["x"], place["y"]) for place in places}) == len(places) == 12
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(places)
