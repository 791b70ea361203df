"""Deployments, DaemonSets and Scales in the versions of ``apps`` and ``extensions``."""

from __future__ import annotations

from typing import Any

import pytest

from pratique.apimachinery.errors import ConversionError
from support.conversions import converted, without_type

ROLLBACK = "deprecated.deployment.rollback.to"
GENERATION = "deprecated.daemonset.template.generation"
OLD_DEPLOYMENTS = ["extensions/v1beta1", "apps/v1beta1"]
NEW_DEPLOYMENTS = ["apps/v1beta2", "apps/v1"]
SPEC = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {"spec": {}}}


def workload(kind: str, api_version: str, *, annotations: Any = None, **spec: Any) -> dict[str, Any]:
    metadata = {"name": "web"} | ({"annotations": annotations} if annotations else {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": SPEC | spec}


@pytest.mark.parametrize("old", OLD_DEPLOYMENTS)
@pytest.mark.parametrize("new", NEW_DEPLOYMENTS)
@pytest.mark.parametrize(
    ("field", "annotation"),
    [({"rollbackTo": {"revision": 3}}, {ROLLBACK: "3"}), ({"rollbackTo": {}}, {ROLLBACK: "0"}), ({}, None)],
)
def test_a_rollback_moves_between_field_and_annotation(
    old: str, new: str, field: dict[str, Any], annotation: dict[str, str] | None
) -> None:
    before = workload("Deployment", old, **field)
    after = workload("Deployment", new, annotations=annotation)
    assert converted(before, new) == after
    assert converted(after, old) == before


def test_other_annotations_are_kept() -> None:
    before = workload("Deployment", "apps/v1", annotations={ROLLBACK: "7", "a": "b"})
    after = workload("Deployment", "apps/v1beta1", annotations={"a": "b"}, rollbackTo={"revision": 7})
    assert converted(before, "apps/v1beta1") == after


def test_an_empty_rollback_annotation_is_dropped() -> None:
    before = workload("Deployment", "apps/v1", annotations={ROLLBACK: ""})
    assert "rollbackTo" not in converted(before, "apps/v1beta1")["spec"]
    assert "annotations" not in converted(before, "apps/v1beta2")["metadata"]


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("x", 'strconv.ParseInt: parsing "x": invalid syntax'),
        ("1_0", 'strconv.ParseInt: parsing "1_0": invalid syntax'),
        ("9223372036854775808", 'strconv.ParseInt: parsing "9223372036854775808": value out of range'),
    ],
)
def test_a_non_numeric_rollback_annotation_is_refused_in_the_api_servers_words(
    written: str, problem: str
) -> None:
    before = workload("Deployment", "apps/v1", annotations={ROLLBACK: written})
    with pytest.raises(ConversionError) as raised:
        converted(before, "extensions/v1beta1")
    assert str(raised.value) == f"failed to parse annotation[{ROLLBACK}]={written} as int64: {problem}"


def test_a_non_numeric_template_generation_is_refused() -> None:
    before = workload("DaemonSet", "apps/v1", annotations={GENERATION: "four"})
    with pytest.raises(ConversionError, match=r'strconv\.ParseInt: parsing "four": invalid syntax'):
        converted(before, "extensions/v1beta1")


@pytest.mark.parametrize("new", ["apps/v1beta2", "apps/v1"])
def test_a_template_generation_moves_between_field_and_annotation(new: str) -> None:
    before = workload("DaemonSet", "extensions/v1beta1", templateGeneration=4)
    after = workload("DaemonSet", new, annotations={GENERATION: "4"})
    assert converted(before, new) == after
    assert converted(after, "extensions/v1beta1") == before


def test_apps_v1_daemon_sets_always_carry_the_generation() -> None:
    before = workload("DaemonSet", "extensions/v1beta1")
    assert converted(before, "apps/v1")["metadata"]["annotations"] == {GENERATION: "0"}


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet", "ControllerRevision"])
def test_other_workloads_change_only_their_version(kind: str) -> None:
    before = workload(kind, "apps/v1beta2", annotations={ROLLBACK: "3", GENERATION: "4"})
    assert converted(before, "apps/v1") == before | {"apiVersion": "apps/v1"}


def scale(api_version: str, **status: Any) -> dict[str, Any]:
    return {
        "apiVersion": api_version,
        "kind": "Scale",
        "metadata": {"name": "web"},
        "spec": {"replicas": 2},
        "status": {"replicas": 2, **status},
    }


@pytest.mark.parametrize("old", ["extensions/v1beta1", "apps/v1beta1", "apps/v1beta2"])
@pytest.mark.parametrize(
    ("new_status", "old_status"),
    [
        ({"selector": "app=web"}, {"selector": {"app": "web"}, "targetSelector": "app=web"}),
        ({"selector": "a=,b=c"}, {"selector": {"a": "", "b": "c"}, "targetSelector": "a=,b=c"}),
        ({"selector": "app in (a,b)"}, {"targetSelector": "app in (a,b)"}),
        ({"selector": "app=web,!old"}, {"targetSelector": "app=web,!old"}),
        ({}, {}),
    ],
)
def test_an_apps_scale_has_selector_and_target_selector(
    old: str, new_status: dict[str, Any], old_status: dict[str, Any]
) -> None:
    assert converted(scale("autoscaling/v1", **new_status), old) == scale(old, **old_status)
    assert converted(scale(old, **old_status), "autoscaling/v1") == scale("autoscaling/v1", **new_status)


def test_a_scale_with_only_labels_yields_a_selector() -> None:
    before = scale("apps/v1beta1", selector={"b": "2", "a": "1"})
    assert converted(before, "autoscaling/v1")["status"]["selector"] == "a=1,b=2"
    both = scale("apps/v1beta1", selector={"b": "2"}, targetSelector="a=1")
    assert converted(both, "autoscaling/v1")["status"]["selector"] == "a=1"


def test_a_scale_without_status_gains_none() -> None:
    before = {"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 1}}
    assert without_type(converted(before, "apps/v1beta2")) == without_type(before)
