"""Estimates of what calls cost before they are made, from what is known of the sizes of their arguments.

Sources: ``EstimateCallCost`` of ``k8s.io/apiserver/pkg/cel/library/cost.go``, ``ext/lists.go`` and ``ext/sets.go`` of
``github.com/google/cel-go``, and the ranges of its ``checker/cost.go``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from pratique.cel.costs import LIST_CREATE_BASE_COST, STRUCT_CREATE_BASE_COST
from pratique.cel.syntax_trees import Constant, Node

MAXIMUM = 2**64 - 1
"""The most that a size or a cost can be, and what an unknown one may be."""
STRING_FACTOR, REGEX_FACTOR = 0.1, 0.25
"""What a character costs to pass over, and one of a pattern to match: ``StringTraversalCostFactor`` and its like."""


class Range(msgspec.Struct, frozen=True):
    """What a size or a cost is at least, and at most: ``SizeEstimate`` and ``CostEstimate``."""

    least: int
    most: int

    def __add__(self, other: Range) -> Range:
        return Range(min(self.least + other.least, MAXIMUM), min(self.most + other.most, MAXIMUM))

    def __mul__(self, other: Range) -> Range:
        return Range(min(self.least * other.least, MAXIMUM), min(self.most * other.most, MAXIMUM))

    def times(self, factor: float) -> Range:
        """Multiply by a factor, and round up: ``MultiplyByCostFactor``."""
        return Range(_times(self.least, factor), _times(self.most, factor))

    def union(self, other: Range) -> Range:
        """A range that has both."""
        return Range(min(self.least, other.least), max(self.most, other.most))


def _times(number: int, factor: float) -> int:
    exact = float(number)
    if exact > 0 and factor > 0 and exact > 2.0**64 / factor:
        return MAXIMUM
    return min(math.ceil(exact * factor), MAXIMUM)


def fixed(number: int) -> Range:
    """A size or a cost that is known."""
    return Range(number, number)


UNKNOWN = Range(0, MAXIMUM)
ONE = fixed(1)


class Operand(msgspec.Struct, frozen=True):
    """The receiver or an argument of a call: ``AstNode``."""

    kind: str
    """Its type, as errors write it."""
    size: Range | None = None
    """The size that is known of the expression itself."""
    path: tuple[str, ...] = ()
    """Where in the variables its value is; empty if it is computed."""
    node: Node | None = None


class CallEstimate(msgspec.Struct, frozen=True):
    """What a call costs without its arguments, and how large its result is, if that is known."""

    cost: Range
    size: Range | None = None


class DeclaredSize(msgspec.Struct, frozen=True):
    """What is declared of values, with what is in them: ``DeclType`` of ``k8s.io/apiserver/pkg/cel/types.go``."""

    type: str
    """The type of the values, as errors of CEL write it."""
    least_bytes: int
    """What a value takes at least, as JSON."""
    elements: int | None = 0
    """The most items, members or characters; None if that is unknown."""
    fields: Mapping[str, DeclaredSize] = msgspec.field(default_factory=dict)
    """By the names that rules have for them."""
    key: DeclaredSize | None = None
    element: DeclaredSize | None = None
    member: DeclaredSize | None = None
    """What a member of a map is that is selected like a field."""

    def most(self, path: tuple[str, ...]) -> int | None:
        """The most elements of the value at a path that begins with a variable; None if that is unknown."""
        found = self._at(path)
        return None if found is None else found.elements

    def kind(self, path: tuple[str, ...]) -> str:
        """The type of the value at a path; empty if that is unknown."""
        found = self._at(path)
        return "" if found is None else found.type

    def _at(self, path: tuple[str, ...]) -> DeclaredSize | None:
        found: DeclaredSize | None = self
        for step in path[1:]:
            if found is None:
                return None
            match step:
                case "@items" | "@values":
                    found = found.element
                case "@keys":
                    found = found.key
                case _:
                    found = found.fields.get(step, found.member)
        return found


class Call(msgspec.Struct, frozen=True):
    """A call that is to be estimated."""

    function: str
    overload: str
    target: Operand | None
    arguments: Sequence[Operand]
    declared: DeclaredSize

    def size(self, operand: Operand) -> Range:
        """The size of an operand."""
        if operand.size is not None:
            return operand.size
        most = self.declared.most(operand.path) if operand.path else None
        return UNKNOWN if most is None else Range(0, most)

    @property
    def first(self) -> Operand | None:
        """The first argument."""
        return self.arguments[0] if self.arguments else None


_Estimator: TypeAlias = "Callable[[Call], CallEstimate | None]"


def estimate_call(call: Call) -> CallEstimate | None:
    """Estimate a call of a function that Kubernetes or an extension adds; None for others."""
    overload = call.overload
    found = _OVERLOADS.get(overload)
    if found is None and overload.startswith("list_"):
        if overload.endswith("_sort"):
            found = _sort
        elif overload.endswith("_sortByAssociatedKeys"):
            found = _sort_by
    if found is not None and (estimate := found(call)) is not None:
        return estimate
    by_function = _FUNCTIONS.get(call.function)
    return None if by_function is None else by_function(call)


def _constant(cost: int) -> _Estimator:
    return lambda _: CallEstimate(fixed(cost))


def _of_first(factor: float, *, is_sized: bool = False) -> _Estimator:
    """Passing over the first argument, which the result is as large as."""

    def estimate(call: Call) -> CallEstimate | None:
        if call.first is None:
            return None
        size = call.size(call.first)
        return CallEstimate(size.times(factor), size if is_sized else None)

    return estimate


def _of_target(call: Call) -> CallEstimate | None:
    if call.target is None:
        return None
    size = call.size(call.target)
    return CallEstimate(size.times(STRING_FACTOR), size)


def _selector(call: Call) -> CallEstimate | None:
    if len(call.arguments) != 1:
        return None
    length = call.size(call.arguments[0])
    requirements = length.times(0.5).times(LIST_CREATE_BASE_COST + STRUCT_CREATE_BASE_COST)
    return CallEstimate(fixed(LIST_CREATE_BASE_COST) + length.times(STRING_FACTOR) + requirements)


# Lists


def _elements(items: Operand) -> Operand | None:
    """An item of a list, or a key of a map; None if the operand has no such type: ``listElementNode``."""
    name, _, inner = items.kind.partition("(")
    if name not in {"list", "map", "optional_type"} or not inner:
        return None
    return Operand(
        _first_parameter(inner.removesuffix(")")), None, (*items.path, "@items") if items.path else ()
    )


def _first_parameter(text: str) -> str:
    depth = 0
    for index, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            return text[:index]
    return text


_TEXTS = frozenset({"string", "bytes"})


def _traversal(call: Call) -> CallEstimate | None:
    """Comparing each item of a list once, or passing over a text."""
    if call.target is None:
        return None
    size = call.size(call.target)
    element = _elements(call.target)
    if element is not None:
        each = ONE + call.size(element).times(STRING_FACTOR) if element.kind in _TEXTS else ONE
        return CallEstimate(size * each)
    return CallEstimate(size if call.function == "includes" else size.times(STRING_FACTOR))


def _new_list(size: Range, factor: float = 1) -> CallEstimate:
    """``estimateAllocatingListCall``."""
    return CallEstimate(size.times(factor) + ONE + fixed(LIST_CREATE_BASE_COST), size)


def _number(operand: Operand, otherwise: int) -> int:
    """A number that is written as it is: ``nodeAsUintValue``."""
    node = operand.node
    if not isinstance(node, Constant) or type(node.value) is not int:
        return otherwise
    return max(node.value, 0)


def _slice(call: Call) -> CallEstimate | None:
    if call.target is None or len(call.arguments) != 2:
        return None
    start, end = call.arguments
    length = _number(end, call.size(call.target).most) - _number(start, 0)
    return _new_list(fixed(length & MAXIMUM))


def _range(call: Call) -> CallEstimate | None:
    return None if call.target is not None else _new_list(fixed(_number(call.arguments[0], MAXIMUM)))


def _reverse(call: Call) -> CallEstimate | None:
    return None if call.target is None else _new_list(call.size(call.target))


def _flatten(call: Call) -> CallEstimate | None:
    if call.target is None:
        return None
    depth = _number(call.first, MAXIMUM) if call.first is not None else 1
    return _new_list(call.size(call.target), float(depth))


def _distinct(call: Call) -> CallEstimate | None:
    if call.target is None:
        return None
    size = call.size(call.target)
    return _new_list(size * size, 2)


def _sort(call: Call) -> CallEstimate | None:
    return None if call.target is None else _sorted(call, call.target)


def _sort_by(call: Call) -> CallEstimate | None:
    return None if call.first is None else _sorted(call, call.first)


def _sorted(call: Call, keys: Operand) -> CallEstimate:
    size, kind = call.size(keys), call.overload.split("_")[1]
    return _new_list(size * size, 2 + STRING_FACTOR if kind in _TEXTS else 2)


def _sets(factor: float) -> _Estimator:
    def estimate(call: Call) -> CallEstimate | None:
        if len(call.arguments) != 2:
            return None
        left, right = map(call.size, call.arguments)
        return CallEstimate((left * right).times(factor) + ONE)

    return estimate


# Texts


def _replace(call: Call) -> CallEstimate | None:
    if call.target is None or len(call.arguments) < 2:
        return None
    size, old, new = call.size(call.target), *map(call.size, call.arguments[:2])
    if old.least == 0:  # the empty text is before, between and after all characters
        most, kept_most = min(size.most + 1, MAXIMUM), size.most
    elif new.most <= old.least:
        most, kept_most = 0, size.most
    else:
        most, kept_most = math.ceil(float(size.most) / float(old.least)), 0
    if old.most == 0:
        least, kept_least = min(size.least + 1, MAXIMUM), size.least
    elif old.most <= new.least:
        least, kept_least = 0, size.least
    else:
        least, kept_least = math.ceil(float(size.least) / float(old.most)), 0
    result = Range(least, most) * new + Range(kept_least, kept_most)
    return CallEstimate(size.times(2 * STRING_FACTOR), result)


def _split(call: Call) -> CallEstimate | None:
    if call.target is None:
        return None
    size = call.size(call.target)
    most = size.most
    if len(call.arguments) > 1:
        node = call.arguments[1].node
        if isinstance(node, Constant) and type(node.value) is int:
            most = node.value & MAXIMUM
    return CallEstimate(size.times(2 * STRING_FACTOR), Range(0, most))


def _join(call: Call) -> CallEstimate | None:
    if call.target is None:
        return None
    items, element = call.size(call.target), _elements(call.target)
    size = fixed(0) if element is None else items * call.size(element)
    if call.first is not None:
        size += call.size(call.first) * Range(max(items.least - 1, 0), max(items.most - 1, 0))
    return CallEstimate(size.times(STRING_FACTOR), size)


def _find(call: Call) -> CallEstimate | None:
    if call.target is None or call.first is None:
        return None
    size = call.size(call.target)
    cost = (size + ONE).times(STRING_FACTOR) * call.size(call.first).times(REGEX_FACTOR)
    return CallEstimate(cost, Range(0, size.most))


_LONGEST_FORMAT, _LONGEST_FORMAT_NAME = 128, 64
"""``MaxNameFormatRegexSize`` and ``MaxFormatSize``."""


def _validate(call: Call) -> CallEstimate | None:
    if call.first is None:
        return None
    return CallEstimate(call.size(call.first).times(STRING_FACTOR).times(_LONGEST_FORMAT * REGEX_FACTOR))


# Addresses


def _ip(call: Call) -> CallEstimate | None:
    return CallEstimate(ONE) if call.overload == "cidr_ip" else _of_first(STRING_FACTOR)(call)


_ADDRESS_BYTES = Range(4, 16)


def _contains_address(call: Call) -> CallEstimate | None:
    if call.first is None:
        return None
    cost = (_ADDRESS_BYTES + _ADDRESS_BYTES).times(STRING_FACTOR)
    if call.function == "containsCIDR":
        cost += _ADDRESS_BYTES.times(STRING_FACTOR) + ONE
    if call.overload in {"cidr_contains_ip_string", "cidr_contains_cidr_string"}:
        cost += call.size(call.first).times(STRING_FACTOR)
    return CallEstimate(cost)


_EQUAL_AT_ONCE = frozenset({"net.IP", "net.CIDR", "kubernetes.Quantity", "kubernetes.Semver"})


def _equals(call: Call) -> CallEstimate | None:
    """Comparing values of Kubernetes' own types; others are compared by their sizes."""
    if len(call.arguments) != 2 or call.arguments[0].kind != call.arguments[1].kind:
        return None
    kind = call.arguments[0].kind
    if kind in _EQUAL_AT_ONCE or kind.startswith("kubernetes.authorization."):
        return CallEstimate(ONE)
    if kind == "kubernetes.NamedFormat":
        return CallEstimate(Range(1, _LONGEST_FORMAT_NAME).times(STRING_FACTOR))
    if kind == "kubernetes.URL":
        size = call.arguments[1].size  # of both sides, it looks at the second
        return CallEstimate(Range(1, 1 if size is None else size.most).times(STRING_FACTOR))
    return None


