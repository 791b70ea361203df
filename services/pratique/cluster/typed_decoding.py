"""Objects held against the Go types of their kinds: an object as received, and one that was patched.

An API server refuses an object of the wrong types when it reads it, before any admission controller sees it:
``k8s.io/apiserver/pkg/endpoints/handlers/create.go`` (``transformDecodeError``). After every patch it decodes the
object again: ``k8s.io/apiserver/pkg/admission/plugin/webhook/mutating/dispatcher.go`` (``jsonSerializer.Decode``) and
``sigs.k8s.io/json``. A value of the wrong type is then refused in the words of Go's decoder, and an unknown field is
dropped. Only what the patch touched is checked. A custom resource has no Go type, but its metadata is decoded as
``ObjectMeta``: before it is stored in an API server
(``k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta/coerce.go``), and after the patch here.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from pratique.apimachinery.diff import identical
from pratique.apimachinery.errors import PratiqueError
from pratique.apimachinery.field_errors import FieldPath, Step
from pratique.apimachinery.go_formats import decode_base64
from pratique.apimachinery.json_reading import go_kind
from pratique.apimachinery.json_values import JSON, Document, JSONObject, json_type, member, unescape
from pratique.apimachinery.kinds import GroupVersionKind
from pratique.apimachinery.quantities import Quantity, QuantityError
from pratique.apimachinery.requests import RequestAttributes
from pratique.apimachinery.statuses import go_quoted
from pratique.cluster.api_resources import built_in_resources
from pratique.cluster.schemas import (
    ListType,
    MapType,
    Scalar,
    Structure,
    Type,
    built_in_schema,
    built_in_type,
)

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
"""The JSON types allowed for a scalar; a boolean, which is an int in Python, only where it is listed."""


def type_fault(request: RequestAttributes) -> str:
    """Why an API server could not have decoded the object of a review, or the old one; empty if it could.

    The message names the field and reveals none of its content. Custom kinds are not checked.
    """
    for kind in _possible_kinds(request):
        schema = built_in_schema(kind)
        if schema is None:
            continue
        for document in (request.object, request.old_object):
            for path, wanted, found in _faults(schema, document, ()):
                where = f"{FieldPath(path)}: " if path else ""
                return (
                    f"{kind.kind} in version {go_quoted(kind.version)} cannot be handled as a {kind.kind}: "
                    f"{where}expected {wanted}, got {json_type(found)}"
                )
    return ""


def _possible_kinds(request: RequestAttributes) -> Iterator[GroupVersionKind]:
    """The kind that the review names, and the kinds that its resource may hold."""
    yield request.kind
    for subresource in (request.subresource, ""):
        for resource in built_in_resources().equivalents(request.resource, subresource):
            known = built_in_resources().for_resource(resource, subresource)
            if known is not None and known.kind != request.kind:
                yield known.kind


def _faults(kind: Type, value: JSON, path: tuple[Step, ...]) -> Iterator[tuple[tuple[Step, ...], str, JSON]]:
    """Yield path, expected type and value of everything of the wrong type; null is allowed anywhere."""
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


class TypedDecodingError(PratiqueError):
    """A patched object no longer fits its Go type. The message is that of Go's decoder, and quotes only times."""


