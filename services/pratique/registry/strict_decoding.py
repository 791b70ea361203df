"""Objects decoded as their kinds, strictly: in the words of Go's decoder.

Sources: ``k8s.io/apimachinery/pkg/runtime/serializer/json/json.go``, and
``k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta/coerce.go`` for the metadata of custom resources.
"""

from __future__ import annotations

import dataclasses
import functools

from pratique.apimachinery.errors import PratiqueError
from pratique.apimachinery.json_reading import type_error
from pratique.apimachinery.json_values import JSON, Document, JSONObject
from pratique.apimachinery.kinds import GroupVersionKind
from pratique.apimachinery.statuses import go_quoted
from pratique.cluster.go_checks import Check, check_of
from pratique.cluster.go_decoding import GoDecoder, Place, TypedDecodingError
from pratique.cluster.go_types import GoType, api_types, go_type_of_kind


class StrictDecodingError(PratiqueError):
    """An object cannot be decoded as its kind; the message is the API server's, without ``cannot be handled as``."""


@dataclasses.dataclass(frozen=True, slots=True)
class DecodedObject:
    """An object as Go has it, and what strict decoding would refuse."""

    data: JSONObject
    """Without nulls and unknown fields, every value in the form in which Go writes it again."""
    unknown_fields: tuple[str, ...] = ()
    """The paths of the fields that its type does not have: ``spec.containers[0].img``."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What ``fieldValidation=Warn`` warns of, and strict decoding refuses."""
        return tuple(f"unknown field {go_quoted(path)}" for path in self.unknown_fields)


def decode_strictly(kind: GroupVersionKind, document: Document) -> JSONObject:
    """Decode an object of a built-in kind: without nulls, and every value in the form in which Go writes it again.

    Raises:
        StrictDecodingError: a value has the wrong type, or a field is unknown.
    """
    decoded = decode(kind, document.data)
    if decoded.unknown_fields:
        raise StrictDecodingError(f"strict decoding error: {', '.join(decoded.warnings)}")
    return decoded.data


def decode(kind: GroupVersionKind, data: JSON) -> DecodedObject:
    """Decode an object of a built-in kind, as with ``fieldValidation=Warn``. An object of another kind stays as it is.

    Raises:
        StrictDecodingError: a value has the wrong type.
    """
    found = _type_and_check(kind)
    if found is None:
        return DecodedObject(data)
    struct, is_right = found
    return DecodedObject(data) if is_right(data) else _decode(struct, data, Place())


def decode_object_meta(metadata: JSON, path: str = "metadata") -> DecodedObject:
    """Decode the metadata of a custom resource, with which the paths in errors begin: ``ObjectMeta.name``.

    It is written with sorted names before it is decoded: of several errors, the first in that order counts.

    Args:
        metadata: The metadata.
        path: Where it is, for the paths of unknown fields.

    Raises:
        StrictDecodingError: a value has the wrong type.
    """
    struct = api_types.struct("meta.v1.ObjectMeta")
    if check_of(struct)(metadata):
        return DecodedObject(metadata)
    return (
        DecodedObject({})
        if metadata is None
        else _decode(struct, _with_sorted_names(metadata), Place(steps=(path,)))
    )


def _with_sorted_names(value: JSON) -> JSON:
    if isinstance(value, dict):
        return {name: _with_sorted_names(child) for name, child in sorted(value.items())}
    return [_with_sorted_names(item) for item in value] if isinstance(value, list) else value


@functools.lru_cache(maxsize=1024)
def _type_and_check(kind: GroupVersionKind) -> tuple[GoType, Check] | None:
    struct = go_type_of_kind(kind)
    return None if struct is None else (struct, check_of(struct))


def _decode(struct: GoType, data: JSON, place: Place) -> DecodedObject:
    if not isinstance(data, dict):
        raise StrictDecodingError(type_error(data, struct.name))
    decoder = GoDecoder(rewrites=True)
    try:
        decoded: JSONObject = decoder.decode(struct, data, place)
        decoder.finish()
    except TypedDecodingError as error:
        raise StrictDecodingError(str(error)) from None
    return DecodedObject(decoded, decoder.unknown_fields)
