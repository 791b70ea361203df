"""Literals: lists and maps made by an expression, and accumulators that grow.

Source: ``github.com/google/cel-go/interpreter/interpretable.go`` ``evalList``, ``evalMap``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.cel import costs
from pratique.cel.errors import EvaluationError, NoSuchOverloadError
from pratique.cel.texts import to_text
from pratique.cel.values import Uint, Value, type_name

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pratique.cel.attributes import Step
    from pratique.cel.frames import Frame

_KEYS = frozenset({bool, int, Uint, str, float})


def plan_list(elements: Sequence[Step], optional: Collection[int]) -> Step:
    """Plan ``[a, ?b]``; the checker has seen to it that what may be missing is an optional."""
    if not optional:

        def make(frame: Frame) -> Value:
            made = [element(frame) for element in elements]
            frame.spend(costs.LIST)
            return made

        return make

    def make_with_optional(frame: Frame) -> Value:
        values = [element(frame) for element in elements]
        frame.spend(costs.LIST)
        return [
            value.value if place in optional else value
            for place, value in enumerate(values)
            if place not in optional or value.present
        ]

    return make_with_optional


def plan_map(entries: Sequence[tuple[Step, Step, bool]]) -> Step:
    """Plan ``{key: value, ?key: value}``; likewise."""

    def make(frame: Frame) -> Value:
        made: dict[Value, Value] = {}
        for key_step, value_step, optional in entries:
            key, value = key_step(frame), value_step(frame)
            if optional:
                if not value.present:
                    continue
                value = value.value
            made[_checked_key(key)] = value
        frame.spend(costs.MAP)
        return made

    return make


def _checked_key(key: Value) -> Value:
    if type(key) not in _KEYS:
        raise EvaluationError(f"unsupported key type: {type_name(key)}")
    return key


def plan_append(accumulator: Step, added: Step) -> Step:
    """Plan ``accumulator + [x]`` where nothing else holds the accumulator: it grows in place."""

    def append(frame: Frame) -> Value:
        grown, more = accumulator(frame), added(frame)
        frame.spend(1)
        grown.extend(more)
        return grown

    return append


def plan_insert(accumulator: Step, added: Sequence[Step]) -> Step:
    """Plan ``cel.@mapInsert(accumulator, key, value)``, or with the entries of a map; it grows in place."""

    def insert(frame: Frame) -> Value:
        grown = accumulator(frame)
        values = [step(frame) for step in added]
        frame.spend(1)
        for key, value in _entries(values):
            if _checked_key(key) in grown:
                raise EvaluationError(f"insert failed: key {to_text(key)} already exists")
            grown[key] = value
        return grown

    return insert


def _entries(values: Sequence[Value]) -> Sequence[tuple[Value, Value]]:
    if len(values) == 2:
        return ((values[0], values[1]),)
    (entries,) = values
    if type(entries) is not dict:
        raise NoSuchOverloadError
    return list(entries.items())
