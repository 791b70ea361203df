"""References from rules and selectable fields to fields: ``.spec.ports['a b']``.

Source: ``ValidFieldPath`` of ``k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/validation.go``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pratique.apimachinery.errors import PratiqueError
from pratique.apimachinery.patterns import pattern
from pratique.registry.custom_resources.structural import Structural


class FieldReferenceError(PratiqueError):
    """A reference does not lead to a field of the schema. The text is the API server's."""


_TOKEN = pattern(r"'(?:\\'|[^'])+?'|'[^']*$|[.\[\]]|[^.\[\]']+[^.\[\]]*", re.DOTALL)
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\"}


def resolve_field(reference: str, schema: Structural, *, allow_keys: bool = True) -> tuple[str, Structural]:
    """The path that a reference stands for, as errors show it, and the schema of the field.

    Raises:
        FieldReferenceError: it leads to no field.
    """
    path = ""
    tokens = (found[0] for found in _TOKEN.finditer(reference))
    for part in tokens:
        if part == "[":
            if not allow_keys:
                raise FieldReferenceError("array notation is not allowed")
            name = _quoted_name(tokens)
        elif part == ".":
            name = _next(tokens)
        else:
            raise FieldReferenceError(f"expected [ or . but got: {part}")
        path, schema = _step(path, schema, name)
    return path, schema


def _next(tokens: Iterator[str]) -> str:
    token = next(tokens, None)
    if token is None:
        raise FieldReferenceError("unexpected end of JSON path")
    return token


def _quoted_name(tokens: Iterator[str]) -> str:
    token = _next(tokens)
    if len(token) < 2 or token[0] != "'" or token[-1] != "'":
        raise FieldReferenceError(f"expected single quoted string but got {token}")
    name = _unescaped(token[1:-1])
    closing = _next(tokens)
    if closing != "]":
        raise FieldReferenceError(f"expected ] but got {closing}")
    return name


def _unescaped(text: str) -> str:
    def unescape(match: re.Match[str]) -> str:
        if match[1] not in _ESCAPES:
            raise FieldReferenceError(f"invalid string literal: invalid escape char {match[0]}")
        return _ESCAPES[match[1]]

    return re.sub(r"\\(.)", unescape, text)


def _step(path: str, schema: Structural, name: str) -> tuple[str, Structural]:
    if schema.properties:
        if name not in schema.properties:
            raise FieldReferenceError("does not refer to a valid field")
        return (f"{path}.{name}" if path else name), schema.properties[name]
    if schema.additional is None:
        raise FieldReferenceError("does not refer to a valid field")
    return f"{path}[{name}]", schema.additional