_MISSING = object()
"""Stands for a missing previous value."""
_INT64_FIELDS = frozenset(
    {
        "activeDeadlineSeconds", "capacity", "count", "defaultUser", "deletionGracePeriodSeconds", "expirationSeconds",
        "fsGroup", "generation", "gid", "gracePeriodSeconds", "int", "ints", "maxItems", "maxLength",
        "maxProperties", "minItems", "minLength", "minProperties", "nodeAllocatableUpdatePeriodSeconds",
        "observedGeneration", "remainingItemCount",
        "resourceSliceCount", "revision", "runAsGroup", "runAsUser", "seconds", "sizeBytes", "startingDeadlineSeconds",
        "supplementalGroups", "terminationGracePeriodSeconds", "tolerationSeconds", "uid", "user",
    }
)  # fmt: skip
"""Fields with the format ``int64`` in ``api/openapi-spec/v3`` of release 1.37.2; all others are ``int32``. The schemas
in ``built_in.json`` do not record the format."""
_INT32_FIELDS = frozenset(
    {
        ("CertificateSigningRequestSpec", "expirationSeconds"), ("Event", "count"), ("EventSeries", "count"),
        ("PoolStatus", "resourceSliceCount"), ("VolumeNodeResources", "count"),
    }
)  # fmt: skip
"""Exceptions: types in which a field of such a name is ``int32``."""
_GO_SCALARS = {
    Scalar.STRING: "string",
    Scalar.BYTES: "[]uint8",
    Scalar.DATE_TIME: "v1.Time",
    Scalar.NUMBER: "float64",
    Scalar.BOOLEAN: "bool",
    Scalar.QUANTITY: "resource.Quantity",
    Scalar.INT_OR_STRING: "intstr.IntOrString",
}
_TIME_LAYOUT = "2006-01-02T15:04:05Z07:00"
_TIME_STEPS = (
    ("2006", r"\d{4}"), ("-", "-"), ("01", r"\d{2}"), ("-", "-"), ("02", r"\d{2}"), ("T", "T"), ("15", r"\d{2}"),
    (":", ":"), ("04", r"\d{2}"), (":", ":"), ("05", r"\d{2}(?:[.,]\d+)?"), ("Z07:00", r"Z|[+-]\d{2}:\d{2}"),
)  # fmt: skip


def decode_changed(
    kind: GroupVersionKind, before: JSON, changed: Document, operations: Iterable[JSONObject] | None = None
) -> Document:
    """Decode a patched object as one of its kind, and return it without unknown fields.

    Args:
        kind: The kind that the review names. The object's own kind takes precedence; one that is not built in
            belongs to a custom resource.
        before: The object before the patch, which is assumed to conform to its kind.
        changed: The object after the patch, which is not modified.
        operations: The patch, if it is known: what it sets is often all that has to be looked at.

    Raises:
        TypedDecodingError: a changed value has the wrong type.
    """
    data, schema = changed.data, _schema_to_decode(kind, before)
    if schema is None:
        _decode_metadata(before, data)
        return changed
    if operations is not None and _values_conform(schema, before, operations):
        return changed
    decoder = _TypedDecoder()
    decoded = decoder.decode(schema, data, before, _FieldLocation())
    decoder.finish()
    return changed if decoded is data else Document.from_data(decoded)


def conforms(
    kind: GroupVersionKind, schema: Structure, before: JSON, operations: Iterable[JSONObject]
) -> bool:
    """Whether an object, patched by operations, surely has the types and fields of its kind.

    Looks at what the operations set and at nothing else. If it is not sure, :func:`decode_changed`, and a search for
    unknown fields, may still find that it has.

    Args:
        kind: The kind that the review names.
        schema: The schema whose fields the object may have.
        before: The object before the patch, which is assumed to conform to its kind.
        operations: The patch; those that move or copy values leave it unsure.
    """
    return _schema_to_decode(kind, before) is schema and _values_conform(schema, before, operations)


def _values_conform(schema: Structure, before: JSON, operations: Iterable[JSONObject]) -> bool:
    decoder = _TypedDecoder()
    try:
        for operation in operations:
            path, value = operation["path"], operation.get("value")
            if operation["op"] == "test":
                continue
            if operation["op"] not in _CHANGES:
                return False
            if value is None and operation["op"] != "remove":
                return False  # where a map or list has it, it is the zero value
            field = (_known_field if len(path) < _MAX_KNOWN_PATH else _field_at)(schema, path)
            if field is None or (field.is_item and _moves_items(before, operation)):
                return False
            if field.type is Scalar.STRING and type(value) is str:
                continue  # the most frequent change
            if decoder.decode(field.type, value, _MISSING, field.location) is not value:
                return False
        decoder.finish()
    except TypedDecodingError:
        return False
    return True


_CHANGES = frozenset({"add", "remove", "replace"})


class _FieldAtPath(NamedTuple):
    """A field, a member of a map or an item of a list."""

    type: Type
    location: _FieldLocation
    is_item: bool


