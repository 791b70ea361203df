"""No work on what users send grows faster than its size."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator

import pytest

from growth.answers import ANSWERS, webhook_work
from growth.conversions import CHANGES, conversion_work, error_of
from growth.fields import STYLES, Place, filled, places
from growth.measuring import Clock, Work, fresh_number, superlinear
from growth.requests import CUSTOM_FIELDS, HULL, REQUEST_FIELDS, hull, small_pod
from growth.reviews import ReviewPieces, review_body
from pratique.apimachinery.field_errors import MAX_ERROR_CHARACTERS
from pratique.apimachinery.kinds import ResourceType
from pratique.cluster.api_resources import built_in_resources
from pratique.cluster.schemas import built_in_schema

_SHARE_OF_OTHERS = 0.4
SAMPLE_CPU_SECONDS = 8.0
"""What a sample takes, unless something is wrong."""

RESOURCES = [
    type_
    for type_ in built_in_resources()
    if not type_.subresource and built_in_schema(type_.kind) is not None
]
OPERATIONS = ("created", "updated")


@pytest.fixture(scope="module")
def pieces() -> Iterator[ReviewPieces]:
    with asyncio.Runner() as runner:
        made = ReviewPieces()
        yield made
        runner.run(made.close())


def field_work(
    pieces: ReviewPieces, resource: ResourceType, place: Place, style: str, operation: str
) -> Work:
    """Work on an object with a large field; an update replaces half of it."""

    def work(size: int, clock: Clock) -> None:
        number = fresh_number()
        document, old = filled(place, style, size, number), None
        if operation == "updated":
            old = filled(place, "alike" if style == "distinct" else "distinct", size // 2, number)
            old = {**old, "metadata": {**old["metadata"], "name": document["metadata"]["name"]}}
        asyncio.run(pieces.run(review_body(document, resource, old=old), clock))

    return work


def custom_work(pieces: ReviewPieces, field: str, operation: str) -> Work:
    """Work on a custom resource."""

    def work(size: int, clock: Clock) -> None:
        old = hull(field, size // 2) if operation == "updated" else None
        asyncio.run(pieces.run(review_body(hull(field, size), HULL, old=old), clock))

    return work


def request_work(pieces: ReviewPieces, field: str) -> Work:
    """Work on an AdmissionReview that is large beside its object."""
    pod = next(resource for resource in RESOURCES if resource.kind.kind == "Pod")

    def work(size: int, clock: Clock) -> None:
        asyncio.run(pieces.run(review_body(small_pod(), pod, **REQUEST_FIELDS[field](size)), clock))

    return work


def other_cases(pieces: ReviewPieces) -> list[tuple[str, Work]]:
    """The work on everything but objects of built-in kinds, with what it is on."""
    found = [(f"answered {what}", webhook_work(what)) for what in ANSWERS]
    found += [(f"converted {what}", conversion_work(what)) for what in CHANGES]
    found += [(f"request with {field}", request_work(pieces, field)) for field in REQUEST_FIELDS]
    return found + [
        (f"custom resource with {field}, {operation}", custom_work(pieces, field, operation))
        for field in CUSTOM_FIELDS
        for operation in OPERATIONS
    ]


def field_cases(pieces: ReviewPieces, resource: ResourceType) -> list[tuple[str, Work]]:
    """The work on objects of a kind."""
    return [
        (f"{place} of {style} items, {operation}", field_work(pieces, resource, place, style, operation))
        for place in places(resource.kind)
        for style in STYLES
        for operation in OPERATIONS
    ]


def complaints(name: str, work: Work) -> list[str]:
    """What grows too fast, for people."""
    return [f"{name}: {growth}" for growth in superlinear(work)]


def test_a_sample_of_all_work_grows_with_its_size_and_no_faster(pieces: ReviewPieces) -> None:
    seed = random.SystemRandom().randrange(2**32)
    draw = random.Random(seed)
    ended = time.process_time() + SAMPLE_CPU_SECONDS
    while time.process_time() < ended:
        # as often what is no field of a kind as one, and of kinds each as often as others
        few = draw.random() < _SHARE_OF_OTHERS
        name, work = draw.choice(other_cases(pieces) if few else field_cases(pieces, draw.choice(RESOURCES)))
        assert not complaints(name, work), f"seed {seed}"


@pytest.mark.parametrize("what", CHANGES)
def test_an_error_of_a_conversion_stays_within_what_errors_may_have(what: str) -> None:
    assert len(error_of(what, 1024 * 1024)) < MAX_ERROR_CHARACTERS


@pytest.mark.long
def test_work_on_answers_requests_and_custom_resources_grows_with_their_size(pieces: ReviewPieces) -> None:
    assert not [text for name, work in other_cases(pieces) for text in complaints(name, work)]


@pytest.mark.long
@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: str(resource.kind))
def test_work_on_each_field_of_each_kind_grows_with_its_size(
    pieces: ReviewPieces, resource: ResourceType
) -> None:
    found = [text for name, work in field_cases(pieces, resource) for text in complaints(name, work)]
    assert not found
