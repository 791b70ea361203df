"""Reviews, calls and deadlines."""

from __future__ import annotations

import msgspec
import pytest

from pratique.admission.reviews import Call, Deadline
from pratique.apimachinery.json_values import Document
from pratique.apimachinery.kinds import GroupVersionResource
from pratique.cluster.authorization import RbacAuthorizer
from pratique.cluster.store import ANY_NAMESPACE, ObjectStore
from support.services.reviews import POD, review_of


def test_another_object_changes_nothing_else() -> None:
    review = msgspec.structs.replace(review_of(), dry_run=True, is_retry=True, only=("a",), digest="d")
    document = Document.from_data({"kind": "Pod"})
    changed = review.with_object(document)
    assert changed == msgspec.structs.replace(review, object_document=document)
    assert review.object == POD


def test_the_authorizer_always_knows_the_roles_of_the_reviews_own_cluster() -> None:
    cluster = ObjectStore()
    moved = msgspec.structs.replace(review_of(), cluster=cluster)
    assert isinstance(moved.authorizer, RbacAuthorizer)
    assert moved.authorizer.cluster is cluster
    given = msgspec.structs.replace(review_of(), authorizer=RbacAuthorizer(cluster))
    assert isinstance(given.authorizer, RbacAuthorizer)
    assert given.authorizer.cluster is ANY_NAMESPACE


@pytest.mark.parametrize(
    ("resource", "subresource", "resource_name", "concerns"),
    [
        (("", "v1", "pods"), "", ("", "pods"), True),
        (("", "v2", "pods"), "", ("", "pods"), True),
        (("apps", "v1", "pods"), "", ("", "pods"), False),
        (("", "v1", "nodes"), "", ("", "pods"), False),
        (("", "v1", "pods"), "status", ("", "pods"), False),
        (("", "v1", "pods"), "status", ("", "pods", "status"), True),
    ],
)
def test_a_review_concerns_a_resource_in_any_version(
    resource: tuple[str, str, str], subresource: str, resource_name: tuple[str, ...], *, concerns: bool
) -> None:
    review = msgspec.structs.replace(
        review_of(), resource=GroupVersionResource(*resource), subresource=subresource
    )
    assert review.concerns(*resource_name) is concerns


@pytest.mark.parametrize(
    ("call", "is_plain"),
    [
        (Call("c"), True),
        (Call("c", 1.0, may_patch=True), True),
        (Call("c", only=()), False),
        (Call("c", explain=True), False),
    ],
)
def test_a_call_is_plain_unless_it_names_policies_or_asks_for_explanations(
    call: Call, *, is_plain: bool
) -> None:
    assert call.is_plain is is_plain


def test_a_deadline_counts_down_to_zero_and_never_below() -> None:
    assert 9 < Deadline.after(10).remaining_seconds <= 10
    late = Deadline.after(-1)
    assert (late.remaining_seconds, late.passed) == (0.0, True)
    assert not Deadline.after(10).passed


def test_the_sooner_deadline_wins() -> None:
    deadline = Deadline.after(10)
    assert deadline.sooner(None) is deadline
    assert deadline.sooner(60) == deadline
    assert deadline.sooner(1).remaining_seconds <= 1
