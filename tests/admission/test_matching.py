"""What webhooks and policies match: resources, namespace labels, object labels."""

from __future__ import annotations

import msgspec
import pytest

from pratique.admission.matching import (
    MatchContext,
    RequestKey,
    compile_selector_or_status,
    find_matched_resource,
)
from pratique.admission.reviews import Review
from pratique.admission.rules import Rule, compile_rules
from pratique.apimachinery.json_values import JSON, Document, JSONObject
from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource
from pratique.apimachinery.requests import Operation
from pratique.apimachinery.selectors import LabelSelector
from pratique.apimachinery.statuses import Status
from pratique.cluster.api_resources import built_in_resources
from pratique.cluster.store import ObjectStore
from support.services.reviews import review_of

AUTOSCALER: JSONObject = {
    "apiVersion": "autoscaling/v2",
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "web"}},
}
V1 = Rule(("CREATE",), ("autoscaling",), ("v1",), ("horizontalpodautoscalers",))
V2 = Rule(("CREATE",), ("autoscaling",), ("v2",), ("horizontalpodautoscalers",))


def namespace(labels: JSONObject) -> JSONObject:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": labels}}


def selector(**fields: JSON) -> LabelSelector:
    return msgspec.convert(fields, LabelSelector)


def of(resource: str, group: str, kind: str, document: JSON = None, version: str = "v1") -> Review:
    return msgspec.structs.replace(
        review_of(document),
        kind=GroupVersionKind(group, version, kind),
        resource=GroupVersionResource(group, version, resource),
    )


TEAM_SHOP = selector(matchLabels={"team": "shop"})
NOT_TEAM = selector(matchExpressions=[{"key": "team", "operator": "DoesNotExist"}])


@pytest.mark.parametrize(
    ("labels", "written", "selected"),
    [
        ({"team": "shop"}, TEAM_SHOP, True),
        ({"team": "other"}, TEAM_SHOP, False),
        ({}, TEAM_SHOP, False),
        ({"team": "shop"}, NOT_TEAM, False),
        ({}, NOT_TEAM, True),
        ({}, selector(), True),
        ({}, None, False),
    ],
)
def test_a_namespace_selector_reads_the_labels_of_the_stored_namespace(
    labels: JSONObject, written: LabelSelector | None, *, selected: bool
) -> None:
    review = review_of(cluster=ObjectStore([namespace(labels)]))
    assert MatchContext(review).selects_namespace(compile_selector_or_status(written)) is selected


def test_a_namespace_that_does_not_exist_is_a_status_unless_everything_is_selected() -> None:
    context = MatchContext(review_of(cluster=ObjectStore()))
    found = context.selects_namespace(compile_selector_or_status(TEAM_SHOP))
    assert isinstance(found, Status)
    assert (found.code, found.message) == (404, 'namespaces "shop" not found')
    assert context.selects_namespace(compile_selector_or_status(selector())) is True


def test_a_cluster_scoped_object_is_in_every_namespace_selector() -> None:
    review = msgspec.structs.replace(of("nodes", "", "Node"), namespace="")
    assert MatchContext(review).selects_namespace(compile_selector_or_status(TEAM_SHOP)) is True


@pytest.mark.parametrize("operation", [Operation.CREATE, Operation.UPDATE])
def test_a_namespace_is_selected_by_its_new_labels(operation: Operation) -> None:
    review = msgspec.structs.replace(
        of("namespaces", "", "Namespace", namespace({"team": "shop"})),
        operation=operation,
        cluster=ObjectStore([namespace({"team": "other"})]),
    )
    assert MatchContext(review).selects_namespace(compile_selector_or_status(TEAM_SHOP)) is True


def test_a_namespace_that_is_deleted_is_selected_by_its_stored_labels() -> None:
    review = msgspec.structs.replace(
        of("namespaces", "", "Namespace"),
        operation=Operation.DELETE,
        cluster=ObjectStore([namespace({"team": "shop"})]),
    )
    assert MatchContext(review).selects_namespace(compile_selector_or_status(TEAM_SHOP)) is True


def test_an_invalid_selector_becomes_the_status_of_every_review_that_it_decides() -> None:
    invalid = compile_selector_or_status(selector(matchExpressions=[{"key": "a", "operator": "Like"}]))
    assert isinstance(invalid, Status)
    assert invalid.code == 500
    context = MatchContext(review_of(cluster=ObjectStore([namespace({})])))
    assert context.selects_namespace(invalid) is invalid
    assert context.selects_object(invalid) is invalid


@pytest.mark.parametrize(
    ("new", "old", "selected"),
    [
        ("shop", "other", True),
        ("other", "shop", True),
        ("other", "other", False),
        (None, "shop", True),
        (None, None, False),
    ],
)
def test_an_object_selector_selects_by_the_new_or_the_old_object(
    new: str | None, old: str | None, *, selected: bool
) -> None:
    documents = [
        Document.from_data(team and {"kind": "Pod", "metadata": {"labels": {"team": team}}})
        for team in (new, old)
    ]
    review = msgspec.structs.replace(
        review_of(), object_document=documents[0], old_object_document=documents[1]
    )
    assert MatchContext(review).selects_object(compile_selector_or_status(TEAM_SHOP)) is selected


def test_no_object_selector_selects_nothing_and_an_empty_one_everything() -> None:
    context = MatchContext(review_of())
    assert context.selects_object(None) is False
    assert context.selects_object(compile_selector_or_status(selector())) is True


def test_the_key_of_a_request_keeps_no_name() -> None:
    first = review_of()
    second = msgspec.structs.replace(first, name="other", namespace="elsewhere", uid="2")
    assert RequestKey.of(first) == RequestKey.of(second)
    assert RequestKey.of(first) != RequestKey.of(msgspec.structs.replace(first, namespace=""))
    assert RequestKey.of(first) != RequestKey.of(msgspec.structs.replace(first, subresource="status"))


def autoscaler_review() -> Review:
    return of("horizontalpodautoscalers", "autoscaling", "HorizontalPodAutoscaler", AUTOSCALER, "v2")


def test_equivalents_are_matched_only_if_no_rule_matches_the_requested_resource() -> None:
    review = autoscaler_review()
    key = RequestKey.of(review)
    both = find_matched_resource(compile_rules([V1, V2]), key, built_in_resources())
    assert both is not None
    assert both.resource == review.resource
    equivalent = find_matched_resource(compile_rules([V1]), key, built_in_resources())
    assert equivalent is not None
    assert equivalent.resource == GroupVersionResource("autoscaling", "v1", "horizontalpodautoscalers")
    assert find_matched_resource(compile_rules([V1]), key, None) is None
    assert find_matched_resource(compile_rules([Rule()]), key, built_in_resources()) is None


def test_a_review_is_converted_once_and_remembers_the_original_request() -> None:
    review = autoscaler_review()
    matched = find_matched_resource(compile_rules([V1]), RequestKey.of(review), built_in_resources())
    assert matched is not None
    context = MatchContext(review)
    converted = context.converted(matched)
    assert converted.object["apiVersion"] == "autoscaling/v1"
    assert (converted.request_kind, converted.request_resource) == (review.kind, review.resource)
    assert context.converted(matched) is converted
