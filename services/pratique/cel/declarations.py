"""Declarations: what the type checker is told of functions, variables and types.

Types are written as ``list<string>``, ``map<string,dyn>``, ``optional_type<~T>``; ``~T`` stands for any type.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pratique.cel.calls import Implementation
    from pratique.json_values import JSONObject

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
