"""Structs: the values that ``Object{…}`` and ``JSONPatch{…}`` make.

Sources: ``k8s.io/apiserver/pkg/cel/mutation/jsonpatch.go`` and ``…/dynamic/objects.go``; what making one costs:
``github.com/google/cel-go/interpreter/interpretable.go`` ``evalObj``.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pratique.cel import costs
from pratique.cel.errors import EvaluationError
from pratique.cel.struct_names import PATCH, PATCH_FIELDS
from pratique.cel.values import NOTHING, Optional, Value, something, type_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pratique.cel.attributes import Step
    from pratique.cel.frames import Frame

_EMPTY = {"string": "", "dyn": None}


@dataclasses.dataclass(frozen=True, slots=True)
class Struct:
    """A value with named fields."""

    cel_type: str
    """Its type's name, such as ``Object.spec``."""
    fields: dict[str, Value]
    """What was given, by the field's name."""

    def find(self, name: Value) -> Optional:
        """A field, if it is set; those of a patch that are texts are never missing."""
        if name in self.fields:
            return something(self.fields[name])
        if self.cel_type == PATCH and name in PATCH_FIELDS:
            return something(_EMPTY[PATCH_FIELDS[name]])
        return NOTHING

    def has(self, name: Value) -> bool:
        """Tell whether a field is set; in a patch, an empty text is as good as none."""
        return name in self.fields and (self.cel_type != PATCH or self.fields[name] != "")

    def misnamed(self) -> Iterator[str]:
        """Say of each value in it whose type is not named by the path to it, what it is and what it should be."""
        yield from _misnamed(self, self.cel_type)


def _misnamed(value: Value, path: str) -> Iterator[str]:
    if isinstance(value, Struct):
        if value.cel_type != path:
            yield (
                f'unexpected type name "{value.cel_type}", expected "{path}", which matches field name path from'
                " root Object type"
            )
        for name, child in value.fields.items():
            yield from _misnamed(child, f"{path}.{name}")
    elif isinstance(value, list):
        for child in value:
            yield from _misnamed(child, path)
    elif isinstance(value, dict):
        for child in value.values():
            yield from _misnamed(child, path)


def plan_struct(kind: str, entries: Sequence[tuple[str, Step, bool]]) -> Step:
    """Plan ``Type{field: value, ?field: optional}``; the checker has seen to it that the type has the fields."""

    def make(frame: Frame) -> Value:
        fields: dict[str, Value] = {}
        for name, step, optional in entries:
            value = step(frame)
            if optional:
                if not value.present:
                    continue
                value = value.value
            fields[name] = value
        frame.spend(costs.STRUCT)
        if kind == PATCH:
            _check_texts(fields)
        return Struct(kind, fields)

    return make


def _check_texts(fields: dict[str, Value]) -> None:
    for name, value in fields.items():
        if PATCH_FIELDS[name] == "string" and type(value) is not str:
            raise EvaluationError(f"unexpected type {type_name(value)} for JSONPatchType '{name}' field")
