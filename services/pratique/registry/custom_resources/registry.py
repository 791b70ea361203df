"""What an API server makes of a custom resource: decoding, pruning, defaults, validation."""

from __future__ import annotations

from pratique.admission.reviews import Review
from pratique.apimachinery.field_errors import FieldError
from pratique.apimachinery.json_values import Document, JSONObject


class CustomResourceRegistry:
    """One version of a custom resource, made once from its definition.

    Raises:
        InputError: the definition has no such version.
    """

    def __init__(self, definition: JSONObject, version: str) -> None:
        self.definition = definition
        self.version = version

    def decode(self, document: Document) -> JSONObject:
        """Decode strictly, prune and default an object as received.

        Raises:
            StrictDecodingError: a field is unknown, or metadata has the wrong type.
        """
        data: JSONObject = document.data
        return data

    def with_defaults(self, written: JSONObject) -> JSONObject:
        """The object, pruned and defaulted again, as after a mutation."""
        return written

    def validate(self, written: JSONObject, old: JSONObject | None, review: Review) -> list[FieldError]:
        """Validate a new object, or an update if ``old`` is given."""
        return []
