"""Which requests a PolicyException exempts: what it says, and never more."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pratique.admission.reviews import Review
from pratique.apimachinery.decoding import decode_strictly
from pratique.apimachinery.json_values import NULL, Document
from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource
from pratique.apimachinery.requests import Operation, UserInfo
from pratique.cluster.store import ObjectStore
from pratique.configuration.policy_exceptions import PolicyException, PolicyExceptionSpec
from pratique.policies.exceptions import Exemption
from support.chains import POD, pod_review

NOW = 1_800_000_000.0
"""In January 2027."""
LABELLED = {**POD, "metadata": {"name": "web", "namespace": "shop", "labels": {"exempt": "yes"}}}
PLAIN = Document.from_data(POD)
EXEMPT = Document.from_data(LABELLED)
BY_LABEL: dict[str, Any] = {"objectSelector": {"matchLabels": {"exempt": "yes"}}}
BY_NAMESPACE_LABEL: dict[str, Any] = {"namespaceSelector": {"matchLabels": {"team": "a"}}}
TEAM_A = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "shop", "labels": {"team": "a"}},
}
PODS = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["*"], "resources": ["pods"]}
ANN = UserInfo("ann", groups=("admins",))


def exempts(review: Review, until: str = "2030-01-01T00:00:00Z", **scope: Any) -> bool:
    policies = [{"kind": "AdmissionController", "name": "PodSecurity"}]
    spec = {"reason": "a test", "until": until, "policies": policies, **scope}
    exception = PolicyException("one", decode_strictly(spec, PolicyExceptionSpec))
    return Exemption.compile(exception).applies(review, NOW)


def updated(new: Document, old: Document) -> Review:
    changes = {"object_document": new, "old_object_document": old}
    return pod_review(operation=Operation.UPDATE, **changes)


def namespace_review() -> Review:
    return msgspec.structs.replace(
        pod_review(TEAM_A, cluster=ObjectStore([TEAM_A])),
        operation=Operation.UPDATE,
        kind=GroupVersionKind("", "v1", "Namespace"),
        resource=GroupVersionResource("", "v1", "namespaces"),
        name="shop",
        old_object_document=Document.from_data(TEAM_A),
    )


@pytest.mark.parametrize(
    ("scope", "wanted"),
    [
        ({"namespaces": ["shop"]}, True),
        ({"namespaces": ["other", "shop"]}, True),
        ({"namespaces": ["other"]}, False),
        (BY_NAMESPACE_LABEL, True),
        ({"namespaceSelector": {"matchLabels": {"team": "b"}}}, False),
        ({"namespaces": ["other"], **BY_NAMESPACE_LABEL}, False),
        ({"subjects": [{"kind": "User", "name": "ann"}]}, True),
        ({"subjects": [{"kind": "User", "name": "bob"}, {"kind": "Group", "name": "admins"}]}, True),
        ({"subjects": [{"kind": "User", "name": "admins"}]}, False),
        ({"subjects": [{"kind": "ServiceAccount", "name": "ann", "namespace": "shop"}]}, False),
        ({"subjects": [{"kind": "User", "name": "ann"}], "namespaces": ["other"]}, False),
        ({"namespaces": ["shop"], "resourceRules": [PODS]}, True),
        ({"namespaces": ["shop"], "resourceRules": [{**PODS, "resourceNames": ["web"]}]}, True),
        ({"namespaces": ["shop"], "resourceRules": [{**PODS, "resourceNames": ["db"]}]}, False),
        ({"namespaces": ["shop"], "resourceRules": [{**PODS, "operations": ["DELETE"]}]}, False),
        (BY_LABEL, False),
    ],
)
def test_a_request_must_match_every_part_of_an_exception(scope: Any, *, wanted: bool) -> None:
    review = pod_review(user=ANN, cluster=ObjectStore([TEAM_A]))
    assert exempts(review, **scope) is wanted


def test_a_service_account_is_named_by_its_namespace() -> None:
    robot = UserInfo("system:serviceaccount:shop:robot")
    account = {"kind": "ServiceAccount", "name": "robot", "namespace": "shop"}
    assert exempts(pod_review(user=robot), subjects=[account])
    assert not exempts(pod_review(user=robot), subjects=[{**account, "namespace": "other"}])


@pytest.mark.parametrize(
    ("until", "wanted"),
    [
        ("2027-01-15T08:00:01Z", True),
        ("2027-01-15T08:00:00Z", False),
        ("2027-01-15T09:00:00+02:00", False),
        ("2027-01-15T07:00:00-02:00", True),
        ("1999-01-01T00:00:00Z", False),
    ],
)
def test_an_exception_has_no_effect_from_its_end_on(until: str, *, wanted: bool) -> None:
    assert exempts(pod_review(), until, namespaces=["shop"]) is wanted


@pytest.mark.parametrize(
    ("new", "old", "wanted"),
    [(EXEMPT, EXEMPT, True), (EXEMPT, PLAIN, False), (PLAIN, EXEMPT, False), (EXEMPT, NULL, False)],
)
def test_an_update_needs_the_label_before_and_after(new: Document, old: Document, *, wanted: bool) -> None:
    assert exempts(updated(new, old), **BY_LABEL) is wanted


def test_a_deletion_goes_by_the_labels_of_the_stored_object() -> None:
    review = pod_review(operation=Operation.DELETE, object_document=NULL, old_object_document=EXEMPT)
    assert exempts(review, **BY_LABEL)
    assert not exempts(msgspec.structs.replace(review, old_object_document=PLAIN), **BY_LABEL)


@pytest.mark.parametrize("subresource", ["binding", "eviction", "exec"])
def test_labels_of_what_is_not_the_object_itself_exempt_from_nothing(subresource: str) -> None:
    assert exempts(pod_review(LABELLED), **BY_LABEL)
    assert not exempts(pod_review(LABELLED, subresource=subresource), **BY_LABEL)


def test_a_rule_for_pods_leaves_their_subresources_to_the_policy() -> None:
    review = pod_review(subresource="ephemeralcontainers")
    assert not exempts(review, namespaces=["shop"], resourceRules=[PODS])


@pytest.mark.parametrize("scope", [{"namespaces": ["shop"]}, BY_NAMESPACE_LABEL])
def test_a_namespace_is_not_exempted_with_its_own_objects(scope: Any) -> None:
    assert not exempts(namespace_review(), **scope)


@pytest.mark.parametrize("selector", [{"key": "team", "operator": "DoesNotExist"}])
def test_a_namespace_that_is_not_there_matches_no_selector(selector: Any) -> None:
    scope: dict[str, Any] = {"namespaceSelector": {"matchExpressions": [selector]}}
    assert not exempts(pod_review(cluster=ObjectStore([])), **scope)
    assert not exempts(pod_review(namespace="", cluster=ObjectStore([])), **scope)