def _field_at(schema: Structure, path: str) -> _FieldAtPath | None:
    """Find what a JSON Pointer leads to; None if the schema does not say."""
    found: Type | None = schema
    location, is_item = _FieldLocation(), False
    for step in path.split("/")[1:]:
        is_item = False
        match found:
            case Structure(open=False):
                name = unescape(step)
                location, found = _FieldLocation(found.name, (name,)), found.fields.get(name)
            case MapType():
                found = found.values
            case ListType() if step.isdecimal() or step == "-":
                found, is_item = found.items, True
            case Structure() | Scalar.ANY:
                found = Scalar.ANY
            case _:
                return None
    return None if found is None else _FieldAtPath(found, location, is_item)


_MAX_KNOWN_PATH = 200
"""The longest path to remember, so that all of them together take a few hundred kilobytes."""
_known_field = functools.lru_cache(maxsize=1024)(_field_at)
"""Policies change the same fields of one object after the other."""


def _moves_items(before: JSON, operation: JSONObject) -> bool:
    """Whether an operation on an item may move others to indexes that were not theirs before."""
    if operation["op"] != "add":
        return bool(operation["op"] == "remove")
    value = before
    *parents, index = map(unescape, operation["path"].split("/")[1:])
    if index == "-":
        return False
    for step in parents:
        value = member(value, int(step) if isinstance(value, list) else step)
    return isinstance(value, list) and int(index) < len(value)


def _schema_to_decode(kind: GroupVersionKind, before: JSON) -> Structure | None:
    """The schema of the object's own kind, else of the kind that the review names; None if that is not built in."""
    own = _own_schema(before.get("apiVersion"), before.get("kind")) if isinstance(before, dict) else None
    return built_in_schema(kind) if own is None else own.schema


class _OwnSchema(NamedTuple):
    """The schema of an object's own kind; None if that is not built in."""

    schema: Structure | None


def _own_schema(api_version: JSON, kind: JSON) -> _OwnSchema | None:
    """The schema of an object's own kind; None if the object names no kind."""
    if not isinstance(api_version, str) or not isinstance(kind, str) or not api_version or not kind:
        return None
    return _schema_of(api_version, kind)


@functools.lru_cache(maxsize=256)
def _schema_of(api_version: str, kind: str) -> _OwnSchema:
    group, _, version = api_version.rpartition("/")
    return _OwnSchema(built_in_schema(GroupVersionKind(group, version, kind)))


def _decode_metadata(before: JSON, data: JSON) -> None:
    """Check a custom resource's metadata, which is decoded by itself, so paths in errors start there."""
    if not isinstance(data, dict) or data.get("metadata") is None:
        return
    former_value = before.get("metadata") if isinstance(before, dict) else None
    decoder = _TypedDecoder()
    decoder.decode(built_in_type("meta.v1.ObjectMeta"), data["metadata"], former_value, _FieldLocation())
    decoder.finish()


def decode_object_meta(metadata: JSON) -> JSONObject:
    """Decode metadata of a custom resource without nulls and unknown fields.

    Raises:
        TypedDecodingError: a value has the wrong type.
    """
    schema, decoder = built_in_type("meta.v1.ObjectMeta"), _TypedDecoder()
    decoded = decoder.decode(schema, metadata, _MISSING, _FieldLocation(schema.name))
    decoder.finish()
    found: JSONObject = _without_nulls(schema, decoded)
    return found


def without_nulls(kind: GroupVersionKind, data: JSONObject) -> JSONObject:
    """Decode the nulls of an object: a field that is null is absent, and in a map or list null is the zero value.

    Of a custom resource, only the metadata is decoded. Values of the wrong type, and unknown fields, stay as they are.
    """
    schema = built_in_schema(kind)
    if schema is not None:
        found: JSONObject = _without_nulls(schema, data)
        return found
    if "metadata" not in data:
        return data
    return {**data, "metadata": _without_nulls(built_in_type("meta.v1.ObjectMeta"), data["metadata"])}


def _without_nulls(kind: Type, value: JSON) -> JSON:
    match kind:
        case Structure() if isinstance(value, dict):
            fields = kind.fields
            return {
                name: _without_nulls(fields[name], child) if name in fields else child
                for name, child in value.items()
                if child is not None or name not in fields
            }
        case MapType() if isinstance(value, dict):
            return {name: _null_or_decoded(kind.values, child) for name, child in value.items()}
        case ListType() if isinstance(value, list):
            return [_null_or_decoded(kind.items, item) for item in value]
    return value


