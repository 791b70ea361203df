"""What follows from a controller's answer: the decision, and the object as it then is."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import msgspec

from pratique import statuses
from pratique.answers import Allow, Deny, Patch
from pratique.definitions import Phase
from pratique.json_values import Document
from pratique.outcomes import ALLOWED, Denied, Failed, FailureKind, Patched
from pratique.patches import PatchError, apply_patch, diff

if TYPE_CHECKING:
    from pratique.outcomes import Decided
    from pratique.reviews import Review
    from pratique.statuses import Status

    Conclusion: TypeAlias = tuple[Decided, Document]


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
            return _patched(answer, document)
        case _:
            kind = type(answer).__name__
            return _failed(f"answered with {kind} in place of allow(), deny(), patch() or warn()"), document


def _failed(text: str) -> Failed:
    return Failed(FailureKind.ERROR, text)


def _refusal(answer: Deny, review: Review) -> Status:
    if answer.status is None:
        return statuses.admission_forbidden(review, answer.message)
    # Below 400 is read as 400: k8s.io/apiserver/pkg/admission/plugin/webhook/errors/statuserror.go.
    return msgspec.structs.replace(answer.status, status="Failure", code=max(answer.status.code, 400))


def _patched(answer: Patch, document: Document) -> Conclusion:
    if answer.operations is not None and answer.new_object is not None:
        # Recorded edits bring both, and there is nothing to work out.
        return Patched(answer.operations), Document.from_data(answer.new_object)
    if answer.operations is None:
        if answer.new_object is document.data:
            return _failed("answered with the reviewed object itself: patch() takes a changed copy"), document
        changed = Document.from_data(answer.new_object)
        operations = tuple(diff(document.data, answer.new_object))
        return (Patched(operations), changed) if operations else (ALLOWED, document)
    try:
        changed = Document.from_data(apply_patch(document.data, answer.operations))
    except PatchError:
        # Its text quotes keys of the object.
        return _failed("answered with a patch that does not fit the object"), document
    return (ALLOWED, document) if changed == document else (Patched(answer.operations), changed)
