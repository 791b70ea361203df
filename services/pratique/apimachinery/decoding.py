"""Decoding JSON into typed values: strictly, with every mistake reported, and the responses of webhooks as Go does.

Strict decoding words its mistakes as the API server does (``k8s.io/apimachinery/pkg/runtime/serializer/json``);
responses are decoded as ``encoding/json`` and ``sigs.k8s.io/yaml`` would.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, TypeAlias, TypeVar

import msgspec
from msgspec import inspect

from pratique.apimachinery.errors import BadAnswerError
from pratique.apimachinery.field_errors import OMITTED, ROOT, FieldPath, invalid, type_invalid
from pratique.apimachinery.go_formats import decode_base64
from pratique.apimachinery.json_reading import TOO_MANY_VALUES, has_too_many_values, syntax_error, type_error
from pratique.apimachinery.json_values import JSON
from pratique.apimachinery.kinds import GroupVersionKind
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.prepared_types import prepared
from pratique.apimachinery.statuses import go_quoted

T = TypeVar("T", bound=msgspec.Struct)


class DecodingProblem(msgspec.Struct, frozen=True):
    """One mistake: the field it is in, and a message that names the field."""

    path: FieldPath
    text: str
    hint: str = ""
    """What was probably meant, for who reads the problem alone; not part of the API server's words."""

    def __str__(self) -> str:
        return self.text


class StrictDecodingError(ValueError):
    """Data does not have the expected type. Prints as the API server prints it."""

    def __init__(self, problems: Sequence[DecodingProblem]) -> None:
        """Hold all mistakes, in the order of the data."""
        super().__init__(f"strict decoding error: {', '.join(str(problem) for problem in problems)}")
        self.problems = tuple(problems)


def decode_strictly(data: JSON, kind: type[T]) -> T:
    """Convert JSON data to a typed value.

    Raises:
        StrictDecodingError: a member is unknown or has the wrong type; the error holds every such mistake.
    """
    decoder = _StrictDecoder()
    cleaned = decoder.clean(data, _type_info(kind), ROOT)
    if decoder.problems:
        raise StrictDecodingError(decoder.problems)
    try:
        return msgspec.convert(cleaned, prepared(kind))
    except msgspec.ValidationError as error:
        raise StrictDecodingError([DecodingProblem(ROOT, str(error))]) from None


@functools.cache
def _type_info(kind: type) -> inspect.Type:
    return inspect.type_info(kind)


class _StrictDecoder:
    """Walks data and its type side by side, and collects the mistakes."""

    def __init__(self) -> None:
        self.problems: list[DecodingProblem] = []

    def clean(self, value: JSON, info: inspect.Type, path: FieldPath) -> JSON:
        """Check a value, and return it without its null members."""
        info = _without_none(info)
        if value is None:
            return _ZERO_VALUES.get(type(info))
        expected, types = _EXPECTED.get(type(info), ("", (object,)))
        if not isinstance(value, types) or (expected == "integer" and isinstance(value, bool)):
            self._mismatch(value, path, expected)
            return value
        return self._clean_inside(value, info, path)

    def _clean_inside(self, value: JSON, info: inspect.Type, path: FieldPath) -> JSON:
        match info:
            case inspect.StructType():
                return self._clean_struct(value, info, path)
            case inspect.ListType() | inspect.VarTupleType():
                items = enumerate(value)
                return [self.clean(item, info.item_type, path / index) for index, item in items]
            case inspect.DictType():
                members = value.items()
                return {name: self.clean(item, info.value_type, path / name) for name, item in members}
            case inspect.IntType():
                self._check_range(value, info, path)
            case inspect.BytesType():
                return self._decode(value, path)
        return value

    def _clean_struct(self, value: JSON, info: inspect.StructType, path: FieldPath) -> JSON:
        # Null members are left out below: Go treats them as absent.
        fields = {field.encode_name: field.type for field in info.fields}
        cleaned = {}
        for name, item in value.items():
            field_path = path / name
            if name not in fields:
                hint = _nearest(name, fields)
                self.problems.append(DecodingProblem(field_path, f'unknown field "{field_path}"', hint))
            elif item is not None:
                cleaned[name] = self.clean(item, fields[name], field_path)
        return cleaned

    def _check_range(self, value: int, info: inspect.IntType, path: FieldPath) -> None:
        low, high = info.ge, info.le
        if low is not None and high is not None and not low <= value <= high:
            detail = f"must be between {low} and {high}, inclusive"
            self.problems.append(DecodingProblem(path, str(invalid(path, value, detail))))

    def _decode(self, value: str, path: FieldPath) -> bytes:
        try:
            return decode_base64(value)
        except ValueError as error:
            self.problems.append(DecodingProblem(path, str(invalid(path, OMITTED, str(error)))))
            return b""

    def _mismatch(self, value: JSON, path: FieldPath, expected: str) -> None:
        found = _type_name(value)
        body = f"{path} in body" if path.steps else "body"
        error = type_invalid(path, found, f'{body} must be of type {expected}: "{found}"')
        self.problems.append(DecodingProblem(path, str(error) if path.steps else error.body))


