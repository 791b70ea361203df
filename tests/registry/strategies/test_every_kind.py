"""What holds for the preparation of every object of every kind."""

from __future__ import annotations

import copy
import datetime as dt
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import Document, JSONObject
from pratique.apimachinery.kinds import GroupVersionKind
from pratique.apimachinery.requests import Operation
from pratique.cluster.api_resources import built_in_resources
from pratique.cluster.schemas import built_in_schema
from pratique.manifests.requests import review_of_manifest
from pratique.registry.defaults.defaulting import with_defaults
from pratique.registry.strategies.preparation import prepare_for_validation
from support.strategies.built_in_objects import objects_of

NOW = dt.datetime(2026, 11, 23, 9, 30, 1, tzinfo=dt.UTC).timestamp()
KINDS = [
    type_.kind
    for type_ in built_in_resources()
    if not type_.subresource and built_in_schema(type_.kind) is not None and type_.kind.kind != "Eviction"
]


def review_of(kind: GroupVersionKind, written: JSONObject, stored: JSONObject | None) -> Review:
    named = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "a"}}
    options: dict[str, Any] = {}
    if stored is not None:
        options = {"operation": Operation.UPDATE, "old": {**named, **stored, **named}}
    review = review_of_manifest(named, built_in_resources(), **options)
    return review.with_object(Document.from_data(with_defaults(kind, {**written, **named})))


@given(st.sampled_from(KINDS).flatmap(lambda kind: st.tuples(objects_of(kind), objects_of(kind))))
def test_every_object_of_the_right_types_can_be_prepared(
    case: tuple[tuple[GroupVersionKind, JSONObject], tuple[GroupVersionKind, JSONObject]],
) -> None:
    (kind, written), (_, stored) = case
    for old in (None, stored):
        review = review_of(kind, written, old)
        before = copy.deepcopy((review.object, review.old_object))
        once = prepare_for_validation(review, NOW)
        assert (review.object, review.old_object) == before
        assert once.object["metadata"]["name"] == "a"
