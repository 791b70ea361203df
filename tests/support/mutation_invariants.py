"""What must hold for everything that changes objects."""

from __future__ import annotations

import msgspec

from pratique.admission.controllers import Controller
from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import JSON, Document, JSONObject
from pratique.apimachinery.patches import apply_patch
from support.admissions import Admission, admit
from support.expectations import at


def admitted_twice(controller: Controller, review: Review, configuration: JSON = None) -> Admission:
    """Admit a review, and assert that there is nothing left to do then and that no more was touched than had to be."""
    once = admit(controller, review, configuration)
    assert_minimal(review.object, once.operations)
    if once.allowed:
        seen = msgspec.structs.replace(review, object_document=Document.from_data(once.object))
        again = admit(controller, seen, configuration)
        assert again.allowed
        assert again.operations == ()
    return once


def assert_minimal(document: JSON, operations: tuple[JSONObject, ...]) -> None:
    """Assert that no operation takes anything away that it brings again: no array or object is replaced."""
    for operation in operations:
        parent, _, name = operation["path"].rpartition("/")
        container = at(document, parent)
        if operation["op"] == "replace":
            before = at(document, operation["path"])
            assert not isinstance(before, dict | list)
            assert before != operation["value"]
        elif operation["op"] == "add":
            there = len(container) if isinstance(container, list) else set(container)
            assert int(name) == there if isinstance(there, int) else name not in there
        document = apply_patch(document, [operation])