_FUNCTIONS: Mapping[str, _Estimator] = {
    "check": _constant(350_000),
    **dict.fromkeys(
        (
            "serviceAccount", "path", "group", "resource", "subresource", "namespace", "name", "allowed", "reason",
            "error", "errored", "masked", "prefixLength", "family", "isUnspecified", "isLoopback",
            "isLinkLocalMulticast", "isLinkLocalUnicast", "isGlobalUnicast", "format.named", "sign", "asInteger",
            "isInteger", "asApproximateFloat", "isGreaterThan", "isLessThan", "compareTo", "add", "sub", "major",
            "minor", "patch", "getScheme", "getHostname", "getHost", "getPort", "getEscapedPath", "getQuery",
        ),
        _constant(1),
    ),
    **dict.fromkeys(("fieldSelector", "labelSelector"), _selector),
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "includes"), _traversal),
    **dict.fromkeys(("url", "jsonpatch.escapeKey"), _of_first(STRING_FACTOR, is_sized=True)),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _of_target),
    "replace": _replace,
    "split": _split,
    "join": _join,
    **dict.fromkeys(("find", "findAll"), _find),
    **dict.fromkeys(
        ("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _of_first(STRING_FACTOR)
    ),
    "ip": _ip,
    "ip.isCanonical": _of_first(2 * STRING_FACTOR),
    **dict.fromkeys(("containsIP", "containsCIDR"), _contains_address),
    "validate": _validate,
    "_==_": _equals,
}  # fmt: skip
_OVERLOADS: Mapping[str, _Estimator] = {
    "list_slice": _slice,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "list_range": _range,
    "list_reverse": _reverse,
    "list_distinct": _distinct,
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
}
