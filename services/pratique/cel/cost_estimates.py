"""Estimates of what an expression costs at most, whatever the values of its variables are.

An API server refuses rules of custom resources and selectors of devices for them, before any value is there.

Source: ``github.com/google/cel-go/checker/cost.go``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from pratique.cel.call_estimates import (
    MAXIMUM,
    ONE,
    REGEX_FACTOR,
    STRING_FACTOR,
    UNKNOWN,
    Call,
    CallEstimate,
    DeclaredSize,
    Operand,
    Range,
    estimate_call,
    fixed,
)
from pratique.cel.compilation_errors import render_type
from pratique.cel.costs import LIST_CREATE_BASE_COST, MAP_CREATE_BASE_COST, STRUCT_CREATE_BASE_COST
from pratique.cel.syntax_trees import (
    CallExpr,
    Comprehension,
    Constant,
    Identifier,
    ListLiteral,
    MapLiteral,
    Node,
    Select,
    StructLiteral,
    SyntaxTree,
)

_NOTHING = fixed(0)
_NARROWEST = Range(MAXIMUM, 0)
"""What any range widens."""
_SCALARS = frozenset({"bool", "double", "duration", "int", "timestamp", "uint"})
_OF_MACROS = frozenset({"__result__", "@result"})
"""The accumulators that macros make; one of ``cel.bind`` has the name of its variable."""


def estimate_cost(tree: SyntaxTree, declared: DeclaredSize) -> int:
    """What an expression costs at most.

    Args:
        tree: The expression, checked.
        declared: What is declared of its variables, of which the first step of a path names one.
    """
    return _Estimation(tree, declared).cost(tree.root).most


class _Entries(msgspec.Struct, frozen=True):
    """The sizes of what is in a list or a map that an expression makes."""

    is_list: bool
    key: Range
    value: Range

    def union(self, other: _Entries) -> _Entries:
        return _Entries(self.is_list, self.key.union(other.key), self.value.union(other.value))


class _Path(msgspec.Struct, frozen=True):
    """A path as cel-go has it, a slice that shares its room with those that are made of it.

    Where there is room left, the step that is appended last is the step of all of them: in
    ``x.tags.all(t, t == x.name)``, the path of ``x.tags`` becomes that of ``x.name``, and its size as well. API servers
    refuse rules for it.
    """

    room: list[str] = msgspec.field(default_factory=list)
    length: int = 0

    def __truediv__(self, step: str) -> _Path:
        room = self.room
        if self.length == len(room):
            room = [*room, *[""] * max(len(room), 1)]
        room[self.length] = step
        return _Path(room, self.length + 1)

    @property
    def steps(self) -> tuple[str, ...]:
        return tuple(self.room[: self.length])


_NOWHERE = _Path()


class _Local(msgspec.Struct, frozen=True):
    """A variable that a macro declares."""

    path: _Path
    size: Range | None
    entries: _Entries | None = None


class _Estimation:
    """The estimate of one expression: ``coster``."""

    def __init__(self, tree: SyntaxTree, declared: DeclaredSize) -> None:
        self._tree, self._declared = tree, declared
        self._paths: dict[int, _Path] = {}
        self._sizes: dict[int, Range] = {}
        self._entries: dict[int, _Entries] = {}
        self._locals: dict[str, list[_Local]] = {}

    def cost(self, node: Node) -> Range:
        """What evaluating a node costs, with all that is in it."""
        estimate: Callable[[_Estimation, Any], Range] = _BY_KIND[type(node)]
        return estimate(self, node)

    def identifier(self, node: Identifier) -> Range:
        """A variable."""
        local = self._local(node)
        self._paths[node.number] = _Path([node.name], 1) if local is None else local.path
        return ONE

    def list_literal(self, node: ListLiteral) -> Range:
        """``[a, b]``."""
        total = self._sum(node.elements)
        value = self._widest(node.elements)
        self._entries[node.number] = _Entries(is_list=True, key=ONE, value=value)
        return total + fixed(LIST_CREATE_BASE_COST)

    def struct_literal(self, node: StructLiteral) -> Range:
        """``Type{field: value}``."""
        return self._sum(field.value for field in node.fields) + fixed(STRUCT_CREATE_BASE_COST)

    def _sum(self, nodes: Iterable[Node]) -> Range:
        return sum((self.cost(node) for node in nodes), _NOTHING)

    def select(self, node: Select) -> Range:
        """``operand.field``, or ``has(operand.field)``."""
        total = self.cost(node.operand)
        if node.test_only:
            return total
        if not self._kind(node.operand).startswith(_NOT_SELECTED):
            total += ONE
        self._paths[node.number] = self._path(node.operand) / node.field
        return total

    def map_literal(self, node: MapLiteral) -> Range:
        """``{key: value}``."""
        keys, values = [entry.key for entry in node.entries], [entry.value for entry in node.entries]
        total = self._sum((*keys, *values))
        key, value = self._widest(keys), self._widest(values)
        self._entries[node.number] = _Entries(is_list=False, key=key, value=value)
        return total + fixed(MAP_CREATE_BASE_COST)

    def _widest(self, nodes: Sequence[Node]) -> Range:
        """A range that has the sizes of all parts of a literal."""
        widest = _NARROWEST if nodes else _NOTHING
        for node in nodes:
            widest = widest.union(self._size_or_unknown(node))
        return widest

    # Macros

    def comprehension(self, node: Comprehension) -> Range:
        """A macro: its step and its condition, as often as there are items at most."""
        if _is_bind(node):
            return self._bind(node)
        total = self.cost(node.items) + self.cost(node.start)
        self._push(node.accumulator, self._local_of(node.start))
        for name, local in zip(node.variables, self._iterated(node), strict=True):
            self._push(name, local)
        step = self.cost(node.condition) + self.cost(node.step)
        for name in node.variables:
            self._locals[name].pop()
        total += self.cost(node.result)
        self._locals[node.accumulator].pop()
        count = self._size_or_unknown(node.items)
        self._set_comprehension_size(node, count)
        return total + count * step

    def _set_comprehension_size(self, node: Comprehension, count: Range) -> None:
        match node.start:
            case Constant():
                self._set_size(node, self._size(node.start))
            case ListLiteral() | MapLiteral():
                self._sizes[node.number] = count
                entries = self._entries_of(node.step)
                if entries is not None:
                    self._entries[node.number] = entries

    def _iterated(self, node: Comprehension) -> tuple[_Local, ...]:
        """The variables of a macro that goes over a list or a map."""
        entries, path = self._entries_of(node.items), self._path(node.items)
        is_list = self._kind(node.items).startswith("list") if entries is None else entries.is_list
        key = None if entries is None else entries.key
        value = None if entries is None else entries.value
        keys = ("@indices" if is_list else "@keys", key)
        values = ("@items" if is_list else "@values", value)
        wanted = (keys, values) if len(node.variables) > 1 else (values,) if is_list else (keys,)
        return tuple(_Local(path / step, size) for step, size in wanted)

    def _bind(self, node: Comprehension) -> Range:
        total = self.cost(node.items) + self.cost(node.start)
        self._push(node.accumulator, self._local_of(node.start))
        total += self.cost(node.result)
        self._locals[node.accumulator].pop()
        self._copy_sizes(node, node.result)
        return total

    def _local_of(self, node: Node) -> _Local:
        return _Local(self._path(node), self._size(node), self._entries_of(node))

    def _push(self, name: str, local: _Local) -> None:
        self._locals.setdefault(name, []).append(local)

    def _local(self, node: Node) -> _Local | None:
        found = self._locals.get(node.name) if isinstance(node, Identifier) else None
        return found[-1] if found else None

    # Calls

    def call(self, node: CallExpr) -> Range:
        """A function or an operator, by whichever of its overloads costs most."""
        if node.function == "dyn":
            (argument,) = node.arguments
            total = self.cost(argument) + ONE
            self._copy_sizes(node, argument)
            return total
        receiver, arguments = (
            (node.arguments[:1], node.arguments[1:]) if node.is_method else ((), node.arguments)
        )
        costs, operands = [], []
        for argument in arguments:
            costs.append(self.cost(argument))
            operands.append(self._operand(argument))
        if not node.overloads:
            return _NOTHING
        total = self._sum(receiver)
        target = self._operand(receiver[0]) if receiver else None
        cost, size = _NARROWEST, None
        for overload in self._overloads(node):
            call = Call(node.function, overload, target, operands, self._declared)
            estimate = self._overload(node, call, costs)
            cost = cost.union(estimate.cost)
            if estimate.size is not None:
                size = estimate.size if size is None else size.union(estimate.size)
            if overload in _INDEXED:
                entries = self._entries_of(arguments[0])
                size = None if entries is None else entries.value
                self._paths[node.number] = self._path(arguments[0]) / _INDEXED[overload]
            size = self._size(node) if size is None else size
        self._set_size(node, size)
        return total + cost

    def _overload(self, node: CallExpr, call: Call, costs: Sequence[Range]) -> CallEstimate:
        """What a call costs with its arguments, by one of its overloads: ``functionCost``."""
        arguments = sum(costs, _NOTHING)
        estimate = estimate_call(call)
        if estimate is None:
            match call.overload:
                case "logical_or" | "logical_and":
                    return CallEstimate(Range(costs[0].least, arguments.most))
                case "conditional":
                    return self._conditional(node, call, costs)
                case "add_string" | "add_bytes" | "add_list":
                    estimate = self._concatenation(node, call)
                case _:
                    estimate = _standard(call) or CallEstimate(ONE)
        return CallEstimate(estimate.cost + arguments, estimate.size)

    def _conditional(self, node: CallExpr, call: Call, costs: Sequence[Range]) -> CallEstimate:
        _, left, right = node.arguments
        entries, others = self._entries_of(left), self._entries_of(right)
        if entries is not None and others is not None:
            self._entries[node.number] = entries.union(others)
        size = _size(call.arguments[1]).union(_size(call.arguments[2]))
        return CallEstimate(costs[0] + costs[1].union(costs[2]), size)

    def _concatenation(self, node: CallExpr, call: Call) -> CallEstimate:
        left, right = node.arguments
        entries, others = self._entries_of(left), self._entries_of(right)
        if entries is not None and others is not None:
            self._entries[node.number] = entries.union(others)
        size = _size(call.arguments[0]) + _size(call.arguments[1])
        return CallEstimate(ONE if call.overload == "add_list" else size.times(STRING_FACTOR), size)

    # Paths and sizes

    def _operand(self, node: Node) -> Operand:
        path = self._path(node).steps
        known = () if path and path[0] in _OF_MACROS else path
        return Operand(self._kind(node), self._size(node), known, node)

    def _kind(self, node: Node) -> str:
        """The type of a node; the checker knows no lists and maps that are inside others, so their places tell."""
        kind = render_type(self._tree.types.get(node.number, b""))
        path = self._path(node).steps if kind == "dyn" else ()
        return (self._declared.kind(path) if path else "") or kind

    def _overloads(self, node: CallExpr) -> tuple[str, ...]:
        """The overloads that fit the types of the arguments; ``[]`` and ``in`` are of lists or of maps."""
        if len(node.overloads) < 2 or node.function not in _OF_CONTAINERS:
            return node.overloads
        container = node.arguments[0 if node.function == "_[_]" else 1]
        kind = self._kind(container).partition("(")[0]
        found = tuple(name for name in node.overloads if name.endswith(f"_{kind}"))
        return found or node.overloads

    def _path(self, node: Node) -> _Path:
        local = self._local(node)
        return self._paths.get(node.number, _NOWHERE) if local is None else local.path

    def _set_size(self, node: Node, size: Range | None) -> None:
        if size is not None:
            self._sizes[node.number] = size

    def _copy_sizes(self, node: Node, source: Node) -> None:
        self._set_size(node, self._size(source))
        entries = self._entries_of(source)
        if entries is not None:
            self._entries[node.number] = entries

    def _size_or_unknown(self, node: Node) -> Range:
        size = self._size(node)
        return UNKNOWN if size is None else size

    def _size(self, node: Node) -> Range | None:
        """The size of a value as far as its expression, its place or its type tell: ``computeSize``."""
        found = self._sizes.get(node.number) or _written_size(node)
        if found is not None:
            return found
        path = self._path(node).steps
        most = self._declared.most(path) if path else None
        if most is not None:
            self._sizes[node.number] = Range(0, most)
            return self._sizes[node.number]
        if _is_scalar(self._kind(node)):
            return ONE
        local = self._local(node)
        return None if local is None else local.size

    def _entries_of(self, node: Node) -> _Entries | None:
        found, local = self._entries.get(node.number), self._local(node)
        return local.entries if found is None and local is not None else found


_BY_KIND: Mapping[type, Callable[[_Estimation, Any], Range]] = {
    Constant: lambda *_: _NOTHING,
    Identifier: _Estimation.identifier,
    Select: _Estimation.select,
    CallExpr: _Estimation.call,
    ListLiteral: _Estimation.list_literal,
    MapLiteral: _Estimation.map_literal,
    StructLiteral: _Estimation.struct_literal,
    Comprehension: _Estimation.comprehension,
}
_NOT_SELECTED = ("dyn", "optional_type", "null", "list", "string", "any")
"""Types of which selecting a field costs nothing more: all but maps and structures."""
_OF_CONTAINERS = frozenset({"_[_]", "@in"})
_INDEXED = {"index_list": "@items", "index_map": "@values"}


def _is_bind(node: Comprehension) -> bool:
    is_empty = isinstance(node.items, ListLiteral) and not node.items.elements
    is_never = isinstance(node.condition, Constant) and node.condition.value is False
    return is_empty and is_never and node.accumulator != "__result__"


def _is_scalar(kind: str) -> bool:
    return kind.removeprefix("optional_type(").removesuffix(")") in _SCALARS


def _written_size(node: Node) -> Range | None:
    """The size of a literal: ``computeExprSize``."""
    match node:
        case Constant(value=str() | bytes() as text):
            return fixed(len(text))
        case Constant():
            return ONE
        case ListLiteral():
            return fixed(len(node.elements))
        case MapLiteral():
            return fixed(len(node.entries))
    return None


def _size(operand: Operand) -> Range:
    return UNKNOWN if operand.size is None else operand.size


_COMPARISONS = frozenset(
    {
        "equals",
        "not_equals",
        *(
            f"{name}_{kind}"
            for name in ("less", "less_equals", "greater", "greater_equals")
            for kind in ("string", "bytes")
        ),
    }
)


def _standard(call: Call) -> CallEstimate | None:
    """The functions of CEL itself that cost more than 1; None for others."""
    if call.overload in _COMPARISONS:
        most = min(_size(argument).most for argument in call.arguments)
        return CallEstimate(Range(1 if most else 0, most).times(STRING_FACTOR))
    operands = [*([] if call.target is None else [call.target]), *call.arguments]
    estimate = _STANDARD.get((call.overload, len(operands)))
    return None if estimate is None else estimate(*map(_size, operands))


def _to_bytes(text: Range) -> CallEstimate:
    return CallEstimate(text.times(STRING_FACTOR), Range(text.least, text.most * 4 & MAXIMUM))


def _to_text(content: Range) -> CallEstimate:
    return CallEstimate(content.times(STRING_FACTOR), Range(content.least // 4, content.most))


def _quote(text: Range) -> CallEstimate:
    quoted = Range(text.least + 2 & MAXIMUM, text.most * 2 + 2 & MAXIMUM)
    return CallEstimate(text.times(STRING_FACTOR), quoted)


def _match(text: Range, pattern: Range) -> CallEstimate:
    return CallEstimate((text + ONE).times(STRING_FACTOR) * pattern.times(REGEX_FACTOR))


_STANDARD: Mapping[tuple[str, int], Callable[..., CallEstimate]] = {
    ("string_format", 2): lambda text, _: CallEstimate(text.times(STRING_FACTOR)),
    ("string_to_bytes", 1): _to_bytes,
    ("bytes_to_string", 1): _to_text,
    ("strings_quote", 1): _quote,
    ("starts_with_string", 2): lambda _, start: CallEstimate(start.times(STRING_FACTOR)),
    ("ends_with_string", 2): lambda _, end: CallEstimate(end.times(STRING_FACTOR)),
    ("in_list", 2): lambda _, items: CallEstimate(items),
    ("matches_string", 2): _match,
    ("matches", 2): _match,
    ("contains_string", 2): lambda text, part: CallEstimate(
        text.times(STRING_FACTOR) * part.times(STRING_FACTOR)
    ),
}
"""By overload and number of operands, what they cost by the sizes of their operands."""
