"""Generated code for operators and for functions that are used in most expressions, where the types allow it.

Each writer gives None, without writing anything, where the function is called as it is. All of them assume what most
objects hold, and give up (``UnusualError``) where a value has another type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from pratique.cel.code_writers import CodeValue, CodeWriter
from pratique.cel.operations import CallFunction
from pratique.cel.values import MAXIMUM_INT, MINIMUM_INT, Optional

InlineWriter: TypeAlias = Callable[..., "CodeValue | None"]
"""Takes the writer, the call, and its arguments, each of which is a name."""

_TENTH = "({} + 9) // 10"
"""The cost of traversing a text: a tenth of its length, rounded up."""
_SHORT = 10
"""The longest text whose traversal costs 1."""


def require(writer: CodeWriter, condition: str) -> None:
    """Give up unless the condition holds."""
    writer.line(f"if not ({condition}): raise UnusualError")


def _require_kind(writer: CodeWriter, value: CodeValue, kind: type) -> None:
    if value.kind is not kind:
        writer.line(f"if type({value.text}) is not {kind.__name__}: raise UnusualError")


def write_equality(writer: CodeWriter, left: CodeValue, right: CodeValue, *, negated: bool) -> CodeValue:
    """Write ``==`` or ``!=``."""
    for value, other in ((left, right), (right, left)):
        if write := _SCALAR_EQUALITY.get(value.kind):
            usual, cost, text = write(writer, value, other.text)
            otherwise = f"equality_cost({left.text}, {right.text})"
            writer.charge(0, cost if other.kind is value.kind else f"({cost} if {usual} else {otherwise})")
            return CodeValue(f"(not {text})" if negated else text, bool)
    return _general_equality(writer, left.text, right.text, "not " if negated else "")


def _general_equality(writer: CodeWriter, left: str, right: str, negation: str) -> CodeValue:
    texts = f"type({left}) is str and type({right}) is str"
    cost = _TENTH.format(f"min(len({left}), len({right}))")
    writer.charge(0, f"({cost} if {texts} else equality_cost({left}, {right}))")
    compared = f"{left} == {right} if {texts} else equal({left}, {right}, {writer.frame()})"
    return writer.named(CodeValue(f"{negation}({compared})", bool))


def _equal_texts(writer: CodeWriter, text: CodeValue, other: str) -> tuple[str, str, str]:
    known, usual = writer.known_text(text), f"type({other}) is str"
    equal = f"({other} == {text.text} if {usual} else equal({other}, {text.text}, None))"
    if known and len(known) <= _SHORT:
        return usual, f"(1 if {other} else 0)", equal
    cost = _TENTH.format(f"min(len({text.text}), len({other}))")
    return usual, f"({cost})", equal


def _equal_nulls(_: CodeWriter, __: CodeValue, other: str) -> tuple[str, str, str]:
    return f"{other} is None or type({other}) is dict and {other}", "1", f"({other} is None)"


def _equal_bools(_: CodeWriter, value: CodeValue, other: str) -> tuple[str, str, str]:
    usual = f"type({other}) is bool"
    return usual, "1", f"({other} is {value.text} if {usual} else equal({other}, {value.text}, None))"


def _equal_ints(_: CodeWriter, value: CodeValue, other: str) -> tuple[str, str, str]:
    same = f"{other} == {value.text}"
    return (
        f"type({other}) is int",
        "1",
        f"({same} if type({other}) is int else equal({other}, {value.text}, None))",
    )


_SCALAR_EQUALITY: Mapping[type | None, Callable[[CodeWriter, CodeValue, str], tuple[str, str, str]]] = {
    str: _equal_texts,
    type(None): _equal_nulls,
    bool: _equal_bools,
    int: _equal_ints,
}
"""By the certain type of one operand: a condition, what it costs if that holds, and whether the other is equal."""


def _comparison(operator: str) -> InlineWriter:
    def write(writer: CodeWriter, call: CallFunction, left: CodeValue, right: CodeValue) -> CodeValue | None:
        if call.cost is not None:
            return None
        writer.charge(1)
        uncertain = [value.text for value in (left, right) if value.kind is not int]
        plain = f"{left.text} {operator} {right.text}"
        if not uncertain:
            return CodeValue(f"({plain})", bool)
        ints = " and ".join(f"type({text}) is int" for text in uncertain)
        return CodeValue(f"({plain} if {ints} else compare({left.text}, {right.text}) {operator} 0)", bool)

    return write


def _arithmetic(operator: str) -> InlineWriter:
    def write(writer: CodeWriter, call: CallFunction, left: CodeValue, right: CodeValue) -> CodeValue | None:
        if call.cost is not None or int not in (left.kind, right.kind):
            return None
        writer.charge(1)
        for value in (left, right):
            _require_kind(writer, value, int)
        result = writer.named(CodeValue(f"{left.text} {operator} {right.text}", int))
        require(writer, f"{MINIMUM_INT} <= {result.text} <= {MAXIMUM_INT}")
        return result

    return write


def _size(writer: CodeWriter, call: CallFunction, value: CodeValue) -> CodeValue | None:
    if call.cost is not None:
        return None
    writer.charge(1)
    return CodeValue(f"len({value.text})", int)  # Python knows the length of the same types as CEL


def _text_test(method: str) -> InlineWriter:
    def write(writer: CodeWriter, call: CallFunction, text: CodeValue, part: CodeValue) -> CodeValue | None:
        if call.cost is None:
            return None
        _require_kind(writer, text, str)
        writer.charge(0, _TENTH.format(f"len({text.text})"), work=1)
        return CodeValue(f"{text.text}.{method}({part.text})", bool)

    return write


def _contains(writer: CodeWriter, call: CallFunction, text: CodeValue, part: CodeValue) -> CodeValue | None:
    if call.cost is None:
        return None
    for value in (text, part):
        _require_kind(writer, value, str)
    costs = [_TENTH.format(f"len({value.text})") for value in (text, part)]
    writer.charge(0, f"({costs[0]}) * ({costs[1]})", work=1)
    writer.check()
    return CodeValue(f"({part.text} in {text.text})", bool)


def _membership(
    writer: CodeWriter, call: CallFunction, value: CodeValue, items: CodeValue
) -> CodeValue | None:
    """Write ``in`` for a text: Python compares it with elements and keys as CEL does."""
    if value.kind is not str:
        return None
    size = f"len({items.text})"
    if call.cost is None:
        writer.charge(1)
        writer.add_work(size, f"if type({items.text}) is list: ")
        writer.line(f"elif type({items.text}) is not dict: raise UnusualError")
    else:
        _require_kind(writer, items, list)
        writer.charge(0, size, work=1)
        writer.add_work(size)
    writer.check_all()
    return CodeValue(f"({value.text} in {items.text})", bool)


def _has_value(writer: CodeWriter, _: CallFunction, optional: CodeValue) -> CodeValue:
    _require_kind(writer, optional, Optional)
    writer.charge(1)
    return CodeValue(f"{optional.text}.present", bool)


INLINE: Mapping[str, InlineWriter] = {
    "_<_": _comparison("<"),
    "_<=_": _comparison("<="),
    "_>_": _comparison(">"),
    "_>=_": _comparison(">="),
    "_+_": _arithmetic("+"),
    "_-_": _arithmetic("-"),
    "@in": _membership,
    "size": _size,
    "startsWith": _text_test("startswith"),
    "endsWith": _text_test("endswith"),
    "contains": _contains,
    "hasValue": _has_value,
}
"""Writers by function name."""