_EXPECTED: Mapping[type[inspect.Type], tuple[str, tuple[type, ...]]] = {
    inspect.StructType: ("object", (dict,)),
    inspect.DictType: ("object", (dict,)),
    inspect.ListType: ("array", (list,)),
    inspect.VarTupleType: ("array", (list,)),
    inspect.StrType: ("string", (str,)),
    inspect.BytesType: ("string", (str,)),
    inspect.BoolType: ("boolean", (bool,)),
    inspect.IntType: ("integer", (int,)),
    inspect.FloatType: ("number", (int, float)),
}
_ZERO_VALUES: Mapping[type[inspect.Type], JSON] = {
    inspect.StructType: {},
    inspect.DictType: {},
    inspect.ListType: [],
    inspect.VarTupleType: [],
    inspect.StrType: "",
    inspect.BytesType: b"",
    inspect.BoolType: False,
    inspect.IntType: 0,
    inspect.FloatType: 0.0,
}
_TYPE_NAMES = {bool: "boolean", str: "string", int: "integer", float: "number", list: "array", dict: "object"}


def _nearest(name: str, fields: Iterable[str]) -> str:
    """Ask whether the field with the nearest name was meant, whatever its case; empty if none is near."""
    known = {field.lower(): field for field in fields}
    close = difflib.get_close_matches(name[:_LONGEST_NAME].lower(), known, n=1, cutoff=_SIMILARITY)
    return f'did you mean "{known[close[0]]}"?' if close else ""


_LONGEST_NAME = 64
"""Characters of a name that are compared: no field has more, and comparing takes time by their product."""
_SIMILARITY = 0.75
"""difflib's ratio: ``expresion`` is similar enough to ``expression``, ``validations`` is not to ``mutations``."""


def _type_name(value: JSON) -> str:
    return _TYPE_NAMES.get(type(value), "null")


def _without_none(info: inspect.Type) -> inspect.Type:
    """The type without None: what an optional value is when it is present."""
    if not isinstance(info, inspect.UnionType):
        return info
    others = [other for other in info.types if not isinstance(other, inspect.NoneType)]
    return others[0] if len(others) == 1 else inspect.AnyType()


_YAML_LIMIT = 16 * 1024
"""Bytes up to which a response that is not JSON is parsed as YAML: enough for an error page, and quick to parse."""

_KIND_TYPE = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)
_TOO_DEEP = "invalid character '{' exceeded max depth"
"""Go allows 10,000 levels; Python allows fewer, and no real response needs ten."""

_LONE_SURROGATE = pattern("[\ud800-\udfff]")

_GO_KINDS = {"str": "string", "int": "number", "float": "number"}
"""Go's names for the JSON types, where msgspec has other names."""

_MSGSPEC_MISMATCH = pattern(r"got `(?P<got>\w+)`(?: - at `\$\.?(?P<path>[^`]*)`)?")
_ITEM_INDEX = pattern(r"\[[^\]]*\]")

