"""Types as text: ``list(string)``, as cel-go writes them.

Source: ``cel.expr.Type`` of https://github.com/google/cel-spec, and ``github.com/google/cel-go/common/types``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.cel import wires

if TYPE_CHECKING:
    from pratique.cel.wires import Message

_PRIMITIVES = {1: "bool", 2: "int", 3: "uint", 4: "double", 5: "string", 6: "bytes"}
_WELL_KNOWN = {1: "any", 2: "timestamp", 3: "duration"}
_DYN, _NULL, _PRIMITIVE, _WRAPPER, _KNOWN, _LIST, _MAP = 1, 2, 3, 4, 5, 6, 7
_MESSAGE, _PARAMETER, _TYPE, _ABSTRACT = 9, 10, 11, 14


def render_type(encoded: bytes) -> str:
    """Write an encoded ``cel.expr.Type``; what the checker left open is ``dyn``."""
    message = wires.read(encoded)
    field = next(iter(message), _DYN)
    match field:
        case 2:
            return "null_type"
        case 3:
            return _PRIMITIVES.get(wires.number(message, _PRIMITIVE), "dyn")
        case 4:
            return f"wrapper({_PRIMITIVES.get(wires.number(message, _WRAPPER), 'dyn')})"
        case 5:
            return _WELL_KNOWN.get(wires.number(message, _KNOWN), "dyn")
        case 9:
            return wires.text(message, _MESSAGE)
        case _:
            return _composite(field, message)


def parse_type(text: str) -> tuple[str, tuple[str, ...]]:
    """Take a type as cel-go writes it apart: ``map(string, list(int))`` into its name and its parameters."""
    name, _, rest = text.partition("(")
    parts: list[str] = []
    depth = start = 0
    inner = rest[:-1]
    for place, character in enumerate(inner):
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append(inner[start:place].strip())
            start = place + 1
    return name, (*parts, inner[start:].strip()) if inner else ()


def _composite(field: int, message: Message) -> str:
    inner = wires.read(wires.data(message, field)) if field in (_LIST, _MAP, _ABSTRACT) else {}
    match field:
        case 6:
            return f"list({render_type(wires.data(inner, 1))})"
        case 7:
            return f"map({render_type(wires.data(inner, 1))}, {render_type(wires.data(inner, 2))})"
        case 11:
            return f"type({render_type(wires.data(message, _TYPE))})"
        case 14:
            parameters = [render_type(part) for part in inner.get(2, ()) if isinstance(part, bytes)]
            return f"{wires.text(inner, 1)}({', '.join(parameters)})" if parameters else wires.text(inner, 1)
        case _:
            return "dyn"
