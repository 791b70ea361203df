"""Objects decoded as their kinds, strictly: in the words of Go's decoder.

Sources: ``k8s.io/apimachinery/pkg/runtime/serializer/json/json.go``, and
``k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta/coerce.go`` for the metadata of custom resources.
"""

from __future__ import annotations

import functools

import msgspec

from pratique.apimachinery.errors import PratiqueError
from pratique.apimachinery.json_reading import type_error
from pratique.apimachinery.json_values import JSON, Document, JSONObject
from pratique.apimachinery.kinds import GroupVersionKind
from pratique.apimachinery.statuses import go_quoted
from pratique.cluster.go_checks import Check, check_of
from pratique.cluster.go_decoding import GoDecoder, Place, TypedDecodingError, read_with_numbers
from pratique.cluster.go_types import GoType, api_types, go_type_of_kind


class StrictDecodingError(PratiqueError):
    """An object cannot be decoded as its kind; the message is the API server's, without ``cannot be handled as``."""


class DecodedObject(msgspec.Struct, frozen=True):
    """An object as Go has it, and what strict decoding would refuse."""

    data: JSONObject
    """Without nulls, zeros that Go omits, and unknown fields, every value in the form in which Go writes it again."""
    unknown_fields: tuple[str, ...] = ()
    """The paths of the fields that its type does not have: ``spec.containers[0].img``."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What ``fieldValidation=Warn`` warns of, and strict decoding refuses."""
        return tuple(f"unknown field {go_quoted(path)}" for path in self.unknown_fields)

    def strictly(self) -> JSONObject:
        """The data, if strict decoding does not refuse them.

        Raises:
            StrictDecodingError: a field is unknown.
        """
        if self.unknown_fields:
            raise StrictDecodingError(f"strict decoding error: {', '.join(self.warnings)}")
        return self.data


def decode(kind: GroupVersionKind, document: Document, before: JSON = None) -> DecodedObject:
    """Decode an object of a built-in kind, as with ``fieldValidation=Warn``. An object of another kind stays as it is.

    Args:
        kind: The kind and version.
        document: The object.
        before: An object that was decoded before: parts that both share are not looked at.

    Raises:
        StrictDecodingError: a value has the wrong type.
    """
    found, data = _type_and_check(kind), document.data
    if found is None or found[1](data if before is None else _without_shared(data, before)):
        return DecodedObject(data)
    return _decode(found[0], document, Place())


def _without_shared(value: JSON, before: JSON) -> JSON:
    """The value without the members that an object before has at the same place."""
    if type(value) is not dict or type(before) is not dict:
        return value
    return {
        name: _without_shared(child, before.get(name))
        for name, child in value.items()
        if child is not before.get(name, _NONE)
    }


_NONE = object()


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
    if metadata is None or check_of(struct)(metadata):
        return DecodedObject(metadata or {})
    return _decode(struct, Document.from_data(_with_sorted_names(metadata)), Place(steps=(path,)))


def _with_sorted_names(value: JSON) -> JSON:
    if isinstance(value, dict):
        return {name: _with_sorted_names(child) for name, child in sorted(value.items())}
    return [_with_sorted_names(item) for item in value] if isinstance(value, list) else value


@functools.lru_cache(maxsize=1024)
def _type_and_check(kind: GroupVersionKind) -> tuple[GoType, Check] | None:
    struct = go_type_of_kind(kind)
    return None if struct is None else (struct, check_of(struct))


def _decode(struct: GoType, document: Document, place: Place) -> DecodedObject:
    if not isinstance(document.data, dict):
        raise StrictDecodingError(type_error(document.data, struct.name))
    decoder = GoDecoder(rewrites=True)
    try:
        decoded = _decode_with(decoder, struct, document.data, place)
    except StrictDecodingError:
        if not decoder.needs_text:
            raise
    if decoder.needs_text:
        decoder = GoDecoder(rewrites=True, has_texts=True)
        decoded = _decode_with(decoder, struct, read_with_numbers(document.raw), place)
    return DecodedObject(decoded, decoder.unknown_fields)


def _decode_with(decoder: GoDecoder, struct: GoType, data: JSON, place: Place) -> JSONObject:
    try:
        decoded: JSONObject = decoder.decode(struct, data, place)
        decoder.finish()
    except TypedDecodingError as error:
        raise StrictDecodingError(str(error)) from None
    return decoded
