"""PodDisruptionBudgets: what an empty selector means.

The table is that of ``pkg/apis/policy/v1beta1/conversion_test.go`` (Kubernetes, Apache-2.0), and what follows of it
for v1.
"""

from __future__ import annotations

from typing import Any

import pytest

from support.conversions import converted

LABEL = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match"
NONE = {"matchExpressions": [{"key": LABEL, "operator": "Exists"}]}
ALL = {"matchExpressions": [{"key": LABEL, "operator": "DoesNotExist"}]}
LABELS = {"matchLabels": {"foo": "bar"}}
V1, V1BETA1 = "policy/v1", "policy/v1beta1"


def budget(api_version: str, selector: Any) -> dict[str, Any]:
    spec = {"minAvailable": 1} | ({} if selector is None else {"selector": selector})
    return {"apiVersion": api_version, "kind": "PodDisruptionBudget", "metadata": {"name": "a"}, "spec": spec}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param({}, NONE, id="empty in v1beta1 is no Pod"),
        pytest.param(ALL, {}, id="empty in v1 is every Pod"),
        pytest.param(None, None, id="nil"),
        pytest.param(LABELS, LABELS, id="existing selector"),
    ],
)
def test_a_selector_selects_the_same_pods_in_both_versions(old: Any, new: Any) -> None:
    assert converted(budget(V1BETA1, old), V1) == budget(V1, new)
    assert converted(budget(V1, new), V1BETA1) == budget(V1BETA1, old)


@pytest.mark.parametrize("empty", [{"matchLabels": {}}, {"matchExpressions": []}, {"matchLabels": None}])
def test_a_selector_with_empty_parts_counts_as_empty(empty: dict[str, Any]) -> None:
    assert converted(budget(V1BETA1, empty), V1) == budget(V1, NONE)
    assert converted(budget(V1, empty), V1BETA1) == budget(V1BETA1, ALL)


@pytest.mark.parametrize(("source", "target"), [(V1, V1BETA1), (V1BETA1, V1)])
def test_the_internal_label_is_removed_from_other_selectors(source: str, target: str) -> None:
    assert converted(budget(source, LABELS | ALL), target) == budget(target, LABELS)
    other = {"key": "a", "operator": "Exists"}
    mixed = {"matchExpressions": [other, *NONE["matchExpressions"]]}
    assert converted(budget(source, mixed), target) == budget(target, {"matchExpressions": [other]})
