"""Objects decoded as their kinds, strictly: in the words of Go's decoder."""

from __future__ import annotations

from pratique.apimachinery.errors import PratiqueError
from pratique.apimachinery.json_values import Document, JSONObject
from pratique.apimachinery.kinds import GroupVersionKind


class StrictDecodingError(PratiqueError):
    """An object cannot be decoded as its kind; the message is the API server's, without ``cannot be handled as``."""


def decode_strictly(kind: GroupVersionKind, document: Document) -> JSONObject:
    """Decode an object of a built-in kind: without nulls, and every value in the form in which Go writes it again.

    Raises:
        StrictDecodingError: a value has the wrong type, or a field is unknown.
    """
    data: JSONObject = document.data
    return data
