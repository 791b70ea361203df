"""The functions that a planned expression is made of: attributes, calls, comprehensions and literals.

Source: ``github.com/google/cel-go/interpreter/interpretable.go`` and ``attributes.go``.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from pratique.cel import costs
from pratique.cel.activation import Frame, Implementation, Interpretable, LazyVariables
from pratique.cel.costs import CostFunction
from pratique.cel.errors import CostLimitError, EvaluationError, NoSuchOverloadError
from pratique.cel.structs import NUMERIC_TYPES, Struct, are_equal, equal
from pratique.cel.values import (
    OPTIONAL_NONE,
    Duration,
    Optional,
    Timestamp,
    TypeName,
    Uint,
    Value,
    optional_of,
    to_text,
    type_name,
)

_MISSING = object()
_KEYS = NUMERIC_TYPES | {str, bool}
_STRUCTS = frozenset({Struct, LazyVariables})


class Qualifier(msgspec.Struct, frozen=True):
    """One selection: a field, key or index."""

    key: Value = None
    """The field, key or index, if it is constant."""
    computed: Interpretable | None = None
    """Evaluates the key, if it is not constant."""
    optional: bool = False
    """Gives an optional instead of an error for a missing key: ``.?field`` or ``[?key]``."""
    test_only: bool = False
    """Only tests whether the field is set: ``has()``."""


class Attribute(msgspec.Struct, frozen=True):
    """A base value and the selections from it, in order."""

    base: Interpretable
    qualifiers: tuple[Qualifier, ...] = ()
    cost: int = 1
    """The cost besides base and qualifiers: 0 if the base is a ``?:``."""

    def qualified(self, qualifier: Qualifier) -> Attribute:
        """Append a selection."""
        return msgspec.structs.replace(self, qualifiers=(*self.qualifiers, qualifier))

    def resolved(self, cost: int = 0) -> Interpretable:
        """Plan the attribute; ``cost`` is charged besides the cost of base and qualifiers."""
        qualifiers, base = self.qualifiers, self.base
        if not qualifiers:
            return _with_cost(base, cost) if cost else base
        if all(map(is_plain_name, qualifiers)):
            return _names(base, qualifiers, cost)
        if qualifiers[-1].test_only and all(map(is_plain_name, qualifiers[:-1])):
            return _presence(Attribute(base, qualifiers[:-1]).resolved(cost), qualifiers[-1])

        def resolve(frame: Frame) -> Value:
            value = base(frame)
            frame.charge(cost)
            return _qualify(frame, value, qualifiers)

        return resolve


def _with_cost(base: Interpretable, cost: int) -> Interpretable:
    def resolve(frame: Frame) -> Value:
        frame.cost += cost
        if frame.cost > frame.limit:
            raise CostLimitError
        return base(frame)

    return resolve


def is_plain_name(qualifier: Qualifier) -> bool:
    """Whether a selection takes a member by its constant name."""
    plain = qualifier.computed is None and not qualifier.optional and not qualifier.test_only
    return plain and type(qualifier.key) is str


def _names(base: Interpretable, qualifiers: tuple[Qualifier, ...], cost: int) -> Interpretable:
    """Plan the usual attribute, which selects fields of JSON objects only."""
    names = tuple(qualifier.key for qualifier in qualifiers)

    def resolve(frame: Frame) -> Value:
        value = base(frame)
        # Frame.charge is inlined here and below: most of what most expressions do is to select fields.
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


def _presence(holder: Interpretable, qualifier: Qualifier) -> Interpretable:
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
            return False if qualifiers[-1].test_only else OPTIONAL_NONE
        value = value.value
    for qualifier in qualifiers:
        key = qualifier.key if qualifier.computed is None else checked_qualifier(qualifier.computed(frame))
        optional = optional or qualifier.optional
        if not optional and not qualifier.test_only:
            frame.charge(1)
            value = get(value, key)
            continue
        if qualifier.test_only and type(value) is Struct:
            frame.charge(1)
            value = value.has(key)
            continue
        found = find(value, key)
        if qualifier.test_only:
            frame.charge(1 if found.present or not optional else 0)
            return found.present
        if found.present:
            frame.charge(1)
            value = found.value
        else:
            return False if qualifiers[-1].test_only else OPTIONAL_NONE
    return optional_of(value) if optional else value


def get(value: Value, key: Value) -> Value:
    """Select a member or element. Raises EvaluationError where there is none."""
    found = find(value, key)
    if found.present:
        return found.value
    if type(value) is list:
        raise EvaluationError(f"index out of bounds: {int(key)}")
    raise EvaluationError(f"no such key: {_key_text(key)}")


def find(value: Value, key: Value) -> Optional:
    """Select a member or element, or nothing. Raises EvaluationError if ``key`` cannot index the list."""
    if type(value) is dict:
        return _find_member(value, key)
    if type(value) is not list:
        return value.find(key) if type(value) in _STRUCTS else OPTIONAL_NONE
    index = list_index(key)
    return optional_of(value[index]) if 0 <= index < len(value) else OPTIONAL_NONE


def _find_member(value: dict[Value, Value], key: Value) -> Optional:
    if type(key) not in _KEYS or key not in value:
        return OPTIONAL_NONE
    if key in (0, 1) and not any(
        key == existing and (type(key) is bool) == (type(existing) is bool) for existing in value
    ):
        return OPTIONAL_NONE  # to Python, True and 1 are the same key
    return optional_of(value[key])


def list_index(key: Value) -> int:
    """Convert a key to a list index. Raises EvaluationError if it is none."""
    if type(key) in (int, Uint) or (type(key) is float and key.is_integer()):
        return int(key)
    if type(key) is float:
        raise EvaluationError(f"unsupported index value {key} in list")
    raise EvaluationError(f"unsupported index type '{type_name(key)}' in list")


def _key_text(key: Value) -> str:
    return to_text(key) if type(key) in _KEYS else type_name(key)


def checked_qualifier(key: Value) -> Value:
    """Check a computed key or index. Raises EvaluationError if it is neither a number nor a text or bool."""
    if type(key) not in _KEYS:
        raise EvaluationError(f"invalid qualifier type: {_go_type(key)}")
    return key


Functions: TypeAlias = Mapping[str, Implementation]
"""Implementations by function name."""


def plan_call(
    name: str, implementation: Implementation, arguments: Sequence[Interpretable], cost: CostFunction | None
) -> Interpretable:
    """Plan a call of a function that evaluates all its arguments; ``cost`` None means 1."""
    if cost is not None:
        return _costed(name, implementation, tuple(arguments), cost)
    if len(arguments) == 1:
        return _unary(name, implementation, arguments[0])
    if len(arguments) == 2:
        return _binary(name, implementation, arguments[0], arguments[1])
    return _costed(name, implementation, tuple(arguments), lambda *_: 1)


def _unary(name: str, implementation: Implementation, argument: Interpretable) -> Interpretable:
    def call(frame: Frame) -> Value:
        value = argument(frame)
        frame.cost += 1
        if frame.cost > frame.limit:
            raise CostLimitError
        try:
            return implementation(frame, value)
        except NoSuchOverloadError as error:
            raise _overload_error(error, name, (value,)) from None

    return call


def _binary(
    name: str, implementation: Implementation, left: Interpretable, right: Interpretable
) -> Interpretable:
    def call(frame: Frame) -> Value:
        first, second = left(frame), right(frame)
        frame.cost += 1
        if frame.cost > frame.limit:
            raise CostLimitError
        try:
            return implementation(frame, first, second)
        except NoSuchOverloadError as error:
            raise _overload_error(error, name, (first, second)) from None

    return call


def _costed(
    name: str, implementation: Implementation, arguments: tuple[Interpretable, ...], cost: CostFunction
) -> Interpretable:
    def call(frame: Frame) -> Value:
        values = [argument(frame) for argument in arguments]
        charge_call(frame, cost, values)
        try:
            return implementation(frame, *values)
        except NoSuchOverloadError as error:
            raise _overload_error(error, name, values) from None

    return call


def charge_call(frame: Frame, cost: CostFunction, values: Sequence[Value]) -> None:
    """Charge for a call of a function that has its own cost. Raises CostLimitError if that exceeds the limit."""
    if values:
        frame.add_work(costs.count_nodes(values[0]))
    try:
        amount = cost(*values)
    except (TypeError, AttributeError, ValueError, OverflowError):
        amount = (
            1  # the arguments have wrong types, or are no numbers, which the function itself reports next
        )
    frame.charge(amount)


def _overload_error(error: NoSuchOverloadError, name: str, values: Sequence[Value]) -> EvaluationError:
    """Word the error as cel-go does: operators without the types of their arguments, functions with them."""
    if name.startswith(("_", "!", "-", "@")) or error.is_final:
        return error
    return EvaluationError(f"no such overload: {name}({', '.join(map(type_name, values))})")


def plan_equality(left: Interpretable, right: Interpretable, *, negated: bool) -> Interpretable:
    """Plan ``==`` or ``!=``."""

    def call(frame: Frame) -> Value:
        first, second = left(frame), right(frame)
        frame.charge(costs.equality_cost(first, second))
        return not are_equal(first, second, frame) if negated else equal(first, second, frame)

    return call


def plan_membership(value: Interpretable, items: list[Value]) -> Interpretable:
    """Plan ``in`` with a list of literals; it costs nothing because cel-go makes it a lookup in a set."""
    keys = frozenset(key for item in items for key in _set_keys(item))

    def call(frame: Frame) -> Value:
        candidate = value(frame)
        kind = type(candidate)
        return kind in _KEYS and (int if kind is Uint else kind, candidate) in keys

    return call


def _set_keys(item: Value) -> Iterable[tuple[type, Value]]:
    """The types and values that a literal stands for in a set: a number also stands for its other types."""
    if type(item) in (int, Uint):
        return (int, int(item)), (float, float(item))
    if type(item) is float and item.is_integer():
        return (float, item), (int, int(item))
    return ((type(item), item),)


def plan_conjunction(left: Interpretable, right: Interpretable) -> Interpretable:
    """Plan ``&&``: false if either operand is, even if the other fails."""
    return _logical(left, right, deciding=False)


def plan_disjunction(left: Interpretable, right: Interpretable) -> Interpretable:
    """Plan ``||``: true if either operand is, even if the other fails."""
    return _logical(left, right, deciding=True)


def _logical(left: Interpretable, right: Interpretable, *, deciding: bool) -> Interpretable:
    def call(frame: Frame) -> Value:
        failure: EvaluationError | None = None
        try:
            result = left(frame)
        except EvaluationError as error:
            failure = error
        else:
            if result is deciding:
                return deciding
            if type(result) is not bool:
                failure = NoSuchOverloadError()
        return other_side(frame, failure)

    def other_side(frame: Frame, failure: EvaluationError | None) -> Value:
        try:
            result = right(frame)
        except EvaluationError as error:
            raise failure or error from None
        if result is deciding:
            return deciding
        if failure is not None or type(result) is not bool:
            raise failure or NoSuchOverloadError()
        return result

    return call


def plan_condition(condition: Interpretable, then: Interpretable, otherwise: Interpretable) -> Interpretable:
    """Plan ``condition ? then : otherwise``."""

    def call(frame: Frame) -> Value:
        result = condition(frame)
        if result is True:
            return then(frame)
        if result is False:
            return otherwise(frame)
        raise NoSuchOverloadError

    return call


def plan_not_strictly_false(argument: Interpretable) -> Interpretable:
    """Plan the loop condition of ``all`` and ``exists``: after an error, a later element may still decide."""

    def call(frame: Frame) -> Value:
        try:
            result = argument(frame)
        except EvaluationError:
            result = True
        frame.charge(1)
        return result is not False

    return call


def plan_alternative(optional: Interpretable, otherwise: Interpretable, *, unwrap: bool) -> Interpretable:
    """Plan ``or``, or with ``unwrap`` ``orValue``: the argument is evaluated only if it is needed."""

    def call(frame: Frame) -> Value:
        value = optional(frame)
        if type(value) is not Optional:
            raise NoSuchOverloadError
        if not value.present:
            return otherwise(frame)
        return value.value if unwrap else value

    return call


_GO_TYPES = {
    type(None): "types.Null",
    bool: "types.Bool",
    int: "types.Int",
    Uint: "types.Uint",
    float: "types.Double",
    str: "types.String",
    bytes: "types.Bytes",
    list: "*types.baseList",
    dict: "*types.baseMap",
    Duration: "types.Duration",
    Timestamp: "types.Timestamp",
    Optional: "*types.Optional",
    TypeName: "*types.Type",
}


class IterationRange(msgspec.Struct, frozen=True, kw_only=True):
    """The range of a comprehension, and the slots that receive its elements."""

    items: Interpretable
    slots: tuple[int, ...]
    """One slot for the element or key; two for index and element, or key and value."""

    def entries(self, frame: Frame) -> Iterable[Value]:
        """Evaluate the range: elements or keys, or pairs if there are two slots."""
        items = self.items(frame)
        return _elements_or_keys(items) if len(self.slots) == 1 else pairs(items)

    def binder(self) -> Callable[[list[Value], Value], None]:
        """Make the function that stores an entry in the slots of a frame."""
        if len(self.slots) == 1:
            return functools.partial(_bind_one, self.slots[0])
        first, second = self.slots
        return functools.partial(_bind_two, first, second)


def _bind_one(slot: int, slots: list[Value], entry: Value) -> None:
    slots[slot] = entry


def _bind_two(first: int, second: int, slots: list[Value], entry: Value) -> None:
    slots[first], slots[second] = entry


def _elements_or_keys(items: Value) -> Iterable[Value]:
    if type(items) in (list, dict):
        return items  # type: ignore[no-any-return] # a CEL value is Any
    raise EvaluationError(f"got '{_go_type(items)}', expected iterable type")


def pairs(items: Value) -> Iterable[tuple[Value, Value]]:
    """Pair elements with their indexes, or keys with their values. Raises EvaluationError for other values."""
    if type(items) is list:
        return enumerate(items)
    if type(items) is dict:
        return items.items()
    raise EvaluationError(f"unsupported comprehension range type: {_go_type(items)}")


def _go_type(value: Value) -> str:
    return _GO_TYPES.get(type(value)) or f"cel.{type_name(value).rpartition('.')[2].removeprefix('Named')}"


class Quantifier(enum.Enum):
    """The two comprehensions that nearly all expressions use; the value is the predicate's that ends them."""

    ALL = False
    EXISTS = True


