"""Exports: CEL values as JSON.

Sources: ``github.com/google/cel-go/common/types`` ``ConvertToNative`` (to ``structpb.Value``) and
``k8s.io/apiserver/pkg/cel/mutation/dynamic/objects.go``.
"""

from __future__ import annotations

import base64
import math
from typing import TYPE_CHECKING

from pratique.cel.errors import EvaluationError
from pratique.cel.structs import Struct
from pratique.cel.texts import duration_text, timestamp_text
from pratique.cel.values import Duration, Optional, Timestamp, Uint, type_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from pratique.cel.values import Value
    from pratique.json_values import JSON

_SAFE = 2**53 - 1
"""The largest whole number that every reader of JSON keeps: ``common/types/int.go`` ``isJSONSafe``."""


def to_json(value: Value) -> JSON:
    """Make JSON of a value. Numbers that not every reader of JSON keeps become texts.

    Raises:
        EvaluationError: it has no form in JSON.
    """
    return _write(value, exact=False)


def to_object(value: Value) -> JSON:
    """Make the JSON of a Kubernetes object of a value, whole numbers as they are.

    Raises:
        EvaluationError: it has no form in JSON.
    """
    return _write(value, exact=True)


def _write(value: Value, *, exact: bool) -> JSON:
    match value:
        case None | bool() | str():
            return value
        case Struct():
            return {name: _write(child, exact=exact) for name, child in value.fields.items()}
        case dict():
            return {_key(name): _write(child, exact=exact) for name, child in value.items()}
        case list():
            return [_write(child, exact=exact) for child in value]
        case int():
            return int(value) if exact or -_SAFE <= value <= _SAFE else str(int(value))
        case _:
            return _write_other(value, exact=exact)


def _write_other(value: Value, *, exact: bool) -> JSON:
    if isinstance(value, Optional):
        return _write(value.value, exact=exact) if value.present else None
    write = _SCALARS.get(type(value))
    if write is None:
        raise EvaluationError(f"unsupported type conversion from '{type_name(value)}' to JSON")
    return write(value)


def _number(value: float) -> JSON:
    if math.isfinite(value):
        return value
    raise EvaluationError("a number that is infinite or none has no form in JSON")


_SCALARS: dict[type, Callable[[Value], JSON]] = {
    float: _number,
    bytes: lambda value: base64.b64encode(value).decode(),
    Duration: duration_text,
    Timestamp: timestamp_text,
}


def _key(key: Value) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int | Uint):
        return str(int(key))
    raise EvaluationError(f"a key of type '{type_name(key)}' has no form in JSON")
