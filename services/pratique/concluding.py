"""What follows from a controller's answer: the decision, and the object as it then is."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import msgspec

from pratique import statuses
from pratique.answers import Allow, Deny, Patch
from pratique.definitions import Phase
from pratique.json_values import JSON, Document, JSONObject
from pratique.outcomes import ALLOWED, Denied, Failed, FailureKind, Patched
from pratique.patches import PatchError, diff, patch_document
from pratique.typed_decoding import TypedDecodingError, decode_changed

if TYPE_CHECKING:
    from pratique.outcomes import Decided
    from pratique.reviews import Review
    from pratique.statuses import Status

    Conclusion: TypeAlias = tuple[Decided, Document]

MOST_OPERATIONS = 1_000
"""Of a patch that a policy writes itself. A Pod of a hundred containers with ten changes to each has as many; applying
them takes 10 ms. What is worked out from a changed object needs no limit: it has as many as there are changes."""

_EMITTED = frozenset({"add", "remove", "replace"})


def conclude(answer: object, review: Review, phase: Phase, *, amends: bool = False) -> Conclusion:
    """Decide what ``answer`` means for the review: the decision, and the object as it leaves it.

    ``amends`` lets a validating half change the object.

    An answer that cannot be used is a failure of its controller. Whatever this raises comes from an answer
    that holds no JSON, and is the same.
    """
    document = review.object_document
    match answer:
        case Allow():
            return ALLOWED, document
        case Deny():
            return Denied(_refusal(answer, review)), document
        case Patch() if phase is Phase.VALIDATE and not amends:
            return _failed("answered with a patch, which a validating controller may not"), document
        case Patch() if document.is_null:
            return _failed("answered with a patch where there is no object to change"), document
        case Patch():
            return _typed(*_patched(answer, document), review)
        case _:
            kind = type(answer).__name__
            return _failed(f"answered with {kind} in place of allow(), deny(), patch() or warn()"), document


def _typed(decision: Decided, changed: Document, review: Review) -> Conclusion:
    """Read the changed object as the API server would: what is of another type refuses the request."""
    before = review.object_document
    if not isinstance(decision, Patched):
        return decision, changed
    try:
        decoded = decode_changed(review.kind, before.data, changed)
    except TypedDecodingError as error:
        return Denied(statuses.internal_error(str(error))), before
    if decoded is changed:
        return decision, changed
    # Fields were dropped that the kind does not have.
    operations = tuple(diff(before.data, decoded.data))
    return (Patched(operations), decoded) if operations else (ALLOWED, before)


def _failed(text: str) -> Failed:
    return Failed(FailureKind.ERROR, text)


def _refusal(answer: Deny, review: Review) -> Status:
    if answer.status is None:
        return statuses.admission_forbidden(review, answer.message)
    # Below 400 is read as 400: k8s.io/apiserver/pkg/admission/plugin/webhook/errors/statuserror.go.
    return msgspec.structs.replace(answer.status, status="Failure", code=max(answer.status.code, 400))


def _patched(answer: Patch, document: Document) -> Conclusion:
    if answer.operations is None:
        return _replaced(answer.new_object, document)
    if answer.new_object is not None:
        # Recorded edits bring both, and there is nothing to work out.
        return Patched(answer.operations), Document.from_data(answer.new_object)
    return _edited(answer.operations, document)


def _replaced(new_object: JSON, document: Document) -> Conclusion:
    """Work out what a changed object changes."""
    if new_object is document.data:
        return _failed("answered with the reviewed object itself: patch() takes a changed copy"), document
    operations = tuple(diff(document.data, new_object))
    return (Patched(operations), Document.from_data(new_object)) if operations else (ALLOWED, document)


def _edited(operations: tuple[JSONObject, ...], document: Document) -> Conclusion:
    """Apply what a policy wrote itself."""
    if len(operations) > MOST_OPERATIONS:
        return _failed(f"answered with a patch of more than {MOST_OPERATIONS} operations"), document
    try:
        changed = patch_document(document, operations)
    except PatchError:
        # Its text quotes keys of the object.
        return _failed("answered with a patch that does not fit the object"), document
    if changed == document:
        return ALLOWED, document
    if any(operation.get("op") not in _EMITTED for operation in operations):
        # What copies or tests is a few bytes that can become megabytes, or fail, wherever it is applied next.
        operations = tuple(diff(document.data, changed.data))
    return Patched(operations), changed
