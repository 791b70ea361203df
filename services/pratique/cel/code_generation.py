"""Generate Python code for planned expressions: what they do without errors, in one function without calls.

The code follows the steps of an expression as long as nothing fails and no limit is reached. Where anything else
happens, such as a missing key or a value of an unexpected type, it gives up, and the steps evaluate the expression from
the start: they alone know errors, what absorbs them, and what had been charged until then. An evaluation changes
nothing but caches, so that it can be repeated. ``docs/adr/0028-expressions-as-python-code.md`` has the reasons.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from pratique.cel import costs, operations
from pratique.cel.activation import VARIABLES, Frame, Interpretable, LazyVariables, yield_to_threads
from pratique.cel.code_operators import INLINE, require, write_equality
from pratique.cel.code_writers import NOTHING, CodeValue, CodeWriter, OversizedCodeError
from pratique.cel.errors import EvaluationCancelledError, EvaluationError
from pratique.cel.interpretables import Qualifier, charge_call, is_plain_name, pairs
from pratique.cel.planner import Program
from pratique.cel.structs import compare, equal, make_struct
from pratique.cel.values import OPTIONAL_NONE, Optional, Value, optional_of

Code: TypeAlias = Callable[..., "tuple[Value, int, int]"]
"""Evaluates an expression. Takes the variables, the limits of cost and of uncounted work, and the deadline.

