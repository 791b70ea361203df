"""Strategies: reviews of anything, and outcomes of any kind."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from pratique.admission.results import ALLOWED, Denied, Failed, FailureKind, Outcome, Patched
from pratique.admission.reviews import Review
from pratique.apimachinery import statuses
from pratique.apimachinery.json_values import NULL, Document
from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource
from pratique.apimachinery.requests import Operation, UserInfo
from pratique.apimachinery.statuses import Status, StatusCause, StatusDetails
from support.strategies.json_values import objects

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
"""Any text that UTF-8 can hold."""

NAMES = TEXTS.filter(lambda text: "\0" not in text)
"""What a member of an object may be called: the front door reads no other."""

SMALL = st.integers(0, 2**31 - 1)
GROUP_VERSION_KINDS = st.builds(GroupVersionKind, TEXTS, TEXTS, TEXTS)
GROUP_VERSION_RESOURCES = st.builds(GroupVersionResource, TEXTS, TEXTS, TEXTS)


def tuples(of: st.SearchStrategy[str]) -> st.SearchStrategy[tuple[str, ...]]:
    """Tuples of a few."""
    return st.lists(of, max_size=3).map(tuple)


def json_documents() -> st.SearchStrategy[Document]:
    """Documents held as data, as bytes, or null."""
    held = objects().map(Document.from_data)
    return st.just(NULL) | held | held.map(lambda document: Document.from_raw(document.raw))


def users() -> st.SearchStrategy[UserInfo]:
    """Users with groups and whatever an authenticator adds."""
    extra = st.dictionaries(NAMES, tuples(TEXTS), max_size=3)
    return st.builds(UserInfo, TEXTS, TEXTS, tuples(TEXTS), extra)


def reviews() -> st.SearchStrategy[Review]:
    """Reviews with every field of every value."""
    return st.builds(
        Review,
        uid=TEXTS.filter(bool),
        operation=st.sampled_from(Operation),
        kind=GROUP_VERSION_KINDS,
        resource=GROUP_VERSION_RESOURCES,
        subresource=TEXTS,
        request_kind=st.none() | GROUP_VERSION_KINDS,
        request_resource=st.none() | GROUP_VERSION_RESOURCES,
        request_subresource=TEXTS,
        name=TEXTS,
        namespace=TEXTS,
        user=users(),
        object_document=json_documents(),
        old_object_document=json_documents(),
        options_document=json_documents(),
        dry_run=st.booleans(),
    )


def refusals() -> st.SearchStrategy[Status]:
    """Statuses of refusals."""
    causes = st.lists(st.builds(StatusCause, TEXTS, TEXTS, TEXTS), max_size=2).map(tuple)
    details = st.builds(StatusDetails, TEXTS, TEXTS, TEXTS, TEXTS, causes, SMALL)
    return st.builds(statuses.failure, st.integers(400, 599), TEXTS, TEXTS, st.none() | details)


def outcomes() -> st.SearchStrategy[Outcome]:
    """Outcomes of any kind, as precise as a message can hold them."""
    operations = st.lists(objects(), max_size=3).map(tuple)
    decisions = (
        st.just(ALLOWED)
        | st.builds(Patched, operations)
        | st.builds(Denied, refusals())
        | st.builds(Failed, st.sampled_from(FailureKind), TEXTS)
    )
    fields: dict[str, st.SearchStrategy[Any]] = {
        "controller": TEXTS,
        "decision": decisions,
        "warnings": tuples(TEXTS.filter(bool)),
        "audit_annotations": st.dictionaries(TEXTS, TEXTS, max_size=3),
        "duration_seconds": SMALL.map(lambda micros: micros / 1_000_000),
    }
    return st.fixed_dictionaries(fields).map(lambda found: Outcome(**found))