def _null_or_decoded(kind: Type, value: JSON) -> JSON:
    return zero_value(kind) if value is None else _without_nulls(kind, value)


_ZERO_VALUES: Mapping[Scalar, JSON] = {
    Scalar.STRING: "",
    Scalar.INTEGER: 0,
    Scalar.NUMBER: 0,
    Scalar.BOOLEAN: False,
    Scalar.QUANTITY: "0",
    Scalar.INT_OR_STRING: 0,
}


def zero_value(kind: Type) -> JSON:
    """What Go makes of null where a map or list has a value of that type; None if that is null again."""
    if isinstance(kind, Structure):
        return None if kind.open else {}
    return _ZERO_VALUES.get(kind) if isinstance(kind, Scalar) else None


class _FieldLocation(NamedTuple):
    """A location as Go's decoder reports it: fields, without list indexes and map keys."""

    type_name: str = ""
    path: tuple[str, ...] = ()

    @property
    def struct(self) -> str:
        return self.type_name.rpartition(".")[2]

    def mismatch(self, found: str, go_type: str) -> str:
        where = f"Go struct field {self.struct}.{'.'.join(self.path)}" if self.path else "Go value"
        return f"json: cannot unmarshal {found} into {where} of type {go_type}"

    @property
    def integer(self) -> str:
        name = self.path[-1] if self.path else ""
        return "int64" if name in _INT64_FIELDS and (self.struct, name) not in _INT32_FIELDS else "int32"


class _TypedDecoder:
    """Walks a patched object, its previous state and its type side by side."""

    def __init__(self) -> None:
        self._first = ""

    def finish(self) -> None:
        """Raise the first mismatch: Go's decoder continues after one, but stops at once at a string it cannot parse."""
        if self._first:
            raise TypedDecodingError(self._first)

    def decode(self, kind: Type, value: JSON, before: JSON, location: _FieldLocation) -> JSON:
        """Check a value that may have changed, and return it without unknown fields."""
        if value is before or value is None:
            return value
        match kind:
            case Structure() if isinstance(value, dict) and not kind.open:
                return self._structure(kind, value, before, location)
            case MapType() if isinstance(value, dict):
                return self._map(kind, value, before, location)
            case ListType() if isinstance(value, list):
                return self._list(kind, value, before, location)
        if not identical(value, before):
            self._check_value(kind, value, location)
        return value

    def _structure(self, kind: Structure, value: JSONObject, before: JSON, location: _FieldLocation) -> JSON:
        former_value = before if isinstance(before, dict) else {}
        kept: JSONObject | None = None
        changed = [name for name, child in value.items() if child is not former_value.get(name, _MISSING)]
        if former_value and len(changed) > 1:
            changed.sort()  # Go writes the objects above a change again, with sorted names, before decoding them
        for name in changed:
            child, former = value[name], former_value.get(name, _MISSING)
            field = kind.fields.get(name)
            if field is not None:
                if field is Scalar.STRING and type(child) is str:
                    continue  # the most frequent change
                decoded = self.decode(field, child, former, _FieldLocation(kind.name, (*location.path, name)))
                if decoded is not child:
                    kept = value.copy() if kept is None else kept
                    kept[name] = decoded
            elif not identical(child, former):
                kept = value.copy() if kept is None else kept
                del kept[name]
        return value if kept is None else kept

    def _map(self, kind: MapType, value: JSONObject, before: JSON, location: _FieldLocation) -> JSON:
        former_value = before if isinstance(before, dict) else {}
        if kind.values is Scalar.STRING and set(map(type, value.values())) == {str}:
            return value
        decoded = {
            name: zero_value(kind.values)
            if child is None
            else self.decode(kind.values, child, former_value.get(name, _MISSING), location)
            for name, child in value.items()
        }
        return value if all(map(operator.is_, decoded.values(), value.values())) else decoded

    def _list(self, kind: ListType, value: list[JSON], before: JSON, location: _FieldLocation) -> JSON:
        # Inserting moves the other items: an item that was anywhere in the old list is not checked again.
        former_value = before if isinstance(before, list) else []
        known = {id(item) for item in former_value}
        decoded = []
        for n, item in enumerate(value):
            former = former_value[n] if n < len(former_value) else _MISSING
            if item is None:
                decoded.append(zero_value(kind.items))
            elif item is former or id(item) in known:
                decoded.append(item)
            else:
                decoded.append(self.decode(kind.items, item, former, location))
        return value if all(map(operator.is_, decoded, value)) else decoded

    def _check_value(self, kind: Type, value: JSON, location: _FieldLocation) -> None:
        """Check a value without parts."""
        match kind:
            case Structure(open=True) | Scalar.ANY:
                return
            case Scalar.INTEGER | Scalar.INT_OR_STRING:
                self._check_integer(kind, value, location)
            case Scalar.QUANTITY:
                _check_quantity(value)
            case Scalar.DATE_TIME:
                _check_time(value, location)
            case Scalar.BYTES if isinstance(value, str | list):
                self._check_bytes(value)
            case _:
                self._check_scalar(kind, value, location)

    def _check_scalar(self, kind: Type, value: JSON, location: _FieldLocation) -> None:
        if not isinstance(kind, Scalar) or not _is_scalar(kind, value):
            self._mismatch(go_kind(value), _go_type(kind, location), location)

    def _check_bytes(self, value: JSON) -> None:
        if isinstance(value, list):
            return  # Go also accepts a list of numbers, which nobody writes
        try:
            decode_base64(value)
        except ValueError as error:
            self._record(str(error))

    def _check_integer(self, kind: Scalar, value: JSON, location: _FieldLocation) -> None:
        if kind is Scalar.INT_OR_STRING and isinstance(value, str):
            return
        wanted = "int32" if kind is Scalar.INT_OR_STRING else location.integer
        found = go_kind(value)
        if found == "number":
            bits = 31 if wanted == "int32" else 63
            if isinstance(value, int) and -(1 << bits) <= value < 1 << bits:
                return
            found = f"number {value}"
        if kind is Scalar.INT_OR_STRING:
            raise TypedDecodingError(location.mismatch(found, wanted))
        self._mismatch(found, wanted, location)

    def _mismatch(self, found: str, go_type: str, location: _FieldLocation) -> None:
        self._record(location.mismatch(found, go_type))

    def _record(self, text: str) -> None:
        self._first = self._first or text


