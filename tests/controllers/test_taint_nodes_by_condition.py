"""TaintNodesByCondition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.controllers.taint_nodes_by_condition import CONTROLLER, NOT_READY
from support.admissions import admit, denial, review_of
from support.mutation_invariants import admitted_twice

TAINT = {"key": NOT_READY, "effect": "NoSchedule"}
GPU = {"key": "example.com/gpu", "effect": "NoSchedule"}


def node_review(node: JSON, *, operation: str = "CREATE", subresource: str = "", group: str = "") -> Review:
    return review_of(
        {
            "operation": operation,
            "kind": {"group": group, "version": "v1", "kind": "Node"},
            "resource": {"group": group, "version": "v1", "resource": "nodes"},
            "subResource": subresource,
            "name": "n1",
            "object": node,
        }
    )


def node(*taints: JSONObject, **fields: JSON) -> JSONObject:
    spec = {"spec": {"taints": list(taints)}} if taints else {}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, **spec, **fields}


@pytest.mark.parametrize(
    "written",
    [
        node(),
        node(spec={}),
        node(spec=None),
        node(spec={"taints": None}),
        node(status={"conditions": [{"type": "Ready", "status": "False"}]}),
        node(status={"conditions": [{"type": "Ready", "status": "True"}]}),
        {"metadata": {"name": "n1"}},
    ],
)
def test_a_new_node_is_tainted_whatever_its_conditions(written: JSONObject) -> None:
    assert admit(CONTROLLER, node_review(written)).object["spec"]["taints"] == [TAINT]


@pytest.mark.parametrize(
    "taint", [TAINT, {**TAINT, "value": "x"}, {**TAINT, "timeAdded": "2026-01-01T00:00:00Z"}]
)
def test_a_taint_of_that_key_and_effect_is_enough(taint: JSONObject) -> None:
    assert admit(CONTROLLER, node_review(node(GPU, taint))).operations == ()


@pytest.mark.parametrize(
    "taint",
    [GPU, {**TAINT, "effect": "NoExecute"}, {**TAINT, "effect": "PreferNoSchedule"}, {"key": NOT_READY}],
)
def test_the_taint_is_appended_to_others(taint: JSONObject) -> None:
    assert admit(CONTROLLER, node_review(node(taint))).operations == (
        {"op": "add", "path": "/spec/taints/1", "value": TAINT},
    )


@pytest.mark.parametrize(
    "review",
    [
        node_review(node(), operation="UPDATE"),
        node_review(node(), subresource="status"),
        node_review(node(), group="example.com"),
        node_review(None, operation="DELETE"),
    ],
)
def test_other_requests_are_ignored(review: Review) -> None:
    found = admit(CONTROLLER, review)
    assert (found.allowed, found.operations) == (True, ())


@pytest.mark.parametrize(
    ("written", "printed"),
    [({"kind": "Pod", "apiVersion": "v1"}, "*core.Pod"), (None, "<nil>"), ([], "<nil>")],
)
def test_an_object_that_is_not_a_node_is_forbidden(written: JSON, printed: str) -> None:
    found = denial(admit(CONTROLLER, node_review(written)))
    assert found == (403, "Forbidden", f'nodes "n1" is forbidden: unexpected type {printed}')


def test_taints_that_are_not_a_list_are_a_bad_request() -> None:
    code, _, message = denial(admit(CONTROLLER, node_review(node(spec={"taints": {}}))))
    assert (code, message) == (400, "spec.taints: must be a list, not a mapping")


@given(st.lists(st.sampled_from([TAINT, GPU, {"key": NOT_READY, "effect": "NoExecute"}])))
def test_a_second_pass_changes_nothing(taints: list[JSONObject]) -> None:
    found = admitted_twice(CONTROLLER, node_review(node(*taints)))
    assert found.object["spec"]["taints"].count(TAINT) == max(1, taints.count(TAINT))
