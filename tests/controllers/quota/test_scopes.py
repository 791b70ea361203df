"""The scopes of quotas, and the objects that match them."""

from __future__ import annotations

import pytest

from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.controllers.quota import evaluators, pod_evaluator
from pratique.controllers.quota.resource_quotas import (
    ScopeRequirement,
    format_scopes,
    read_scopes,
    scope_selects,
)
from support.resource_quotas import counted_pod, document, quota, requesting


def scope(name: str, operator: str = "Exists", *values: str) -> ScopeRequirement:
    return ScopeRequirement(name, operator, values)


def near(kind: str, term: JSONObject, *, weighted: bool = False) -> JSONObject:
    field = "preferred" if weighted else "required"
    terms = [{"weight": 1, "podAffinityTerm": term}] if weighted else [term]
    return counted_pod(affinity={kind: {f"{field}DuringSchedulingIgnoredDuringExecution": terms}})


OTHERS = {"topologyKey": "zone", "namespaces": ["other"]}
ALL_OF_THEM: JSONObject = {"topologyKey": "zone", "namespaceSelector": {}}
OWN: JSONObject = {"topologyKey": "zone", "namespaces": []}


@pytest.mark.parametrize(
    ("name", "reviewed", "fits"),
    [
        ("Terminating", counted_pod(activeDeadlineSeconds=0), True),
        ("Terminating", counted_pod(), False),
        ("NotTerminating", counted_pod(activeDeadlineSeconds=3), False),
        ("NotTerminating", counted_pod(), True),
        ("BestEffort", counted_pod(requesting()), True),
        ("BestEffort", counted_pod(requesting(cpu="1")), False),
        ("NotBestEffort", counted_pod(requesting()), False),
        ("NotBestEffort", counted_pod(requesting(cpu="1")), True),
        ("CrossNamespacePodAffinity", counted_pod(), False),
        ("CrossNamespacePodAffinity", near("podAffinity", OTHERS), True),
        ("CrossNamespacePodAffinity", near("podAntiAffinity", OTHERS), True),
        ("CrossNamespacePodAffinity", near("podAntiAffinity", OTHERS, weighted=True), True),
        ("CrossNamespacePodAffinity", near("podAffinity", ALL_OF_THEM), True),
        ("CrossNamespacePodAffinity", near("podAffinity", OWN), False),
        ("CrossNamespacePodAffinity", near("nodeAffinity", OTHERS), False),
        ("PriorityClass", counted_pod(priorityClassName="high"), True),
        ("PriorityClass", counted_pod(priorityClassName=""), False),
        ("VolumeAttributesClass", counted_pod(volumeAttributesClassName="fast"), False),
        ("Unheard", counted_pod(), False),
    ],
)
def test_pods_match_scopes(name: str, reviewed: JSONObject, *, fits: bool) -> None:
    assert pod_evaluator.PODS.matches_scope(scope(name), reviewed) is fits


@pytest.mark.parametrize(
    ("operator", "values", "named", "fits"),
    [
        ("In", ("high", "low"), "high", True),
        ("In", ("low",), "high", False),
        ("In", ("low",), None, False),
        ("NotIn", ("low",), "high", True),
        ("NotIn", ("high",), "high", False),
        ("NotIn", ("high",), None, True),
        ("Exists", (), "high", True),
        ("DoesNotExist", (), "high", False),
        ("DoesNotExist", (), None, True),
    ],
)
def test_a_priority_class_is_selected_by_name(
    operator: str, values: tuple[str, ...], named: JSON, *, fits: bool
) -> None:
    reviewed = counted_pod(priorityClassName=named) if named else counted_pod()
    assert pod_evaluator.PODS.matches_scope(scope("PriorityClass", operator, *values), reviewed) is fits


def claim(spec: JSON = None, **status: JSON) -> JSONObject:
    return document("persistentvolumeclaims", spec or {}, status=status)


@pytest.mark.parametrize(
    "reviewed",
    [
        claim({"volumeAttributesClassName": "fast"}),
        claim(currentVolumeAttributesClassName="fast"),
        claim(modifyVolumeStatus={"targetVolumeAttributesClassName": "fast"}),
        claim({"volumeAttributesClassName": "slow"}, currentVolumeAttributesClassName="fast"),
    ],
)
def test_a_claim_matches_its_current_and_desired_classes(reviewed: JSONObject) -> None:
    fits = evaluators.VOLUME_CLAIMS.matches_scope
    assert fits(scope("VolumeAttributesClass", "In", "fast"), reviewed)
    assert fits(scope("VolumeAttributesClass"), reviewed)
    assert not fits(scope("VolumeAttributesClass", "In", "cold"), reviewed)
    assert not fits(scope("VolumeAttributesClass", "DoesNotExist"), reviewed)
    assert not fits(scope("PriorityClass"), reviewed)


def test_a_claim_without_a_class_matches_no_name() -> None:
    fits = evaluators.VOLUME_CLAIMS.matches_scope
    assert not fits(scope("VolumeAttributesClass"), claim({"volumeAttributesClassName": ""}))
    assert fits(scope("VolumeAttributesClass", "DoesNotExist"), claim())


def test_services_match_no_scope() -> None:
    assert not evaluators.SERVICES.matches_scope(scope("NotTerminating"), document("services"))


@pytest.mark.parametrize(
    ("operator", "values", "text"),
    [
        ("Around", (), '"Around" is not a valid scope selector operator'),
        ("In", (), "for 'in', 'notin' operators, values set can't be empty"),
        ("DoesNotExist", ("a",), "values set must be empty for exists and does not exist"),
        ("In", ("not a label",), "a valid label must be"),
    ],
)
def test_an_invalid_selector_is_reported(operator: str, values: tuple[str, ...], text: str) -> None:
    with pytest.raises(InputError) as caught:
        scope_selects(scope("PriorityClass", operator, *values), ["high"])
    assert str(caught.value).startswith("failed to parse and convert selector: ")
    assert text in str(caught.value)


def test_a_quota_has_plain_scopes_and_then_selectors() -> None:
    expressions = [{"scopeName": "PriorityClass", "operator": "In", "values": ["a", "b"]}]
    written = quota({}, scopes=["BestEffort"], scopeSelector={"matchExpressions": expressions})
    assert format_scopes(read_scopes(written)) == "[{BestEffort Exists []} {PriorityClass In [a b]}]"
    assert read_scopes(quota({}, scopes=None)) == ()
