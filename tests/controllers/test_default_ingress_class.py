"""DefaultIngressClass."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.cluster.store import ObjectStore
from pratique.controllers.default_ingress_class import (
    CLASS_ANNOTATION,
    CONTROLLER,
    DEFAULT_CLASS_ANNOTATION,
)
from support.admissions import admit, denial, review_of
from support.mutation_invariants import admitted_twice


def ingress_class(name: str, marked: str | None = "true", created: str | None = None) -> JSONObject:
    annotations = {} if marked is None else {DEFAULT_CLASS_ANNOTATION: marked}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "IngressClass",
        "metadata": {"name": name, "annotations": annotations, "creationTimestamp": created},
        "spec": {"controller": "example.com/ingress"},
    }


def ingress_review(
    ingress: JSON,
    cluster: Iterable[JSONObject] = (),
    *,
    operation: str = "CREATE",
    subresource: str = "",
    group: str = "networking.k8s.io",
) -> Review:
    return review_of(
        {
            "operation": operation,
            "kind": {"group": group, "version": "v1", "kind": "Ingress"},
            "resource": {"group": group, "version": "v1", "resource": "ingresses"},
            "subResource": subresource,
            "namespace": "shop",
            "name": "web",
            "object": ingress,
        },
        ObjectStore(cluster),
    )


def ingress(annotations: JSON = None, **spec: JSON) -> JSONObject:
    return {"kind": "Ingress", "metadata": {"name": "web", "annotations": annotations}, "spec": spec}


NOT_DEFAULT = [ingress_class("a", "false"), ingress_class("b", None), ingress_class("c", "")]
ONE_DEFAULT = [*NOT_DEFAULT, ingress_class("public")]


def class_of(found: JSON) -> JSON:
    return found["spec"].get("ingressClassName")


@pytest.mark.parametrize(
    ("cluster", "chosen"),
    [
        ([], None),
        (NOT_DEFAULT, None),
        ([ingress_class("a", "True")], None),
        (ONE_DEFAULT, "public"),
        ([ingress_class("b"), ingress_class("a")], "a"),
        ([ingress_class("a", created="2021-01-01T00:00:00Z"), ingress_class("b")], "a"),
        ([ingress_class("b", created="2021-01-01T00:00:00Z"), ingress_class("a")], "b"),
        (
            [
                ingress_class("a", created="2021-01-01T00:00:00Z"),
                ingress_class("b", created="2022-01-01T00:00:00Z"),
            ],
            "b",
        ),
        (
            [
                ingress_class("b", created="2022-01-01T00:00:00Z"),
                ingress_class("a", created="2022-01-01T00:00:00Z"),
            ],
            "a",
        ),
    ],
)
def test_the_newest_default_class_wins_and_then_the_first_by_name(
    cluster: list[JSONObject], chosen: str | None
) -> None:
    found = admit(CONTROLLER, ingress_review(ingress(), cluster))
    assert found.allowed
    assert class_of(found.object) == chosen


@pytest.mark.parametrize(
    "written",
    [
        ingress(ingressClassName="private"),
        ingress(ingressClassName=""),
        ingress({CLASS_ANNOTATION: "private"}),
        ingress({CLASS_ANNOTATION: ""}),
    ],
)
def test_an_ingress_that_names_a_class_keeps_it(written: JSONObject) -> None:
    assert admit(CONTROLLER, ingress_review(written, ONE_DEFAULT)).operations == ()


@pytest.mark.parametrize(
    "written",
    [ingress(), ingress({}), ingress({"a": "b"}), ingress(ingressClassName=None), {"spec": None}, {}],
)
def test_an_ingress_without_a_class_gets_the_default(written: JSONObject) -> None:
    assert class_of(admit(CONTROLLER, ingress_review(written, ONE_DEFAULT)).object) == "public"


@pytest.mark.parametrize(
    "review",
    [
        ingress_review(ingress(), ONE_DEFAULT, operation="UPDATE"),
        ingress_review(ingress(), ONE_DEFAULT, subresource="status"),
        ingress_review(ingress(), ONE_DEFAULT, group="extensions"),
    ],
)
def test_other_requests_are_ignored(review: Review) -> None:
    assert admit(CONTROLLER, review).operations == ()


@pytest.mark.parametrize("written", [None, [], {"kind": "Service"}])
def test_an_object_that_is_not_an_ingress_is_an_internal_error(written: JSON) -> None:
    text = "Internal error occurred: Expected Ingress resource, got: networking.k8s.io/v1, Kind=Ingress"
    assert denial(admit(CONTROLLER, ingress_review(written))) == (500, "InternalError", text)


@given(
    st.lists(st.sampled_from([*ONE_DEFAULT, ingress_class("new", created="2022-01-01T00:00:00Z")])),
    st.sampled_from([ingress(), ingress({CLASS_ANNOTATION: "x"}), ingress(ingressClassName="x")]),
)
def test_a_second_pass_changes_nothing(cluster: list[JSONObject], written: JSONObject) -> None:
    admitted_twice(CONTROLLER, ingress_review(written, cluster))
