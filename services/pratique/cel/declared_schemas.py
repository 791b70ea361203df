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

# The checker takes no points in the names of types that are not nested, and no @ in any.
_PREFIX = "pratique_schema_"
_CODES = {"_": "_u", ".": "_p", "@": "_a"}
_DECODED = {code: character for character, code in _CODES.items()}
_CODED = re.compile(rf"\b{_PREFIX}[a-z]+_t(\w+)")


@functools.lru_cache(maxsize=64)
def declare(root: Structure, kind: str, role: str = "object") -> tuple[str, StructTypes]:
    """The name of a schema's type, and all types that it is made of.

    Args:
        root: The schema.
        kind: What messages call its type: ``Deployment``, and ``Deployment.spec`` what is within.
        role: Whose type it is. Those of two roles differ, even where they are of one kind.
    """
    declared = _Declarations(f"{_PREFIX}{role}_t")
    name = declared.add(root, kind, frozenset())
    return name, tuple((each, tuple(fields)) for each, fields in declared.types.items())


def as_shown(text: str) -> str:
    """Put the paths of types in the place of the names that :func:`declare` has given them."""
    return _CODED.sub(lambda name: re.sub("_[upa]", lambda code: _DECODED[code[0]], name[1]), text)


def field_name(name: str) -> str | None:
    """How expressions write a field; None where they cannot: ``k8s.io/apiserver/pkg/cel/escaping.go``."""
    if name in _RESERVED:
        return f"__{name}__"
    escaped = _ESCAPED.sub(lambda match: _ESCAPES[match[0]], name)
    return escaped if _IDENTIFIER.fullmatch(escaped) else None


class _Declarations:
    def __init__(self, prefix: str) -> None:
        self.types: dict[str, list[tuple[str, str]]] = {}
        self._prefix = prefix

    def add(self, structure: Structure, path: str, within: frozenset[str]) -> str:
        """Declare a structure and what it holds; ``within`` are the names of those that hold it."""
        name = self._prefix + re.sub("[_.@]", lambda match: _CODES[match[0]], path)
        fields = self.types[name] = []
        if structure.name in within:
            return name
        holders = within | {structure.name} if structure.name else within
        for written, kind in structure.fields.items():
            shown = field_name(written)
            if shown is not None:
                declared = self._declare(kind, f"{path}.{shown}", holders)
                fields += [] if declared is None else [(shown, declared)]
        return name

    def _declare(self, kind: Type, path: str, within: frozenset[str]) -> str | None:
        match kind:
            case Structure():
                return self.add(kind, path, within)
            case ListType():
                return self._collection("list<{}>", self._declare(kind.items, f"{path}.@idx", within))
            case MapType():
                return self._collection("map<string,{}>", self._declare(kind.values, f"{path}.@elem", within))
            case _:
                return _SCALARS.get(kind)

    @staticmethod
    def _collection(pattern: str, inner: str | None) -> str | None:
        """A list or map; one of lists or maps is of any type, because the checker takes no such fields."""
        if inner is None:
            return None
        return "dyn" if "<" in inner else pattern.format(inner)
