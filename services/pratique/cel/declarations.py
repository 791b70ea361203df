"""What the type checker is told of functions, variables, types and schemas."""

from __future__ import annotations

import dataclasses
import functools
import re
import string
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pratique.apimachinery.json_values import JSONObject
from pratique.cluster.schemas import ListType, MapType, Scalar, Structure, Type

if TYPE_CHECKING:
    from pratique.cel.interpretables import Implementation
    from pratique.cel.type_descriptors import StructTypes

_TYPE = re.compile(r"([\w.]+)(?:<(.*)>)?")


@dataclasses.dataclass(frozen=True, slots=True)
class Overload:
    """One signature of a function."""

    identifier: str
    """cel-go's name for it; costs go by it."""
    signature: str
    """``name(int, string)``, or ``list<int>.name(string)`` for a method."""
    result: str
    """The type of its result."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """Functions that belong together."""

    functions: Mapping[str, Implementation]
    """What they do, by name."""
    overloads: tuple[Overload, ...] = ()
    """Their signatures; those of functions that the checker knows by itself are not named."""


def function_configurations(overloads: tuple[Overload, ...]) -> list[JSONObject]:
    """Write overloads as the checker's environment configuration has them."""
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


def _split_receiver(head: str) -> tuple[str, str]:
    """Split ``list<int>.sum`` and ``net.IP.family``; ``ip.isCanonical`` and ``_<_`` have no receiver."""
    receiver, _, name = head.rpartition(".")
    is_type = bool(receiver) and (receiver in _SIMPLE_TYPES or receiver[-1] == ">" or receiver[0] == "~")
    is_type = is_type or any(part[:1].isupper() for part in receiver.split("."))
    return (receiver, name) if is_type else ("", head)


_SIMPLE_TYPES = frozenset(
    {"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "uint"}
)


def type_configuration(text: str) -> JSONObject:
    """Write a type as the checker's environment configuration has it."""
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
    """Split at the commas that stand in no angle brackets."""
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
_TOKEN = re.compile(
    rf"(?P<skipped>//[^\n]*|[bB]?{_RAW}|[bB]?(?:{_QUOTED}))"
    rf"|(?P<type>\b{OBJECT}(?:\.{_NAME})*(?=\s*\{{))"
    rf"|(?P<name>{_NAME})",
    re.DOTALL,
)
_SEPARATORS = "_" + string.ascii_uppercase + string.ascii_lowercase + string.digits


@dataclasses.dataclass(frozen=True, slots=True)
class StructNames:
    """An expression as the checker gets it, and what it has to know."""

    source: str
    """The expression with names that the checker takes, as long as it was."""
    types: Mapping[str, str]
    """The types that it makes values of: as the checker knows them, and as they are written."""
    fields: frozenset[str]
    """All names in the expression, each of which may be a field."""

    def restore(self, text: str) -> str:
        """Put the names as they are written into a text of the checker's."""
        if not self.types:
            return text
        known = "|".join(sorted(map(re.escape, self.types), key=len, reverse=True))
        return re.sub(rf"\b(?:{known})\b", lambda match: self.types[match[0]], text)


@functools.lru_cache(1024)
def scan_struct_names(source: str) -> StructNames:
    """Find the types of an expression and give them names that the checker takes."""
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
    """Choose a character that tells ``Object.a.b`` from ``Object.a_b``."""
    used = set("".join(names))
    return next((one for one in _SEPARATORS if one not in used), "_")


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
_RESERVED = frozenset(
    {
        "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import",
        "let", "loop", "package", "namespace", "return", "var", "void", "while",
    }
)  # fmt: skip
_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_ESCAPED = re.compile(r"__|[.\-/]")

_DECLARED_SCHEMAS_RAW = frozenset(
    {
        ("ManagedFieldsEntry", "fieldsV1"),
        ("ControllerRevision", "data"),
        ("OpaqueDeviceConfiguration", "parameters"),
        ("AllocatedDeviceStatus", "data"),
    }
)
"""The fields of built-in types that are ``FieldsV1`` or ``RawExtension``, which say that they are objects, and no more.
All others of which nothing is known say nothing at all.
"""

_MAX_FIELDS = 4_000
"""Of one type: the checker holds 65,535 bytes of fields, and the longest fields take 16."""
_MAX_DEPTH = 64
"""Of types within types; schemas of Kubernetes are at most 14 deep, and nobody recurses a thousand times."""

# The checker takes no points in the names of types that are not nested, and no @ in any.
_PREFIX = "pratique_schema_"
_UNCODED = re.compile("[^A-Za-z0-9]")
_CODE = re.compile("_([0-9a-f]+)_")
_CODED = re.compile(rf"\b{_PREFIX}[a-z]+_of_(\w+)")


@functools.lru_cache(maxsize=64)
def declare(root: Structure, kind: str, role: str = "object") -> tuple[str, StructTypes]:
    """The name of a schema's type, and all types that it is made of.

    Args:
        root: The schema.
        kind: What messages call its type: ``Deployment``, and ``Deployment.spec`` what is within.
        role: Whose type it is. Those of two roles differ, even where they are of one kind.
    """
    declared = _Declarations(f"{_PREFIX}{role}_of_")
    name = declared.declare(root, kind, frozenset())
    if name is None:
        return "dyn", ()
    return name, tuple((each, tuple(fields)) for each, fields in declared.types.items())


def restore_type_paths(text: str) -> str:
    """Put the paths of types in the place of the names that :func:`declare` has given them."""
    return _CODED.sub(lambda name: _CODE.sub(lambda code: chr(int(code[1], 16)), name[1]), text)


def field_name(name: str) -> str | None:
    """How expressions write a field; None where they cannot: ``k8s.io/apiserver/pkg/cel/escaping.go``."""
    if name in _RESERVED:
        return f"__{name}__"
    escaped = _ESCAPED.sub(lambda match: _ESCAPES[match[0]], name)
    return escaped if _IDENTIFIER.fullmatch(escaped) else None


_OBJECT = Structure("", dict)
"""An object of which no field is known: ``additionalProperties: true`` is one, too."""


class _Declarations:
    def __init__(self, prefix: str) -> None:
        self.types: dict[str, list[tuple[str, str]]] = {}
        self._prefix = prefix

    def _add(self, structure: Structure, path: str, within: frozenset[str]) -> str:
        """Declare a structure and what it holds; ``within`` are the names of those that hold it."""
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
            fields += [] if declared is None else [(each, declared) for each in _names(written, shown)]
        self.types[name] = _with_distinct_entries(fields)
        return name

    def declare(self, kind: Type, path: str, within: frozenset[str]) -> str | None:
        """The type of a field, whose structures are declared; None where it has none, ``dyn`` where it is too big."""
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
        """A list or map; one of lists or maps is of any type, because the checker takes no such fields."""
        if inner is None:
            return None
        return "dyn" if "<" in inner else pattern.format(inner)


def _names(written: str, shown: str) -> tuple[str, ...]:
    """All names by which expressions know a field: reserved words need no escaping any more."""
    return (shown, written) if written in _RESERVED else (shown,)


def _with_distinct_entries(fields: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Make maps of any type whose entries the checker would not tell from others: it names types after them."""
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