def plan_quantifier(quantifier: Quantifier, items: IterationRange, predicate: Interpretable) -> Interpretable:
    """Plan ``all`` or ``exists``.

    Besides the predicate, an element costs 2 for the condition ``@not_strictly_false(accumulator)``, or 3 in
    ``exists``, which negates it, and 1 for the accumulator in the step.
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
                frame.charge(condition)
                break
            frame.charge_iteration(condition + 1)
            bind(slots, entry)
            try:
                result = predicate(frame)
            except EvaluationError as error:
                failure = failure or error
                continue
            if result is ending:
                ended = True
            elif result is not (not ending):
                failure = failure or NoSuchOverloadError()
        frame.charge(1)  # the result reads the accumulator
        if ended or failure is None:
            return ending if ended else not ending
        raise failure

    return fold


class Fold(msgspec.Struct, frozen=True, kw_only=True):
    """Any other comprehension."""

    items: IterationRange
    accumulator: int
    """The slot of the accumulator."""
    start: Interpretable
    condition: Interpretable | None
    """Ends the loop when it is false; None if it is the constant true."""
    step: Interpretable
    result: Interpretable

    def run(self, frame: Frame) -> Value:
        """Evaluate the comprehension."""
        slots, slot = frame.slots, self.accumulator
        bind = self.items.binder()
        slots[slot] = _value_or_error(self.start, frame)
        for entry in self.items.entries(frame):
            frame.charge_iteration(0)
            bind(slots, entry)
            if self.condition is not None and _is_over(self.condition, frame):
                break
            slots[slot] = _value_or_error(self.step, frame)
        return self.result(frame)


def _value_or_error(step: Interpretable, frame: Frame) -> Value:
    try:
        return step(frame)
    except EvaluationError as error:
        return error


def _is_over(condition: Interpretable, frame: Frame) -> bool:
    result = _value_or_error(condition, frame)
    return type(result) is bool and not result


def read_accumulator(slot: int) -> Interpretable:
    """Plan reading an accumulator; if it holds an error, reading raises it."""

    def read(frame: Frame) -> Value:
        value = frame.slots[slot]
        if isinstance(value, EvaluationError):
            raise value
        return value

    return read


_MAP_KEY_TYPES = frozenset({bool, int, Uint, str, float})


def plan_list(elements: Sequence[Interpretable], optional: Collection[int]) -> Interpretable:
    """Plan ``[a, ?b]``; ``optional`` are the indexes of elements that the checker knows to be optionals."""
    if not optional:

        def make(frame: Frame) -> Value:
            elements_made = [element(frame) for element in elements]
            frame.charge(costs.LIST_CREATE_BASE_COST)
            return elements_made

        return make

    def make_with_optional(frame: Frame) -> Value:
        values = [element(frame) for element in elements]
        frame.charge(costs.LIST_CREATE_BASE_COST)
        return [
            value.value if place in optional else value
            for place, value in enumerate(values)
            if place not in optional or value.present
        ]

    return make_with_optional


def plan_map(entries: Sequence[tuple[Interpretable, Interpretable, bool]]) -> Interpretable:
    """Plan ``{key: value, ?key: value}``; an entry has key, value, and whether the value is an optional."""

    def make(frame: Frame) -> Value:
        made: dict[Value, Value] = {}
        for key_step, value_step, optional in entries:
            key, value = key_step(frame), value_step(frame)
            if optional:
                if not value.present:
                    continue
                value = value.value
            made[_checked_key(key)] = value
        frame.charge(costs.MAP_CREATE_BASE_COST)
        return made

    return make


def _checked_key(key: Value) -> Value:
    if type(key) not in _MAP_KEY_TYPES:
        raise EvaluationError(f"unsupported key type: {type_name(key)}")
    return key


def plan_append(accumulator: Interpretable, added: Interpretable) -> Interpretable:
    """Plan ``accumulator + [x]`` where nothing else refers to the accumulator, so that it can grow in place."""

    def append(frame: Frame) -> Value:
        grown, more = accumulator(frame), added(frame)
        frame.charge(1)
        grown.extend(more)
        return grown

    return append


def plan_insert(accumulator: Interpretable, added: Sequence[Interpretable]) -> Interpretable:
    """Plan ``cel.@mapInsert(accumulator, key, value)``, or with a map of entries; it grows in place."""

    def insert(frame: Frame) -> Value:
        grown = accumulator(frame)
        values = [step(frame) for step in added]
        frame.charge(1)
        for key, value in _entries(grown, values):
            if _checked_key(key) in grown:
                raise EvaluationError(f"insert failed: key {to_text(key)} already exists")
            grown[key] = value
        return grown

    return insert


def _entries(grown: Value, values: Sequence[Value]) -> Sequence[tuple[Value, Value]]:
    if len(values) == 2:
        return ((values[0], values[1]),)
    (entries,) = values
    if type(entries) is not dict:
        raise _overload_error(NoSuchOverloadError(), "cel.@mapInsert", (grown, entries))
    return list(entries.items())
