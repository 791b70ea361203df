"""Folds: the loops that ``all``, ``exists``, ``map``, ``filter`` and their like are expanded to.

Source: ``github.com/google/cel-go/interpreter/interpretable.go`` ``evalFold``. An accumulator may hold an error, which
a later element may yet make good: ``[1, 0].exists(x, 1 / x == 1)`` is true.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
from typing import TYPE_CHECKING

from pratique.cel.errors import EvaluationError, NoSuchOverloadError
from pratique.cel.values import Duration, Optional, Timestamp, Uint, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pratique.cel.attributes import Step
    from pratique.cel.frames import Frame

_GO_TYPES = {
    type(None): "types.Null",
    bool: "types.Bool",
    int: "types.Int",
    Uint: "types.Uint",
    float: "types.Double",
    str: "types.String",
    bytes: "types.Bytes",
    Duration: "types.Duration",
    Timestamp: "types.Timestamp",
    Optional: "*types.Optional",
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """What is iterated over, and where the elements go."""

    items: Step
    slots: tuple[int, ...]
    """One slot for the element or key, two for index and element or key and value."""

    def entries(self, frame: Frame) -> Iterable[Value]:
        """What is iterated over: elements or keys, or pairs where there are two slots."""
        items = self.items(frame)
        return _singles(items) if len(self.slots) == 1 else _pairs(items)

    def binder(self) -> Callable[[list[Value], Value], None]:
        """How an entry gets into the slots of a frame."""
        if len(self.slots) == 1:
            return functools.partial(_bind_one, self.slots[0])
        first, second = self.slots
        return functools.partial(_bind_two, first, second)


def _bind_one(slot: int, slots: list[Value], entry: Value) -> None:
    slots[slot] = entry


def _bind_two(first: int, second: int, slots: list[Value], entry: Value) -> None:
    slots[first], slots[second] = entry


def _singles(items: Value) -> Iterable[Value]:
    if type(items) in (list, dict):
        return items  # type: ignore[no-any-return] # a CEL value is Any
    raise EvaluationError(f"got '{_go_type(items)}', expected iterable type")


def _pairs(items: Value) -> Iterable[tuple[Value, Value]]:
    if type(items) is list:
        return enumerate(items)
    if type(items) is dict:
        return items.items()
    raise EvaluationError(f"unsupported comprehension range type: {_go_type(items)}")


def _go_type(value: Value) -> str:
    return _GO_TYPES.get(type(value), "cel.Value")


class Quantifier(enum.Enum):
    """The two folds that nearly all expressions use; the value is what ends them."""

    ALL = False
    EXISTS = True


def plan_quantifier(quantifier: Quantifier, items: Range, predicate: Step) -> Step:
    """Plan ``all`` or ``exists``.

    An element costs, beside the predicate: the condition ``@not_strictly_false(accumulator)`` 2 (``exists`` negates it:
    3), and the accumulator in the step 1.
    """
    ending = quantifier.value
    condition = 3 if ending else 2
    bind = items.binder()

    def fold(frame: Frame) -> Value:
        failure: EvaluationError | None = None
        ended = False
        slots = frame.slots
        for entry in items.entries(frame):
            if ended:
                frame.spend(condition)
                break
            frame.step(condition + 1)
            bind(slots, entry)
            try:
                verdict = predicate(frame)
            except EvaluationError as error:
                failure = failure or error
                continue
            if verdict is ending:
                ended = True
            elif verdict is not (not ending):
                failure = failure or NoSuchOverloadError()
        frame.spend(1)  # the accumulator as result
        if ended or failure is None:
            return ending if ended else not ending
        raise failure

    return fold


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """Any other fold."""

    items: Range
    accumulator: int
    """Its slot."""
    start: Step
    condition: Step | None
    """Ends the fold where it is not true; None where it always is."""
    step: Step
    result: Step

    def run(self, frame: Frame) -> Value:
        """Fold."""
        slots, slot = frame.slots, self.accumulator
        bind = self.items.binder()
        slots[slot] = _value_or_error(self.start, frame)
        for entry in self.items.entries(frame):
            frame.step(0)
            bind(slots, entry)
            if self.condition is not None and _is_over(self.condition, frame):
                break
            slots[slot] = _value_or_error(self.step, frame)
        return self.result(frame)


def _value_or_error(step: Step, frame: Frame) -> Value:
    try:
        return step(frame)
    except EvaluationError as error:
        return error


def _is_over(condition: Step, frame: Frame) -> bool:
    verdict = _value_or_error(condition, frame)
    return type(verdict) is bool and not verdict


def read_accumulator(slot: int) -> Step:
    """Plan reading an accumulator, which may hold an error."""

    def read(frame: Frame) -> Value:
        value = frame.slots[slot]
        if isinstance(value, EvaluationError):
            raise value
        return value

    return read