Gives the value, its cost and its uncounted work; the value means nothing if these exceed the limits.
"""


class UnusualError(Exception):
    """Generated code does not know how to go on."""


FAILURES = (
    UnusualError,
    EvaluationError,
    EvaluationCancelledError,
    KeyError,
    IndexError,
    TypeError,
    AttributeError,
    RecursionError,
)
"""What generated code raises where the steps of the expression have to evaluate it."""

_MAX_DEPTH = 60
"""Operations within each other for which code is generated: the checker accepts about half as many."""
_CACHED_CODE = 1024
"""Expressions that differ only in names and literals have the same code."""
_MISSING = object()


class GeneratedCode(msgspec.Struct, frozen=True):
    """The code of one expression."""

    source: str
    constants: tuple[Value, ...]
    """What comes from the expression: names, literals, functions, and steps that the code calls."""

    def function(self) -> Code:
        """Compile the code."""
        return types.FunctionType(_compiled(self.source), WORDS, "expression", self.constants)


def write_code(program: Program) -> GeneratedCode | None:
    """Write the code of an expression; None if it would be too large, or would do nothing but call steps."""
    generator = _Generator(program.operations)
    writer = generator.writer
    try:
        source = writer.source(generator.value(program.step), program.slots)
    except (OversizedCodeError, RecursionError):
        return None
    if writer.steps_called and len(writer.lines) <= _LINES_OF_A_CALL:
        return None
    return GeneratedCode(source, tuple(writer.constants))


_LINES_OF_A_CALL = 2
"""A check, and the call of a step."""


@functools.lru_cache(_CACHED_CODE)
def _compiled(source: str) -> types.CodeType:
    (code,) = (
        constant
        for constant in compile(source, "<expression>", "exec", dont_inherit=True).co_consts
        if isinstance(constant, types.CodeType)
    )
    return code


def _read_composited(variables: Mapping[str, Value], name: str) -> Value:
    holder = variables[VARIABLES]
    if type(holder) is not LazyVariables:
        raise UnusualError
    found = holder.find(name)
    if not found.present:
        raise UnusualError
    return found.value


def _select_optional(value: Value, keys: tuple[str, ...]) -> tuple[Value, int]:
    """Select members until one is missing. Gives the last one or ``_MISSING``, and how many were there."""
    for found, key in enumerate(keys):
        if type(value) is not dict:
            if value is None or type(value) in _SCALARS:
                return _MISSING, found
            raise UnusualError
        value = value.get(key, _MISSING)
        if value is _MISSING:
            return _MISSING, found
    return value, len(keys)


_SCALARS = frozenset({str, int, float, bool})


def _compare(left: Value, right: Value) -> int:
    if type(left) in (str, bytes):
        raise UnusualError  # which is uncounted work
    return compare(left, right)


def _is_optional_by_name(qualifiers: tuple[Qualifier, ...]) -> bool:
    """Whether all selections from the first optional one on are by constant names."""
    optional = False
    for qualifier in qualifiers:
        optional = optional or qualifier.optional
        if optional and not (qualifier.computed is None and type(qualifier.key) is str):
            return False
    return True


def _is_composited(operation: operations.PlannedOperation | None) -> bool:
    return operation == operations.ReadVariable(VARIABLES)


def _unit_cost(*_: Value) -> int:
    return 1


class _Generator:
    def __init__(self, known: operations.Operations) -> None:
        self.writer = CodeWriter()
        self._operations = known
        self._slots: dict[int, CodeValue] = {}
        self._depth = 0

    def value(self, source: operations.Operand) -> CodeValue:
        """Write what evaluates a step or an operation."""
        operation = self._operation(source)
        is_step = operation is not source
        if operation is None or (is_step and (self.writer.is_deep or self._depth > _MAX_DEPTH)):
            return self._step(source)
        self._depth += 1
        written = _WRITERS[type(operation)](self, operation)
        self._depth -= 1
        return self._step(source) if written is None else self.writer.shortened(written)

    def _operation(self, source: operations.Operand) -> operations.PlannedOperation | None:
        if type(source) in _WRITERS:
            return source  # type: ignore[return-value] # isinstance() of a union costs 1 µs
        return self._operations.get(source)  # type: ignore[arg-type] # likewise

    def named(self, source: operations.Operand) -> CodeValue:
        """Write a value that is used several times."""
        return self.writer.named(self.value(source))

    def _step(self, step: operations.Operand) -> CodeValue:
        """Call a step as it is."""
        writer = self.writer
        writer.steps_called += 1
        called = writer.constant(step).text
        return writer.named(CodeValue(f"{called}({writer.frame()})"))

    def _assign(self, value: CodeValue) -> str:
        """Give a value a name of its own, which may be assigned again."""
        name = self.writer.new_name()
        self.writer.line(f"{name} = {value.text}")
        return name

    def _require_bool(self, value: CodeValue) -> CodeValue:
        if value.kind is bool:
            return value
        named = self.writer.named(value)
        self.writer.line(f"if {named.text} is not True and {named.text} is not False: raise UnusualError")
        return named._replace(kind=bool)

    def _require_mapping(self, value: CodeValue) -> None:
        if value.text not in self.writer.mappings:
            require(self.writer, f"type({value.text}) is dict")
            self.writer.mappings.add(value.text)

    def literal(self, operation: operations.ReadLiteral) -> CodeValue:
        return self.writer.constant(operation.value)

    def variable(self, operation: operations.ReadVariable) -> CodeValue:
        return CodeValue(f"variables[{self.writer.constant(operation.name).text}]")

    def slot(self, operation: operations.ReadSlot) -> CodeValue:
        return self._slots[operation.slot]

    def charge_more(self, operation: operations.ChargeMore) -> CodeValue:
        self.writer.charge(operation.cost)
        return self.value(operation.operand)

    def qualify(self, operation: operations.Qualify) -> CodeValue | None:
        if not _is_optional_by_name(operation.qualifiers):
            return None
        value, optional = self._selected(operation)
        if not optional:
            return value
        found = self._found(value, optional)
        return CodeValue(f"(OPTIONAL_NONE if {found} is MISSING else optional_of({found}))", Optional)

    def _selected(self, operation: operations.Qualify) -> tuple[CodeValue, tuple[Qualifier, ...]]:
        """Write the selections before the first optional one; gives the others as they are."""
        writer, qualifiers, cost = self.writer, operation.qualifiers, operation.cost
        if _is_composited(self._operation(operation.operand)) and is_plain_name(qualifiers[0]):
            writer.charge(cost + 1)
            writer.check_all()
            read = f"read_composited(variables, {writer.constant(qualifiers[0].key).text})"
            value, qualifiers, cost = writer.named(CodeValue(read)), qualifiers[1:], 0
        else:
            value = self.value(operation.operand)
        writer.charge(cost)
        plain = tuple(itertools.takewhile(lambda qualifier: not qualifier.optional, qualifiers))
        for qualifier in plain:
            value = writer.shortened(self._qualified(value, qualifier))
            writer.charge(1)
        return value, qualifiers[len(plain) :]

    def _qualified(self, value: CodeValue, qualifier: Qualifier) -> CodeValue:
        """Select one member or element. Python refuses to select by a text from anything but JSON objects."""
        if is_plain_name(qualifier):
            return CodeValue(f"{value.text}[{self.writer.constant(qualifier.key).text}]")
        value = self.writer.named(value)
        if qualifier.computed is None:
            key = self.writer.constant(qualifier.key)
        else:
            # of an optional without a value, the plan does not compute the key
            require(self.writer, f"type({value.text}) is not Optional")
            key = self.named(qualifier.computed)
        if key.kind is not str:
            is_text = f"type({key.text}) is str"
            is_index = f"type({key.text}) is int and {key.text} >= 0 and type({value.text}) is list"
            require(self.writer, is_index if key.kind is int else f"{is_text} or {is_index}")
        return CodeValue(f"{value.text}[{key.text}]")

    def _found(self, value: CodeValue, qualifiers: tuple[Qualifier, ...]) -> str:
        """Write optional selections; gives the name of what they found, or of ``MISSING``."""
        writer = self.writer
        keys = writer.constant(tuple(qualifier.key for qualifier in qualifiers)).text
        found, count = writer.new_name(), writer.new_name()
        writer.line(f"{found}, {count} = select_optional({value.text}, {keys})")
        writer.charge(0, count)
        return found

    def has_field(self, operation: operations.HasField) -> CodeValue:
        holder = self.named(operation.operand)
        self._require_mapping(holder)
        self.writer.charge(1)
        return CodeValue(f"({self.writer.constant(operation.name).text} in {holder.text})", bool)

    def equality(self, operation: operations.Equality) -> CodeValue:
        left, right = self.named(operation.left), self.named(operation.right)
        return write_equality(self.writer, left, right, negated=operation.negated)

    def find_text(self, operation: operations.FindText) -> CodeValue:
        value = self.named(operation.value).text
        texts = self.writer.constant(operation.texts).text
        return CodeValue(f"(type({value}) is str and {value} in {texts})", bool)

    def junction(self, operation: operations.Junction) -> CodeValue:
        writer = self.writer
        left = self._require_bool(self.value(operation.left))
        result = self._assign(left)
        carried, writer.charges = writer.charges, NOTHING
        with writer.block(f"if not {result}:" if operation.deciding else f"if {result}:"):
            writer.charges = carried
            right = self._require_bool(self.value(operation.right))
            writer.line(f"{result} = {right.text}")
        if carried != NOTHING:
            with writer.block("else:"):
                writer.charges = carried
        return CodeValue(result, bool, is_name=True)

    def absorb_failure(self, operation: operations.AbsorbFailure) -> CodeValue:
        value = self.value(operation.argument)
        self.writer.charge(1)
        return CodeValue(f"({value.text} is not False)", bool)

    def choose(self, operation: operations.Choose) -> CodeValue:
        writer = self.writer
        condition = self._require_bool(self.value(operation.condition))
        carried, writer.charges = writer.charges, NOTHING
        result, kinds = writer.new_name(), set()
        for head, branch in ((f"if {condition.text}:", operation.then), ("else:", operation.otherwise)):
            with writer.block(head):
                writer.charges = carried
                value = self.value(branch)
                kinds.add(value.kind)
                writer.line(f"{result} = {value.text}")
        return CodeValue(result, kinds.pop() if len(kinds) == 1 else None, is_name=True)

    def call(self, operation: operations.CallFunction) -> CodeValue:
        writer = self.writer
        if operation.name == "!_":
            negated = self._require_bool(self.value(operation.arguments[0]))
            writer.charge(1)
            return CodeValue(f"(not {negated.text})", bool)
        arguments = [self.named(argument) for argument in operation.arguments]
        write = INLINE.get(operation.name)
        if write and (written := write(writer, operation, *arguments)):
            return written
        texts = ", ".join(argument.text for argument in arguments)
        if operation.cost is None and 1 <= len(arguments) <= 2:
            writer.charge(1)
            frame = writer.frame()
        else:
            frame = writer.frame()
            cost = writer.constant(operation.cost or _unit_cost).text
            writer.line(f"charge_call({frame}, {cost}, ({texts}{',' if arguments else ''}))")
        called = writer.constant(operation.implementation).text
        return writer.named(CodeValue(f"{called}({frame}{', ' * bool(texts)}{texts})"))

    def unwrap(self, operation: operations.Unwrap) -> CodeValue:
        writer = self.writer
        test, found = self._unwrapped(operation)
        carried, writer.charges = writer.charges, NOTHING
        result = writer.new_name()
        with writer.block(f"if {test}:"):
            writer.charges = carried
            writer.line(f"{result} = {found}")
        with writer.block("else:"):
            writer.charges = carried
            writer.line(f"{result} = {self.value(operation.otherwise).text}")
        return CodeValue(result, is_name=True)

    def _unwrapped(self, operation: operations.Unwrap) -> tuple[str, str]:
        """Write the optional: gives a test whether it has a value, and the value. It often needs no object."""
        source = self._operations.get(operation.optional)
        if (
            operation.unwraps
            and type(source) is operations.Qualify
            and _is_optional_by_name(source.qualifiers)
        ):
            value, optional = self._selected(source)
            if optional:
                found = self._found(value, optional)
                return f"{found} is not MISSING", found
            named = self.writer.named(value)
        else:
            named = self.named(operation.optional)
        require(self.writer, f"type({named.text}) is Optional")
        return f"{named.text}.present", f"{named.text}.value" if operation.unwraps else named.text

    def make_list(self, operation: operations.MakeList) -> CodeValue:
        texts = [self.named(element).text for element in operation.elements]
        self.writer.charge(costs.LIST_CREATE_BASE_COST)
        return CodeValue(f"[{', '.join(texts)}]", list)

    def make_map(self, operation: operations.MakeMap) -> CodeValue:
        entries = self._map_entries(operation.keys, operation.values)
        self.writer.charge(costs.MAP_CREATE_BASE_COST)
        return CodeValue(entries, dict)

    def make_struct(self, operation: operations.MakeStruct) -> CodeValue:
        fields = self._map_entries(operation.names, operation.values)
        self.writer.charge(costs.STRUCT_CREATE_BASE_COST)
        name = self.writer.constant(operation.type_name).text
        return self.writer.named(CodeValue(f"make_struct({name}, {fields})"))

    def _map_entries(self, keys: Sequence[Value], steps: Sequence[Interpretable]) -> str:
        values = [self.named(step).text for step in steps]
        names = [self.writer.constant(key).text for key in keys]
        return f"{{{', '.join(f'{key}: {value}' for key, value in zip(names, values, strict=True))}}}"

    def quantify(self, operation: operations.Quantify) -> CodeValue:
        writer, ending = self.writer, operation.ending
        entries = self._entries(self.named(operation.items), operation.slots)
        writer.settle()
        result = self._assign(CodeValue(str(not ending)))
        condition = 3 if ending else 2
        with self._loop(entries, operation.slots):
            writer.charge(condition + 1)
            found = writer.named(self._require_bool(self.value(operation.predicate))).text
            writer.check()
            with writer.block(f"if {found}:" if ending else f"if not {found}:"):
                writer.line(f"{result} = {ending}")
                with writer.block(f"for {found} in {entries}:"):
                    writer.charge(condition)
                    writer.settle()
                    writer.line("break")
                writer.line("break")
        writer.charge(1)
        return CodeValue(result, bool, is_name=True)

    def _entries(self, items: CodeValue, slots: tuple[int, ...]) -> str:
        """Write the iterator of a comprehension."""
        if len(slots) > 1:
            return self._assign(CodeValue(f"iter(pairs({items.text}))"))
        if items.kind is not list:
            require(self.writer, f"type({items.text}) is list or type({items.text}) is dict")
        return self._assign(CodeValue(f"iter({items.text})"))

    @contextlib.contextmanager
    def _loop(self, entries: str, slots: tuple[int, ...], accumulator: int | None = None) -> Iterator[None]:
        """Write a loop. Steps that it calls find its variables and accumulator in the frame."""
        writer, called = self.writer, self.writer.steps_called
        writer.has_loops = True
        for slot in slots:
            self._slots[slot] = CodeValue(writer.new_name(), is_name=True)
        variables = ", ".join(self._slots[slot].text for slot in slots)
        with writer.block(f"for {variables} in {entries}:"):
            writer.line("steps += 1")
            writer.line("if not steps & 255: yield_to_threads(until)")
            place = len(writer.lines)
            yield
            if writer.steps_called > called:
                written = slots if accumulator is None else (*slots, accumulator)
                writer.insert(place, [f"slots[{slot}] = {self._slots[slot].text}" for slot in written])

    def accumulate(self, operation: operations.Accumulate) -> CodeValue:
        writer, fold = self.writer, operation.fold
        accumulator = self._assign(self.value(fold.start))
        self._slots[fold.accumulator] = CodeValue(accumulator, is_name=True)
        entries = self._entries(self.named(fold.items.items), fold.items.slots)
        writer.settle()
        with self._loop(entries, fold.items.slots, fold.accumulator):
            if fold.condition is not None:
                condition = self.named(fold.condition)
                writer.settle()
                writer.line(f"if {condition.text} is False: break")
            self._accumulate_step(fold.step, accumulator)
            writer.check()
        called, place = writer.steps_called, len(writer.lines)
        result = self.value(fold.result)
        if writer.steps_called > called:
            writer.insert(place, [f"slots[{fold.accumulator}] = {accumulator}"])
        return result

    def _accumulate_step(self, step: Interpretable, accumulator: str) -> None:
        value = self.named(step)
        self.writer.settle()
        if value.text != accumulator:
            self.writer.line(f"{accumulator} = {value.text}")

    def copy(self, operation: operations.Copy) -> CodeValue:
        return CodeValue(f"{operation.kind.__name__}({self.value(operation.operand).text})", operation.kind)

    def append(self, operation: operations.Append) -> CodeValue:
        accumulator, added = self.named(operation.accumulator), self.named(operation.added)
        self.writer.charge(1)
        self.writer.line(f"{accumulator.text}.extend({added.text})")
        return accumulator


_WRITERS: Mapping[type, Callable[[_Generator, Any], CodeValue | None]] = {
    operations.ReadLiteral: _Generator.literal,
    operations.ReadVariable: _Generator.variable,
    operations.ReadSlot: _Generator.slot,
    operations.ChargeMore: _Generator.charge_more,
    operations.Qualify: _Generator.qualify,
    operations.HasField: _Generator.has_field,
    operations.Equality: _Generator.equality,
    operations.FindText: _Generator.find_text,
    operations.Junction: _Generator.junction,
    operations.AbsorbFailure: _Generator.absorb_failure,
    operations.Choose: _Generator.choose,
    operations.CallFunction: _Generator.call,
    operations.Unwrap: _Generator.unwrap,
    operations.MakeList: _Generator.make_list,
    operations.MakeMap: _Generator.make_map,
    operations.MakeStruct: _Generator.make_struct,
    operations.Quantify: _Generator.quantify,
    operations.Accumulate: _Generator.accumulate,
    operations.Copy: _Generator.copy,
    operations.Append: _Generator.append,
}

WORDS: dict[str, Any] = {
    "__builtins__": {},
    **{word.__name__: word for word in (bool, dict, int, iter, len, list, min, str, type)},
    **{
        word.__name__: word
        for word in (Frame, Optional, UnusualError, charge_call, equal, make_struct, pairs)
    },
    "MISSING": _MISSING,
    "OPTIONAL_NONE": OPTIONAL_NONE,
    "compare": _compare,
    "equality_cost": costs.equality_cost,
    "optional_of": optional_of,
    "read_composited": _read_composited,
    "select_optional": _select_optional,
    "yield_to_threads": yield_to_threads,
}
"""All that generated code can refer to by name: it has no built-in functions but these."""
