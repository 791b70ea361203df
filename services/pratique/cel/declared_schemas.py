"""Declared schemas: the types of a schema's fields, as the type checker is told of them.

Sources, below ``k8s.io/apiserver/pkg/cel``: ``common/schemas.go`` ``SchemaDeclType``, ``types.go``
``MaybeAssignTypeName``, ``escaping.go`` and ``openapi/resolver/refs.go``. As there, a type is named by the path to it,
what a schema gives no type is not declared (quantities, which have none of their own there, among it), and a type
within itself has no fields.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

from pratique.schemas import ListType, MapType, Scalar, Structure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pratique.cel.type_descriptors import StructTypes
    from pratique.schemas import Type

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

_RAW = frozenset(
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


def as_shown(text: str) -> str:
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
            is_raw = (structure.name.rpartition(".")[2], written) in _RAW
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
