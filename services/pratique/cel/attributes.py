"""Attributes: variables and what is selected from them.

A chain such as ``object.spec.containers[0].?image`` is one attribute: a base and its qualifiers. It costs 1, and 1 for
each qualifier. Source: ``github.com/google/cel-go/interpreter/attributes.go``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from pratique.cel.comparisons import NUMBERS
from pratique.cel.compositions import Composition
from pratique.cel.errors import CostLimitError, EvaluationError
from pratique.cel.frames import Frame
from pratique.cel.structs import Struct
from pratique.cel.values import NOTHING, Optional, Uint, Value, something, type_name

if TYPE_CHECKING:
    from collections.abc import Sequence

Step: TypeAlias = Callable[[Frame], Value]
"""A planned expression: gives its value in a frame, and charges for it."""

_MISSING = object()
_KEYS = NUMBERS | {str, bool}
_STRUCTS = frozenset({Struct, Composition})


@dataclasses.dataclass(frozen=True, slots=True)
class Qualifier:
    """One selection."""

    key: Value = None
    """The field, key or index, where it is known."""
    computed: Step | None = None
    """Gives the key, where it is not."""
    optional: bool = False
    """Selects only what is there: ``.?field`` or ``[?key]``."""
    test_only: bool = False
    """Only tells whether it is there: ``has()``."""


@dataclasses.dataclass(frozen=True, slots=True)
class Attribute:
    """A value to select from, and the selections in order."""

    base: Step
    qualifiers: tuple[Qualifier, ...] = ()
    cost: int = 1
    """What it costs beside base and qualifiers: 0 where the base is a ``?:``."""

    def qualified(self, qualifier: Qualifier) -> Attribute:
        """The attribute with one more selection."""
        return dataclasses.replace(self, qualifiers=(*self.qualifiers, qualifier))

    def resolved(self, cost: int = 0) -> Step:
        """Plan it; ``cost`` is charged beside what base and qualifiers cost."""
        qualifiers, base = self.qualifiers, self.base
        if not qualifiers:
            return _charged(base, cost) if cost else base
        if all(map(_is_plain_name, qualifiers)):
            return _names(base, qualifiers, cost)
        if qualifiers[-1].test_only and all(map(_is_plain_name, qualifiers[:-1])):
            return _presence(Attribute(base, qualifiers[:-1]).resolved(cost), qualifiers[-1])

        def resolve(frame: Frame) -> Value:
            value = base(frame)
            frame.spend(cost)
            return _qualify(frame, value, qualifiers)

        return resolve


def _charged(base: Step, cost: int) -> Step:
    def resolve(frame: Frame) -> Value:
        frame.cost += cost
        if frame.cost > frame.limit:
            raise CostLimitError
        return base(frame)

    return resolve


def _is_plain_name(qualifier: Qualifier) -> bool:
    plain = qualifier.computed is None and not qualifier.optional and not qualifier.test_only
    return plain and type(qualifier.key) is str


def _names(base: Step, qualifiers: tuple[Qualifier, ...], cost: int) -> Step:
    """Plan what nearly all attributes are: fields of JSON objects."""
    names = tuple(qualifier.key for qualifier in qualifiers)

    def resolve(frame: Frame) -> Value:
        value = base(frame)
        frame.cost += cost
        for place, name in enumerate(names):
            if type(value) is not dict:
                return _qualify(frame, value, qualifiers[place:])
            frame.cost += 1
            value = value.get(name, _MISSING)
            if value is _MISSING:
                raise EvaluationError(f"no such key: {name}")
        if frame.cost > frame.limit:
            raise CostLimitError
        return value

    return resolve


def _presence(holder: Step, qualifier: Qualifier) -> Step:
    """Plan ``has(a.b.c)``."""
    name = qualifier.key

    def test(frame: Frame) -> Value:
        value = holder(frame)
        if type(value) is not dict:
            return _qualify(frame, value, (qualifier,))
        frame.cost += 1
        if frame.cost > frame.limit:
            raise CostLimitError
        return name in value

    return test


def _qualify(frame: Frame, value: Value, qualifiers: Sequence[Qualifier]) -> Value:
    optional = type(value) is Optional
    if optional:
        if not value.present:
            return NOTHING
        value = value.value
    for qualifier in qualifiers:
        key = qualifier.key if qualifier.computed is None else qualifier.computed(frame)
        optional = optional or qualifier.optional
        if not optional and not qualifier.test_only:
            frame.spend(1)
            value = get(value, key)
            continue
        if qualifier.test_only and type(value) is Struct:
            frame.spend(1)
            value = value.has(key)
            continue
        found = find(value, key)
        if qualifier.test_only:
            frame.spend(1)
            value = found.present
        elif found.present:
            frame.spend(1)
            value = found.value
        else:
            return NOTHING
    return something(value) if optional else value


def get(value: Value, key: Value) -> Value:
    """Select a member or element. Raises EvaluationError where there is none."""
    found = find(value, key)
    if found.present:
        return found.value
    if type(value) is list:
        raise EvaluationError(f"index out of bounds: {int(key)}")
    raise EvaluationError(f"no such key: {_shown(key)}")


def find(value: Value, key: Value) -> Optional:
    """Select a member or element, if it is there. Raises EvaluationError where ``key`` is no index for a list."""
    if type(value) is dict:
        return _find_member(value, key)
    if type(value) is not list:
        return value.find(key) if type(value) in _STRUCTS else NOTHING
    index = index_of(key)
    return something(value[index]) if 0 <= index < len(value) else NOTHING


def _find_member(value: dict[Value, Value], key: Value) -> Optional:
    if type(key) not in _KEYS or key not in value:
        return NOTHING
    if key in (0, 1) and not any(key == one and (type(key) is bool) == (type(one) is bool) for one in value):
        return NOTHING  # Python holds True and 1 for one key
    return something(value[key])


def index_of(key: Value) -> int:
    """Read an index of a list. Raises EvaluationError where it is none."""
    if type(key) in (int, Uint) or (type(key) is float and key.is_integer()):
        return int(key)
    if type(key) is float:
        raise EvaluationError(f"unsupported index value {key} in list")
    raise EvaluationError(f"unsupported index type '{type_name(key)}' in list")


def _shown(key: Value) -> str:
    if type(key) is bool:
        return "true" if key else "false"
    return str(key) if type(key) in _KEYS else type_name(key)
