"""HorizontalPodAutoscalers in four versions.

The tables are those of ``pkg/apis/autoscaling/{v1,v2,v2beta2}/conversion_test.go`` (Kubernetes, Apache-2.0).
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.conversions import converted, without_type

V1, V2, V2BETA1, V2BETA2 = (f"autoscaling/{version}" for version in ("v1", "v2", "v2beta1", "v2beta2"))
PREFIX = "autoscaling.alpha.kubernetes.io"
DEPLOYMENT = {"kind": "Deployment", "name": "my-deployment", "apiVersion": "apps/v1"}


def autoscaler(
    api_version: str, *, annotations: Any = None, status: Any = None, **spec: Any
) -> dict[str, Any]:
    metadata = {"name": "a"} | ({"annotations": annotations} if annotations else {})
    common = {"scaleTargetRef": DEPLOYMENT, "minReplicas": 1, "maxReplicas": 3}
    made = {"apiVersion": api_version, "kind": "HorizontalPodAutoscaler", "metadata": metadata}
    return made | {"spec": common | spec} | ({"status": status} if status else {})


def resource(name: str, **target: Any) -> dict[str, Any]:
    return {"type": "Resource", "resource": {"name": name, "target": target}}


def utilization(value: int) -> dict[str, Any]:
    return {"type": "Utilization", "averageUtilization": value}


def average(value: str) -> dict[str, Any]:
    return {"type": "AverageValue", "averageValue": value}


def of_value(value: str) -> dict[str, Any]:
    return {"type": "Value", "value": value}


CPU_VALUE = resource("cpu", **average("300m"))
MEMORY = resource("memory", **utilization(80))


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        ([CPU_VALUE, resource("cpu", **utilization(70))], 70),
        ([], None),
        ([resource("cpu", **utilization(60))], 60),
        ([resource("cpu", **utilization(60)), resource("cpu", **utilization(70))], 60),
        ([MEMORY], None),
    ],
    ids=["CPUAverageValueAndUtilizationBoth", "WithoutMetrics", "CPUUtilizationOnly", "two", "memory"],
)
def test_v1_has_a_field_for_the_first_cpu_utilization(metrics: list[Any], expected: int | None) -> None:
    found = converted(autoscaler(V2, metrics=metrics), V1)
    assert found["spec"].get("targetCPUUtilizationPercentage") == expected
    assert "metrics" not in found["spec"]


METRICS = {
    "Pods AverageValue": {
        "type": "Pods",
        "pods": {"metric": {"name": "http_requests_per_second"}, "target": average("1k")},
    },
    "Object AverageValue": {
        "type": "Object",
        "object": {
            "describedObject": DEPLOYMENT,
            "target": average("100"),
            "metric": {"name": "requests-per-second"},
        },
    },
    "Object Value": {
        "type": "Object",
        "object": {
            "describedObject": DEPLOYMENT,
            "target": of_value("200"),
            "metric": {"name": "errors-per-second", "selector": {"matchLabels": {"a": "b"}}},
        },
    },
    "External AverageValue": {
        "type": "External",
        "external": {"metric": {"name": "queue_depth", "selector": {}}, "target": average("50")},
    },
    "External Value": {
        "type": "External",
        "external": {"metric": {"name": "queue_length", "selector": {}}, "target": of_value("30")},
    },
    "ContainerResource CPU Utilization": {
        "type": "ContainerResource",
        "containerResource": {"name": "cpu", "target": utilization(60), "container": "app"},
    },
    "ContainerResource Memory AverageValue": {
        "type": "ContainerResource",
        "containerResource": {"name": "memory", "target": average("128Mi"), "container": "app"},
    },
    "Resource Memory Utilization": MEMORY,
    "Resource Memory AverageValue": resource("memory", **average("256Mi")),
    "Resource CPU AverageValue": resource("cpu", **average("500m")),
    "Resource CPU Utilization": resource("cpu", **utilization(75)),
}
"""The last one stands last because v1 brings it back last."""


@pytest.mark.parametrize("version", [V1, V2BETA1, V2BETA2])
@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_a_metric_survives_a_round_trip(version: str, metric: dict[str, Any]) -> None:
    before = autoscaler(V2, metrics=[metric])
    assert converted(converted(before, version), V2) == before


@pytest.mark.parametrize("version", [V1, V2BETA1, V2BETA2])
def test_all_metrics_survive_a_round_trip(version: str) -> None:
    before = autoscaler(V2, metrics=list(METRICS.values()))
    assert converted(converted(before, version), V2) == before


def test_v1_restores_the_cpu_utilization_last() -> None:
    before = autoscaler(V2, metrics=[resource("cpu", **utilization(80)), METRICS["External Value"]])
    after = converted(converted(before, V1), V2)
    assert [metric["type"] for metric in after["spec"]["metrics"]] == ["External", "Resource"]


def test_v1_writes_other_metrics_into_an_annotation_as_go_does() -> None:
    before = autoscaler(V2, metrics=[METRICS["Object AverageValue"], CPU_VALUE])
    assert converted(before, V1)["metadata"]["annotations"] == {
        f"{PREFIX}/metrics": (
            '[{"type":"Object","object":{"target":{"kind":"Deployment","name":"my-deployment",'
            '"apiVersion":"apps/v1"},"metricName":"requests-per-second","targetValue":"0",'
            '"averageValue":"100"}},'
            '{"type":"Resource","resource":{"name":"cpu","targetAverageValue":"300m"}}]'
        )
    }


def test_v1_without_metrics_defaults_to_80_percent_cpu() -> None:
    assert converted(autoscaler(V1), V2) == autoscaler(V2, metrics=[resource("cpu", **utilization(80))])


RULES: dict[str, Any] = {
    "single pods policy with stabilization window": {
        "stabilizationWindowSeconds": 300,
        "policies": [{"type": "Pods", "value": 2, "periodSeconds": 60}],
    },
    "select policy min with multiple policies": {
        "selectPolicy": "Min",
        "stabilizationWindowSeconds": 0,
        "policies": [
            {"type": "Percent", "value": 100, "periodSeconds": 30},
            {"type": "Pods", "value": 4, "periodSeconds": 30},
        ],
    },
    "select policy disabled": {
        "selectPolicy": "Disabled",
        "policies": [{"type": "Percent", "value": 100, "periodSeconds": 60}],
    },
    "tolerance": {"tolerance": "0.1"},
}


@pytest.mark.parametrize("version", [V1, V2BETA1, V2BETA2])
@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
@pytest.mark.parametrize("directions", [("scaleUp",), ("scaleDown",), ("scaleUp", "scaleDown")])
def test_behavior_survives_a_round_trip(version: str, rules: Any, directions: tuple[str]) -> None:
    before = autoscaler(
        V2, annotations={"key": "value"}, metrics=[MEMORY], behavior=dict.fromkeys(directions, rules)
    )
    assert converted(converted(before, version), V2) == before


@pytest.mark.parametrize("version", [V1, V2BETA1])
def test_behavior_is_written_under_the_go_field_names(version: str) -> None:
    before = autoscaler(V2, metrics=[MEMORY], behavior={"scaleUp": RULES["select policy disabled"]})
    assert converted(before, version)["metadata"]["annotations"][f"{PREFIX}/behavior"] == (
        '{"ScaleUp":{"StabilizationWindowSeconds":null,"SelectPolicy":"Disabled",'
        '"Policies":[{"Type":"Percent","Value":100,"PeriodSeconds":60}],"Tolerance":null},"ScaleDown":null}'
    )


def test_behavior_is_read_case_insensitively() -> None:
    kept = {"scaleup": {"SELECTPOLICY": "Max"}}
    before = autoscaler(V1, annotations={f"{PREFIX}/behavior": json.dumps(kept)})
    assert converted(before, V2)["spec"]["behavior"] == {"scaleUp": {"selectPolicy": "Max"}}


def test_v2beta2_writes_tolerances_into_annotations() -> None:
    behavior = {"scaleUp": {"tolerance": "0.1"}, "scaleDown": {"tolerance": "0.2"}}
    found = converted(autoscaler(V2, behavior=behavior), V2BETA2)
    assert found["spec"]["behavior"] == {"scaleUp": {}, "scaleDown": {}}
    assert found["metadata"]["annotations"] == {
        f"{PREFIX}/scale-down-tolerance": "0.2",
        f"{PREFIX}/scale-up-tolerance": "0.1",
    }


STATUS = {
    "observedGeneration": 7,
    "lastScaleTime": "2025-01-01T00:00:00Z",
    "currentReplicas": 2,
    "desiredReplicas": 3,
    "currentMetrics": [
        {"type": "Pods", "pods": {"metric": {"name": "r"}, "current": {"averageValue": "123"}}},
        {"type": "External", "external": {"metric": {"name": "q"}, "current": {"value": "42"}}},
        {
            "type": "Object",
            "object": {
                "metric": {"name": "s"},
                "current": {"averageValue": "0"},
                "describedObject": DEPLOYMENT,
            },
        },
        {
            "type": "Object",
            "object": {"metric": {"name": "m"}, "current": {"value": "0"}, "describedObject": DEPLOYMENT},
        },
        {
            "type": "ContainerResource",
            "containerResource": {
                "name": "memory",
                "current": {"averageValue": "256Mi"},
                "container": "app",
            },
        },
        {
            "type": "Resource",
            "resource": {"name": "cpu", "current": {"averageValue": "10m", "averageUtilization": 5}},
        },
    ],
    "conditions": [
        {
            "type": "ScalingActive",
            "status": "True",
            "observedGeneration": 7,
            "lastTransitionTime": "2025-01-01T00:00:00Z",
            "reason": "ScalingActive",
            "message": "a < b",
        }
    ],
}


@pytest.mark.parametrize("version", [V1, V2BETA1, V2BETA2])
def test_a_status_survives_a_round_trip(version: str) -> None:
    before = autoscaler(V2, status=STATUS, metrics=[MEMORY])
    assert converted(converted(before, version), V2) == before


def test_v1_has_a_field_for_the_current_cpu_utilization() -> None:
    found = converted(autoscaler(V2, status=STATUS, metrics=[MEMORY]), V1)
    assert found["status"]["currentCPUUtilizationPercentage"] == 5
    assert set(found["status"]).isdisjoint({"currentMetrics", "conditions"})
    assert "a \\u003c b" in found["metadata"]["annotations"][f"{PREFIX}/conditions"]


def test_a_v1_status_without_annotation_yields_the_cpu_metric() -> None:
    before = autoscaler(V1, status={"currentReplicas": 1, "currentCPUUtilizationPercentage": 9})
    cpu_metric = {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 9}}}
    assert converted(before, V2)["status"] == {"currentReplicas": 1, "currentMetrics": [cpu_metric]}


@pytest.mark.parametrize("kept", ["{", '"x"', "[1]", "null", ""])
def test_unreadable_annotations_are_dropped(kept: str) -> None:
    names = ("metrics", "behavior", "current-metrics", "conditions")
    before = autoscaler(V1, annotations={f"{PREFIX}/{name}": kept for name in names} | {"a": "b"})
    assert converted(before, V2) == autoscaler(
        V2, annotations={"a": "b"}, metrics=[resource("cpu", **utilization(80))]
    )


def test_v2_drops_the_annotations_of_other_versions() -> None:
    before = autoscaler(V2, annotations={f"{PREFIX}/metrics": "[]", "a": "b"}, metrics=[MEMORY])
    assert converted(before, V2BETA2) == autoscaler(V2BETA2, annotations={"a": "b"}, metrics=[MEMORY])


def test_v2beta1_writes_flat_targets() -> None:
    before = autoscaler(V2, metrics=[METRICS["Object Value"], MEMORY])
    assert without_type(converted(before, V2BETA1))["spec"]["metrics"] == [
        {
            "type": "Object",
            "object": {
                "target": DEPLOYMENT,
                "metricName": "errors-per-second",
                "targetValue": "200",
                "selector": {"matchLabels": {"a": "b"}},
            },
        },
        {"type": "Resource", "resource": {"name": "memory", "targetAverageUtilization": 80}},
    ]
