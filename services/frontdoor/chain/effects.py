"""Effects: what the answer of a mutating webhook does to the object.

Source: ``callAttrMutatingHook`` in ``k8s.io/apiserver/pkg/admission/plugin/webhook/mutating/dispatcher.go``.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pratique import statuses
from pratique.conversions import ConversionError, convert
from pratique.differences import diff, identical
from pratique.errors import PratiqueError
from pratique.json_values import JSON, Document, json_type
from pratique.outcomes import Patched
from pratique.patches import PatchError, patch_document
from pratique.typed_decoding import TypedDecodingError, decode_changed

if TYPE_CHECKING:
    from frontdoor.chain.hooks import Result
    from pratique.json_values import JSONObject
    from pratique.reviews import Review
    from pratique.statuses import Status

_TYPE = ("apiVersion", "kind")


@dataclasses.dataclass(frozen=True, slots=True)
class Effect:
    """What a webhook's answer does to the review."""

    denial: Status | None = None
    """Why the request is refused; None where it is not."""
    code: int = 0
    """The HTTP code of a refusal or failure as the API server's metrics count it."""
    operations: tuple[JSONObject, ...] = ()
    """What the webhook asked for, on the object as it saw it."""
    applied: tuple[JSONObject, ...] = ()
    """What that is on the object as the request has it."""
    document: Document | None = None
    """The object, as the request has it, once it has changed; None where it has not."""

    @property
    def changed(self) -> bool:
        """Whether the object is another one now."""
        return self.document is not None


def effect_of(webhook: str, result: Result, seen: Review, asked: Review) -> Effect:
    """Apply a webhook's patch. What cannot be applied refuses the request, whatever the failure policy.

    Args:
        webhook: The webhook's name.
        result: What it answered.
        seen: The review as the webhook saw it.
        asked: The same review in the version of the request.
    """
    decision = result.outcome.decision
    if not isinstance(decision, Patched) or not decision.operations:
        return Effect(result.denial, result.code)
    before = seen.object_document
    if before.is_null:
        text = f"admission webhook {statuses.go_quoted(webhook)} attempted to modify the object, "
        return Effect(statuses.internal_error(text + "which is not supported for this operation"))
    try:
        patched = _typed(patch_document(before, decision.operations), before.data)
        document = decode_changed(seen.kind, before.data, patched)
        if identical(before.data, document.data):
            # A patch to what the request calls otherwise would be none that anybody could apply.
            applied = decision.operations if seen is asked else ()
            return Effect(operations=decision.operations, applied=applied)
        if seen is asked:
            return Effect(operations=decision.operations, applied=decision.operations, document=document)
        document = convert(document, asked.resource, asked.kind, asked.cluster)
    except (PatchError, ConversionError, TypedDecodingError, _RetypedError) as error:
        return Effect(statuses.internal_error(str(error)))
    applied = tuple(diff(asked.object, document.data))
    return Effect(operations=decision.operations, applied=applied, document=document)


class _RetypedError(PratiqueError):
    """A patch made something else of the object."""


def _typed(document: Document, before: JSON) -> Document:
    """Read a patched object as one of the type that it had: a patch may leave the type out, not change it."""
    patched = document.data
    if not isinstance(patched, dict):
        raise _RetypedError(f"the patched object is {json_type(patched)}")
    had = {name: before[name] for name in _TYPE if isinstance(before, dict) and name in before}
    for name, value in had.items():
        if (patched.get(name) or value) != value:
            raise _RetypedError(f"the patched object has another {name}")
    return document if patched.items() >= had.items() else Document.from_data(patched | had)
