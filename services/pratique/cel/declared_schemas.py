"""Declared schemas: the types of a schema's fields, as the type checker is told of them.

Source: ``k8s.io/apiserver/pkg/cel/common/schemas.go`` ``SchemaDeclType``. As there, what a schema says nothing of is
not declared, and neither are quantities, which have no type of their own there.
"""

from __future__ import annotations

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


def declare(root: Structure) -> tuple[str, StructTypes]:
    """The name of a schema's type, and all types that it is made of."""
    declared = _Declarations()
    name = declared.add(root)
    return name, tuple((each, tuple(fields)) for each, fields in declared.types.items())


def field_name(name: str) -> str | None:
    """How expressions write a field; None where they cannot: ``k8s.io/apiserver/pkg/cel/escaping.go``."""
    if name in _RESERVED:
        return f"__{name}__"
    escaped = _ESCAPED.sub(lambda match: _ESCAPES[match[0]], name)
    return escaped if _IDENTIFIER.fullmatch(escaped) else None


class _Declarations:
    def __init__(self) -> None:
        self.types: dict[str, list[tuple[str, str]]] = {}
        self._names: dict[int, str] = {}

    def add(self, structure: Structure) -> str:
        """Declare a structure and what it holds, once; types may hold themselves."""
        if id(structure) in self._names:
            return self._names[id(structure)]
        stem = re.sub(r"\W", "_", structure.name) or "object"
        name = self._names[id(structure)] = f"schema_{stem}_{len(self._names)}"
        fields = self.types[name] = []
        for written, kind in structure.fields.items():
            declared, shown = self._declare(kind), field_name(written)
            if declared is not None and shown is not None:
                fields.append((shown, declared))
        return name

    def _declare(self, kind: Type) -> str | None:
        match kind:
            case Structure():
                return self.add(kind)
            case ListType():
                return self._collection("list<{}>", self._declare(kind.items))
            case MapType():
                return self._collection("map<string,{}>", self._declare(kind.values))
            case _:
                return _SCALARS.get(kind)

    @staticmethod
    def _collection(pattern: str, inner: str | None) -> str | None:
        """A list or map; one of lists or maps is of any type, because the checker takes no such fields."""
        if inner is None:
            return None
        return "dyn" if "<" in inner else pattern.format(inner)