GoTypes: TypeAlias = "Mapping[str, tuple[str, str]]"
"""By path: the Go struct that has the field, and the field's Go type."""


class TypeMeta(msgspec.Struct, frozen=True, rename="camel"):
    """``metav1.TypeMeta``: what a response says that it is."""

    api_version: str | None = None
    kind: str | None = None

    @property
    def group_version_kind(self) -> GroupVersionKind:
        """Group, version and kind as written."""
        group, _, version = (self.api_version or "").rpartition("/")
        return GroupVersionKind(group, version, self.kind or "")


class Scheme(msgspec.Struct, frozen=True):
    """The types that the API server knows where it reads responses of one group."""

    group: str
    versions: tuple[str, ...]
    kinds: tuple[str, ...]
    """The kinds of each version; the first is the one that responses should have."""
    name: str = "pkg/runtime/scheme.go:111"
    """What the API server calls it: where it made it."""

    def check(self, found: TypeMeta, version: str) -> None:
        """Refuse a response that claims to be of another type than the first kind in ``version``.

        What it does not say is taken from there. Sources: ``Decode`` in
        ``k8s.io/apimachinery/pkg/runtime/serializer/{json/json.go,versioning/versioning.go}``, ``AddToGroupVersion`` in
        ``pkg/apis/meta/v1/register.go``.

        Raises:
            BadAnswerError: it does. The text is that of Go's decoder.
        """
        if not found.api_version and not found.kind:
            return
        if (found.api_version or "").count("/") > 1:
            raise BadAnswerError(f"unexpected GroupVersion string: {found.api_version}")
        expected = GroupVersionKind(self.group, version, self.kinds[0])
        claimed = _with_defaults(found.group_version_kind, expected)
        if claimed == expected:
            return
        go_type = self._go_type(claimed)
        if go_type:
            raise BadAnswerError(f"converting ({go_type}) to ({version}.{expected.kind}): unknown conversion")
        internal = f"the internal version of group {go_quoted(claimed.group)}"
        where = internal if claimed.version == _INTERNAL else f"version {go_quoted(claimed.api_version)}"
        raise BadAnswerError(
            f"no kind {go_quoted(claimed.kind)} is registered for {where} in scheme {go_quoted(self.name)}"
        )

    def _go_type(self, claimed: GroupVersionKind) -> str:
        """The Go type of a kind; empty if it is not known."""
        if claimed.kind in _UNVERSIONED:
            return f"v1.{claimed.kind}"
        if claimed.group != self.group:
            return ""
        if claimed.version == _INTERNAL:
            return "v1.InternalEvent" if claimed.kind == "WatchEvent" else ""
        if claimed.version not in self.versions or claimed.kind not in {*self.kinds, *_IN_EVERY_VERSION}:
            return ""
        return f"{claimed.version if claimed.kind in self.kinds else 'v1'}.{claimed.kind}"


_INTERNAL = "__internal"
_UNVERSIONED = frozenset({"Status", "APIVersions", "APIGroup", "APIGroupList", "APIResourceList"})
"""Kinds that are known whatever version is named."""
_IN_EVERY_VERSION = frozenset(
    {
        "WatchEvent",
        "ListOptions",
        "GetOptions",
        "DeleteOptions",
        "CreateOptions",
        "UpdateOptions",
        "PatchOptions",
    }
)


def _with_defaults(found: GroupVersionKind, expected: GroupVersionKind) -> GroupVersionKind:
    """``gvkWithDefaults``."""
    group, version = found.group, found.version
    if not version and group in {"", expected.group}:
        group, version = expected.group, expected.version
    return GroupVersionKind(group, version, found.kind or expected.kind)


_type_meta = msgspec.json.Decoder(prepared(TypeMeta))
_ResponseType = TypeVar("_ResponseType", bound=TypeMeta)