def _go_type(kind: Type, location: _FieldLocation) -> str:
    """A type as Go's ``reflect`` prints it: ``map[string]string``, ``[]v1.Container``."""
    match kind:
        case ListType():
            return f"[]{_go_type(kind.items, location)}"
        case MapType(values=Scalar.QUANTITY):
            return "v1.ResourceList"
        case MapType():
            return f"map[string]{_go_type(kind.values, location)}"
        case Structure():
            return ".".join(kind.name.rsplit(".", 2)[-2:])
        case Scalar.INTEGER:
            return location.integer
        case _:
            return _GO_SCALARS.get(kind, "interface {}")


def _check_quantity(value: JSON) -> None:
    """Check a quantity, which may be a number; Go passes the text of anything else to the same parser."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    try:
        Quantity.parse(value if isinstance(value, str) else str(value) if is_number else "none")
    except QuantityError as error:
        raise TypedDecodingError(str(error)) from None


def _check_time(text: JSON, location: _FieldLocation) -> None:
    """Check a time as Go's ``time.Parse`` does, step by step: the error quotes the rest from the mismatch on."""
    if not isinstance(text, str):
        raise TypedDecodingError(location.mismatch(go_kind(text), "string"))
    rest = text
    for step, pattern in _TIME_STEPS:
        found = re.match(pattern, rest, re.ASCII)
        if found is None:
            problem = f"cannot parse {go_quoted(rest)} as {go_quoted(step)}"
            raise TypedDecodingError(
                f"parsing time {go_quoted(text)} as {go_quoted(_TIME_LAYOUT)}: {problem}"
            )
        rest = rest[found.end() :]
    if rest:
        raise TypedDecodingError(f"parsing time {go_quoted(text)}: extra text: {go_quoted(rest)}")
