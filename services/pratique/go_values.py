"""Go values: JSON as Go's ``fmt`` prints it, as some of the API server's messages do."""

from __future__ import annotations

import decimal
from typing import TYPE_CHECKING

from pratique.json_numbers import float_text
from pratique.statuses import go_quoted

if TYPE_CHECKING:
    from pratique.json_values import JSON

_SMALLEST_EXPONENT, _LARGEST_EXPONENT = -4, 6
"""Beyond these ``%v`` prints an exponent."""

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
        case float():
            return _general(value)
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


def _general(value: float) -> str:
    """Print a float as ``%v`` does: ``FormatFloat(value, 'g', -1, 64)``, with an exponent from 10^6 on."""
    digits, _, exponent = f"{decimal.Decimal(repr(value)).normalize():e}".partition("e")
    if not _SMALLEST_EXPONENT <= int(exponent) < _LARGEST_EXPONENT:
        return f"{digits}e{exponent[0]}{exponent[1:]:0>2}"
    return float_text(value)