class ResponseDecoder(Generic[_ResponseType]):
    """Decodes responses of one kind."""

    def __init__(self, document: type[_ResponseType], scheme: Scheme, go_types: GoTypes) -> None:
        """Decode responses as ``document``, a struct whose members are all optional.

        ``go_types`` supply the words for a member of the wrong type.
        """
        self._document = document
        self._scheme = scheme
        self._go_types = go_types
        self._decoder = msgspec.json.Decoder(prepared(document))

    def decode(self, body: bytes, version: str) -> _ResponseType:
        """Decode the response to a request of a version.

        Raises:
            BadAnswerError: it is not JSON, or of another type or version, or a member has the wrong type. The text is
                that of Go's decoder. Or it holds more than 600,000 values, which the API server accepts.
        """
        if has_too_many_values(body):
            raise BadAnswerError(f"response body holds {TOO_MANY_VALUES}")  # before any of them takes memory
        # Like the API server, take anything else than an object for YAML.
        if not body.lstrip().startswith(b"{"):
            return self._convert(_decode_yaml_object(body), version)
        try:
            document = self._decoder.decode(body)
        except msgspec.ValidationError as error:
            with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
                self._scheme.check(
                    _type_meta.decode(body), version
                )  # as Go does before it reads other members
            raise self._type_mismatch(error) from None
        except (msgspec.DecodeError, UnicodeDecodeError):
            return self._convert(_decode_with_replacement(body), version)
        except RecursionError:
            raise _parse_error(_TOO_DEEP) from None
        self._scheme.check(document, version)
        return document

    def _convert(self, data: JSON, version: str) -> _ResponseType:
        try:
            self._scheme.check(msgspec.convert(data, prepared(TypeMeta)), version)
            return msgspec.convert(data, prepared(self._document))
        except msgspec.ValidationError as error:
            raise self._type_mismatch(error) from None

    def _type_mismatch(self, error: msgspec.ValidationError) -> BadAnswerError:
        found = _MSGSPEC_MISMATCH.search(str(error))
        path = _ITEM_INDEX.sub("[]", (found and found["path"]) or "")
        if found is None or path not in self._go_types:
            return BadAnswerError(f"json: {error}")
        struct, go_type = self._go_types[path]
        got = _GO_KINDS.get(found["got"], found["got"])
        if struct == self._scheme.kinds[0] and go_type == "string":
            return _parse_error(f"json: cannot unmarshal {got} into Go struct field .{path} of type string")
        return go_type_mismatch(got, f"{struct}.{path.replace('[]', '')}", go_type)


def go_type_mismatch(kind: str, field: str, go_type: str) -> BadAnswerError:
    """The error for a member of the wrong type: ``UnmarshalTypeError``."""
    return BadAnswerError(f"json: cannot unmarshal {kind} into Go struct field {field} of type {go_type}")


def _decode_with_replacement(body: bytes) -> JSON:
    """Decode JSON that Go accepts and msgspec does not: its strings are not valid Unicode."""
    fault = syntax_error(body)
    if fault:
        raise _parse_error(fault)
    try:
        text = json.dumps(json.loads(body.decode("utf-8", "replace")), ensure_ascii=False)
    except RecursionError:
        raise _parse_error(_TOO_DEEP) from None
    except ValueError:  # of what msgspec refuses, too: an integer of thousands of digits
        raise _parse_error("a number is out of the range of float64") from None
    return json.loads(_LONE_SURROGATE.sub("\ufffd", text))


def _decode_yaml_object(body: bytes) -> JSON:
    """Decode a response that does not start as a JSON object, as YAML; it must be an object, or empty."""
    data = _first_yaml_document(body) if len(body) <= _YAML_LIMIT else ""
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise _parse_error(type_error(data, _KIND_TYPE))
    return data


def _first_yaml_document(body: bytes) -> JSON:
    # Imported here because only a response that is not JSON needs it.
    from pratique.apimachinery.yaml_values import YamlReadError, read_values  # noqa: PLC0415

    try:
        first = next(read_values(body), None)
    except YamlReadError as fault:
        raise BadAnswerError(
            f"error converting YAML to JSON: yaml: line {fault.line}: {fault.problem}"
        ) from None
    return None if first is None else first.value


def _parse_error(reason: str) -> BadAnswerError:
    return BadAnswerError(f"couldn't get version/kind; json parse error: {reason}")
