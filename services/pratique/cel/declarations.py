"""Declarations: functions, variables, types and schemas in the type checker's notation.

Sources: ``github.com/google/cel-go/common/env`` for the configuration, and below ``k8s.io/apiserver/pkg/cel``
``common/schemas.go`` and ``escaping.go`` for schemas.
"""

from __future__ import annotations

import functools
import re
import string
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.patterns import pattern
from pratique.cluster.schemas import ListType, MapType, Scalar, Structure, Type

if TYPE_CHECKING:
    from pratique.cel.activation import Implementation
    from pratique.cel.type_descriptors import StructTypes

_TYPE = pattern(r"([\w.]+)(?:<(.*)>)?")


class Overload(msgspec.Struct, frozen=True):
    """One signature of a function."""

    identifier: str
    """cel-go's identifier, by which costs are looked up."""
    signature: str
    """``name(int, string)``, or ``list<int>.name(string)`` for a method."""
    result: str
    """The result type."""


class Library(msgspec.Struct, frozen=True, kw_only=True):
    """A library of functions."""

    functions: Mapping[str, Implementation]
    """Implementations by function name, or by the identifier of an overload that has its own."""
    overloads: tuple[Overload, ...] = ()
    """Signatures, except of functions that the checker declares itself."""


def function_configurations(overloads: tuple[Overload, ...]) -> list[JSONObject]:
    """Write overloads in the format of the checker's environment configuration."""
    functions: dict[str, list[JSONObject]] = {}
    for overload in overloads:
        name, configuration = _configuration(overload)
        functions.setdefault(name, []).append(configuration)
    return [{"name": name, "overloads": configurations} for name, configurations in functions.items()]


def _configuration(overload: Overload) -> tuple[str, JSONObject]:
    head, _, arguments = overload.signature.rstrip(")").partition("(")
    receiver, name = _split_receiver(head)
    configuration: JSONObject = {
        "id": overload.identifier,
        "args": [type_configuration(argument) for argument in _split(arguments)],
        "return": type_configuration(overload.result),
    }
    if receiver:
        configuration["target"] = type_configuration(receiver)
    return name, configuration


def function_name(overload: Overload) -> str:
    """The name of the function that a signature is of."""
    return _split_receiver(overload.signature.partition("(")[0])[1]


def _split_receiver(head: str) -> tuple[str, str]:
    """Split methods: ``list<int>.sum``, ``net.IP.family``. ``ip.isCanonical`` and ``_<_`` have no receiver."""
    receiver, _, name = head.rpartition(".")
    is_type = bool(receiver) and (receiver in _SIMPLE_TYPES or receiver[-1] == ">" or receiver[0] == "~")
    is_type = is_type or any(part[:1].isupper() for part in receiver.split("."))
    return (receiver, name) if is_type else ("", head)


