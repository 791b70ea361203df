"""Type faults: members of a reviewed object that are of another type than Kubernetes' kind of that name has there.

An API server refuses such an object when it reads it, before any admission controller sees it:
``k8s.io/apiserver/pkg/endpoints/handlers/create.go`` (``transformDecodeError``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.apimachinery.field_errors import FieldPath
from pratique.apimachinery.json_values import json_type
from pratique.apimachinery.statuses import go_quoted
from pratique.cluster.api_resources import built_in_resources
from pratique.cluster.schemas import ListType, MapType, Scalar, Structure, built_in_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pratique.admission.reviews import Review
    from pratique.apimachinery.field_errors import Step
    from pratique.apimachinery.json_values import JSON
    from pratique.apimachinery.kinds import GroupVersionKind
    from pratique.cluster.schemas import Type

_STRING = (str,)
_ACCEPTED_JSON_TYPES: Mapping[Scalar, tuple[type, ...]] = {
    Scalar.STRING: _STRING,
    Scalar.BYTES: (str, list),
    Scalar.DATE_TIME: _STRING,
    Scalar.DATE: _STRING,
    Scalar.DURATION: _STRING,
    Scalar.INTEGER: (int,),
    Scalar.NUMBER: (int, float),
    Scalar.BOOLEAN: (bool,),
    Scalar.QUANTITY: (str, int, float),
    Scalar.INT_OR_STRING: (str, int),
}
"""What JSON may hold for a type; a boolean, which Python takes for an integer, only where it is named."""


def type_fault(review: Review) -> str:
    """Say why an API server could not have read the object of a review, or the old one; empty where it could.

    The text names the field and says nothing of its content. Of kinds that are not Kubernetes' own nothing is known.
    """
    for kind in _possible_kinds(review):
        schema = built_in_schema(kind)
        if schema is None:
            continue
        for document in (review.object, review.old_object):
            for path, wanted, found in _faults(schema, document, ()):
                where = f"{FieldPath(path)}: " if path else ""
                return (
                    f"{kind.kind} in version {go_quoted(kind.version)} cannot be handled as a {kind.kind}: "
                    f"{where}expected {wanted}, got {json_type(found)}"
                )
    return ""


def _possible_kinds(review: Review) -> Iterator[GroupVersionKind]:
    """The kind that the review names, and those that its resource may hold, whatever it names."""
    yield review.kind
    for subresource in (review.subresource, ""):
        for resource in built_in_resources().equivalents(review.resource, subresource):
            known = built_in_resources().for_resource(resource, subresource)
            if known is not None and known.kind != review.kind:
                yield known.kind


def _faults(kind: Type, value: JSON, path: tuple[Step, ...]) -> Iterator[tuple[tuple[Step, ...], str, JSON]]:
    """Find what is of another type: where it is, what belongs there, and what is there; null belongs anywhere."""
    if value is None:
        return
    match kind:
        case ListType() if isinstance(value, list):
            for index, item in enumerate(value):
                yield from _faults(kind.items, item, (*path, index))
        case ListType():
            yield path, "list", value
        case MapType() | Structure() if isinstance(value, dict):
            for name, child in value.items():
                inner = kind.values if isinstance(kind, MapType) else kind.fields.get(name, Scalar.ANY)
                yield from _faults(inner, child, (*path, name))
        case MapType() | Structure():
            yield path, "object", value
        case Scalar() if not _is_scalar(kind, value):
            yield path, kind.value, value


def _is_scalar(kind: Scalar, value: JSON) -> bool:
    accepted = _ACCEPTED_JSON_TYPES.get(kind)
    if accepted is None:
        return True
    return isinstance(value, accepted) and (not isinstance(value, bool) or bool in accepted)
