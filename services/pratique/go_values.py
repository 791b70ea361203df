"""Go values: JSON as Go's ``fmt`` prints it, as some of the API server's messages do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.statuses import go_quoted

if TYPE_CHECKING:
    from pratique.json_values import JSON

_TYPES = {
    type(None): "<nil>",
    bool: "bool",
    int: "int64",
    float: "float64",
    str: "string",
    list: "[]interface {}",
    dict: "map[string]interface {}",
}


def go_type_of(value: JSON) -> str:
    """Print the type of a value, as ``%T`` does: ``map[string]interface {}``."""
    return _TYPES[type(value)]


def go_text(value: JSON) -> str:
    """Print a value as ``%v`` does: ``map[a:[1 b]]``."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return str(value).lower()
        case list():
            return f"[{' '.join(map(go_text, value))}]"
        case dict():
            return f"map[{' '.join(f'{name}:{go_text(child)}' for name, child in sorted(value.items()))}]"
        case _:
            return str(value)


def go_syntax(value: JSON) -> str:
    """Print a value as ``%#v`` does: ``map[string]interface {}{"a":1}``."""
    match value:
        case None:
            return "interface {}(nil)"
        case str():
            return go_quoted(value)
        case list():
            return f"{_TYPES[list]}{{{', '.join(map(go_syntax, value))}}}"
        case dict():
            fields = ", ".join(
                f"{go_quoted(name)}:{go_syntax(child)}" for name, child in sorted(value.items())
            )
            return f"{_TYPES[dict]}{{{fields}}}"
        case _:
            return go_text(value)