_SIMPLE_TYPES = frozenset(
    {"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "uint"}
)


def type_configuration(text: str) -> JSONObject:
    """Write a type in the format of the checker's environment configuration."""
    text = text.strip()
    if text.startswith("~"):
        return {"type_name": text[1:], "is_type_param": True}
    match = _TYPE.fullmatch(text)
    if match is None:
        raise ValueError(f"not a type: {text}")
    if match[2] is None:
        return {"type_name": match[1]}
    return {"type_name": match[1], "params": [type_configuration(part) for part in _split(match[2])]}


def _split(text: str) -> list[str]:
    """Split at the commas outside angle brackets."""
    parts, depth, start = [], 0, 0
    for place, character in enumerate(text):
        depth += (character == "<") - (character == ">")
        if character == "," and depth == 0:
            parts.append(text[start:place])
            start = place + 1
    return [*parts, text[start:]] if text.strip() else []


OBJECT = "Object"
PATCH = "JSONPatch"
PATCH_FIELDS: Mapping[str, str] = {"op": "string", "path": "string", "from": "string", "value": "dyn"}
"""The fields of ``JSONPatch``, and their types."""

_QUOTED = r'"""(?:\\.|[^\\])*?"""|\'\'\'(?:\\.|[^\\])*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
_RAW = r'[rR](?:"""[^\x00]*?"""|\'\'\'[^\x00]*?\'\'\'|"[^"\n]*"|\'[^\'\n]*\')'
_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_TOKEN = pattern(
    rf"(?P<skipped>//[^\n]*|[bB]?{_RAW}|[bB]?(?:{_QUOTED}))"
    rf"|(?P<type>\b{OBJECT}(?:\.{_NAME})*(?=\s*\{{))"
    rf"|(?P<name>{_NAME})",
    re.DOTALL,
)
_SEPARATORS = "_" + string.ascii_uppercase + string.ascii_lowercase + string.digits


class StructNames(msgspec.Struct, frozen=True):
    """The struct types of an expression, under names that the checker accepts."""

    source: str
    """The expression with the checker's names, of the same length, so that positions stay right."""
    types: Mapping[str, str]
    """From the checker's type names to the names as written."""
    fields: frozenset[str]
    """All names in the expression, any of which may be a field."""

    def restore(self, text: str) -> str:
        """Replace the checker's type names in a message with the names as written."""
        if not self.types:
            return text
        known = "|".join(sorted(map(re.escape, self.types), key=len, reverse=True))
        return re.sub(rf"\b(?:{known})\b", lambda match: self.types[match[0]], text)


@functools.lru_cache(1024)
def scan_struct_names(source: str) -> StructNames:
    """Find the struct types of an expression and give them names that the checker accepts."""
    tokens = list(_TOKEN.finditer(source))
    written = {token["type"] for token in tokens if token["type"]}
    separator = _unused(written)
    types = {name.replace(".", separator): name for name in written}
    rewritten = _TOKEN.sub(
        lambda token: token["type"].replace(".", separator) if token["type"] else token[0], source
    )
    fields = frozenset(token["name"] for token in tokens if token["name"])
    return StructNames(rewritten, types, fields | {part for name in written for part in name.split(".")})


def _unused(names: set[str]) -> str:
    """Choose a separator that keeps ``Object.a.b`` and ``Object.a_b`` distinct."""
    used = set("".join(names))
    return next((character for character in _SEPARATORS if character not in used), "_")


_EXISTS_ONE = pattern(
    rf"(?P<skipped>//[^\n]*|[bB]?{_RAW}|[bB]?(?:{_QUOTED}))|\.\s*(?P<macro>exists_one)(?=\s*\(\s*\w+\s*,\s*\w+\s*,)"
)


def with_two_variable_macros(source: str) -> str:
    """Write ``exists_one`` with two variables as ``existsOne``, which the checker knows; all positions stay."""
    if "exists_one" not in source:
        return source
    return _EXISTS_ONE.sub(
        lambda token: token[0].replace("exists_one", "existsOne ") if token["macro"] else token[0], source
    )


_FLATTEN = pattern(rf"(?P<skipped>//[^\n]*|[bB]?{_RAW}|[bB]?(?:{_QUOTED}))|\.\s*(?P<name>flatten)(?=\s*\()")
EXACT_FLATTEN = "flatte_"
"""Stands for ``flatten`` where the checker's own takes lists of anything; as long, so that positions stay."""


def with_exact_flatten(source: str) -> str:
    """Write ``flatten`` as :data:`EXACT_FLATTEN`."""
    return _FLATTEN.sub(
        lambda token: token[0].replace("flatten", EXACT_FLATTEN) if token["name"] else token[0], source
    )


_SCALARS: Mapping[Scalar, str] = {
    Scalar.STRING: "string",
    Scalar.BYTES: "bytes",
    Scalar.DATE_TIME: "timestamp",
    Scalar.DATE: "timestamp",
    Scalar.DURATION: "duration",
    Scalar.INTEGER: "int",
    Scalar.NUMBER: "double",
    Scalar.BOOLEAN: "bool",
    Scalar.INT_OR_STRING: "dyn",
}
IDENTIFIER = pattern(r"[_a-zA-Z][_a-zA-Z0-9]*")
"""Matches the identifiers of CEL, :data:`RESERVED_WORDS` included."""
RESERVED_WORDS = frozenset(
    {
        "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import",
        "let", "loop", "package", "namespace", "return", "var", "void", "while",
    }
)  # fmt: skip
"""``celReservedSymbols`` of ``k8s.io/apiserver/pkg/cel/escaping.go``."""

_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_ESCAPED = pattern(r"__|[.\-/]")

_DECLARED_SCHEMAS_RAW = frozenset(
    {
        ("ManagedFieldsEntry", "fieldsV1"),
        ("ControllerRevision", "data"),
        ("OpaqueDeviceConfiguration", "parameters"),
        ("AllocatedDeviceStatus", "data"),
    }
)
"""The fields of built-in types that are ``FieldsV1`` or ``RawExtension``: objects without declared fields. Other fields
without a schema have no type at all.
"""

_MAX_FIELDS = 4_000
"""Fields of one type: the checker holds 65,535 bytes of fields, and a field takes up to 16."""
_MAX_DEPTH = 64
"""Nesting of types: Kubernetes' schemas have at most 14 levels, and this stays clear of Python's recursion limit."""

# The checker accepts no points in the names of top-level types, and no @ in any type name.
_PREFIX = "pratique_schema_"
_UNCODED = pattern("[^A-Za-z0-9]")
_CODE = pattern("_([0-9a-f]+)_")
_CODED = pattern(rf"\b{_PREFIX}[a-z]+_of_(\w+)")


@functools.lru_cache(maxsize=64)
def declare_schema(root: Structure, kind: str, role: str = "object") -> tuple[str, StructTypes]:
    """Declare the type of a schema. Gives its name, and all types that it consists of.

    Args:
        root: The schema.
        kind: The name in messages: ``Deployment``, and ``Deployment.spec`` for a nested type.
        role: ``object`` or ``params``. The same kind has a different type in each role.
    """
    declared = _Declarations(f"{_PREFIX}{role}_of_")
    name = declared.declare(root, kind, frozenset())
    if name is None:
        return "dyn", ()
    return name, tuple((type_name, tuple(fields)) for type_name, fields in declared.types.items())


def restore_type_paths(text: str) -> str:
    """Replace the names that :func:`declare_schema` gives types with their paths."""
    return _CODED.sub(lambda name: _CODE.sub(lambda code: chr(int(code[1], 16)), name[1]), text)


def field_name(name: str) -> str | None:
    """Escape a field's name for expressions; None if that is impossible: ``k8s.io/apiserver/pkg/cel/escaping.go``."""
    if name in RESERVED_WORDS:
        return f"__{name}__"
    escaped = _ESCAPED.sub(lambda match: _ESCAPES[match[0]], name)
    return escaped if IDENTIFIER.fullmatch(escaped) else None


_OBJECT = Structure("", dict)
"""An object without declared fields; ``additionalProperties: true`` declares one, too."""


class _Declarations:
    def __init__(self, prefix: str) -> None:
        self.types: dict[str, list[tuple[str, str]]] = {}
        self._prefix = prefix

    def _add(self, structure: Structure, path: str, within: frozenset[str]) -> str:
        """Declare a structure and the types of its fields; ``within`` are the names of enclosing structures."""
        name = self._prefix + _UNCODED.sub(lambda match: f"_{ord(match[0]):x}_", path)
        fields = self.types[name] = []
        if structure.name in within:
            return name
        holders = within | {structure.name} if structure.name else within
        for written, kind in structure.fields.items():
            shown = field_name(written)
            if shown is None:
                continue
            is_raw = (structure.name.rpartition(".")[2], written) in _DECLARED_SCHEMAS_RAW
            declared = self.declare(_OBJECT if is_raw else kind, f"{path}.{shown}", holders)
            fields += (
                []
                if declared is None
                else [(name_in_expressions, declared) for name_in_expressions in _names(written, shown)]
            )
        self.types[name] = _with_distinct_entries(fields)
        return name

    def declare(self, kind: Type, path: str, within: frozenset[str]) -> str | None:
        """Declare the type of a field; gives None if it has no type, and ``dyn`` if it is too large."""
        if path.count(".") > _MAX_DEPTH or (isinstance(kind, Structure) and len(kind.fields) > _MAX_FIELDS):
            return "dyn"
        match kind:
            case Structure():
                return self._add(kind, path, within)
            case ListType():
                return self._collection("list<{}>", self.declare(kind.items, f"{path}.@idx", within))
            case MapType(values=Scalar.ANY):
                return self._add(_OBJECT, path, within)
            case MapType():
                return self._collection("map<string,{}>", self.declare(kind.values, f"{path}.@elem", within))
            case _:
                return _SCALARS.get(kind)

    @staticmethod
    def _collection(pattern: str, inner: str | None) -> str | None:
        """Write the type of a list or map; nested ones become ``dyn``, because message fields cannot have them."""
        if inner is None:
            return None
        return "dyn" if "<" in inner else pattern.format(inner)


def _names(written: str, shown: str) -> tuple[str, ...]:
    """The names by which expressions may select a field: reserved words no longer need to be escaped."""
    return (shown, written) if written in RESERVED_WORDS else (shown,)


def _with_distinct_entries(fields: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Turn maps into ``dyn`` if the name of their entry type would clash with another field's."""
    taken = {_key(name) for name, _ in fields}
    distinct: list[tuple[str, str]] = []
    for name, kind in fields:
        entry = f"{_key(name)}entry"
        is_map = kind.startswith("map<")
        distinct.append((name, "dyn" if is_map and (entry in taken or name[0] == "_") else kind))
        taken |= {entry} if is_map else set()
    return distinct


def _key(name: str) -> str:
    return name.replace("_", "").lower()
