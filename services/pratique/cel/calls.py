"""Calls: functions and operators planned.

Source: ``github.com/google/cel-go/interpreter/planner.go`` ``planCall``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from pratique.cel import costs
from pratique.cel.comparisons import contains, equal
from pratique.cel.errors import CostLimitError, EvaluationError, NoSuchOverloadError
from pratique.cel.values import Optional, Value, type_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pratique.cel.attributes import Step
    from pratique.cel.costs import Cost
    from pratique.cel.frames import Frame

Implementation: TypeAlias = Callable[..., Value]
"""A function: called with the frame and the values of its arguments."""
Functions: TypeAlias = Mapping[str, Implementation]
"""All functions by name."""


def plan_call(
    name: str, implementation: Implementation, arguments: Sequence[Step], cost: Cost | None
) -> Step:
    """Plan an ordinary function; ``cost`` None means 1."""
    if cost is not None:
        return _costed(name, implementation, tuple(arguments), cost)
    if len(arguments) == 1:
        return _unary(name, implementation, arguments[0])
    if len(arguments) == 2:
        return _binary(name, implementation, arguments[0], arguments[1])
    return _costed(name, implementation, tuple(arguments), lambda *_: 1)


def _unary(name: str, implementation: Implementation, argument: Step) -> Step:
    def call(frame: Frame) -> Value:
        value = argument(frame)
        frame.cost += 1
        if frame.cost > frame.limit:
            raise CostLimitError
        try:
            return implementation(frame, value)
        except NoSuchOverloadError as error:
            raise _refusal(error, name, (value,)) from None

    return call


def _binary(name: str, implementation: Implementation, left: Step, right: Step) -> Step:
    def call(frame: Frame) -> Value:
        one, another = left(frame), right(frame)
        frame.cost += 1
        if frame.cost > frame.limit:
            raise CostLimitError
        try:
            return implementation(frame, one, another)
        except NoSuchOverloadError as error:
            raise _refusal(error, name, (one, another)) from None

    return call


def _costed(name: str, implementation: Implementation, arguments: tuple[Step, ...], cost: Cost) -> Step:
    def call(frame: Frame) -> Value:
        values = [argument(frame) for argument in arguments]
        _charge(frame, cost, values)
        try:
            return implementation(frame, *values)
        except NoSuchOverloadError as error:
            raise _refusal(error, name, values) from None

    return call


def _charge(frame: Frame, cost: Cost, values: Sequence[Value]) -> None:
    if values:
        frame.work(costs.nodes(values[0]))
    try:
        amount = cost(*values)
    except (TypeError, AttributeError):
        amount = 1  # values of other types than the function takes, which it is about to say itself
    frame.spend(amount)


def _refusal(error: NoSuchOverloadError, name: str, values: Sequence[Value]) -> EvaluationError:
    """Operators say only that there is no such overload, functions with what they were called."""
    if name.startswith(("_", "!", "-", "@")) or error.is_final:
        return error
    return EvaluationError(f"no such overload: {name}({', '.join(map(type_name, values))})")


def plan_equality(left: Step, right: Step, *, negated: bool) -> Step:
    """Plan ``==`` or ``!=``."""

    def call(frame: Frame) -> Value:
        one, another = left(frame), right(frame)
        frame.spend(costs.equality(one, another))
        return equal(one, another, frame) is not negated

    return call


def plan_membership(value: Step, items: list[Value]) -> Step:
    """Plan ``in`` for a list of literals, which costs nothing: cel-go makes it a look-up in a set."""
    texts = frozenset(items) if all(type(item) is str for item in items) else None

    def call(frame: Frame) -> Value:
        one = value(frame)
        if texts is not None:
            return type(one) is str and one in texts
        frame.work(len(items))
        return contains(items, one, frame)

    return call


def plan_conjunction(left: Step, right: Step) -> Step:
    """Plan ``&&``: false where either side is, whatever the other may be."""
    return _logical(left, right, deciding=False)


def plan_disjunction(left: Step, right: Step) -> Step:
    """Plan ``||``: true where either side is, whatever the other may be."""
    return _logical(left, right, deciding=True)


def _logical(left: Step, right: Step, *, deciding: bool) -> Step:
    def call(frame: Frame) -> Value:
        failure: EvaluationError | None = None
        try:
            verdict = left(frame)
        except EvaluationError as error:
            failure = error
        else:
            if verdict is deciding:
                return deciding
            if type(verdict) is not bool:
                failure = NoSuchOverloadError()
        return other_side(frame, failure)

    def other_side(frame: Frame, failure: EvaluationError | None) -> Value:
        try:
            verdict = right(frame)
        except EvaluationError as error:
            raise failure or error from None
        if verdict is deciding:
            return deciding
        if failure is not None or type(verdict) is not bool:
            raise failure or NoSuchOverloadError()
        return verdict

    return call


def plan_condition(condition: Step, then: Step, otherwise: Step) -> Step:
    """Plan ``condition ? then : otherwise``."""

    def call(frame: Frame) -> Value:
        verdict = condition(frame)
        if verdict is True:
            return then(frame)
        if verdict is False:
            return otherwise(frame)
        raise NoSuchOverloadError

    return call


def plan_not_strictly_false(argument: Step) -> Step:
    """Plan what comprehensions go on by: an error may still be made good."""

    def call(frame: Frame) -> Value:
        try:
            verdict = argument(frame)
        except EvaluationError:
            verdict = True
        frame.spend(1)
        return verdict is not False

    return call


def plan_alternative(optional: Step, otherwise: Step, *, unwrap: bool) -> Step:
    """Plan ``or``, or with ``unwrap`` ``orValue``: the other side is evaluated only where it is needed."""

    def call(frame: Frame) -> Value:
        value = optional(frame)
        if type(value) is not Optional:
            raise NoSuchOverloadError
        if not value.present:
            return otherwise(frame)
        return value.value if unwrap else value

    return call
