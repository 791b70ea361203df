"""AST validators: what Kubernetes refuses in an expression that type-checks.

Source: ``k8s.io/apiserver/pkg/cel/environment/base.go`` ``ASTValidators`` and ``HomogeneousAggregateLiterals``;
``github.com/google/cel-go/cel/validator.go``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from pratique.cel.activation import Frame
from pratique.cel.compilation_errors import parse_type, render_type, to_type_name
from pratique.cel.errors import EvaluationError
from pratique.cel.libraries.formatting import CLAUSES, FORMATTING, Clause, ClauseKind, fill_clauses
from pratique.cel.syntax_trees import (
    CallExpr,
    Constant,
    ListLiteral,
    MapLiteral,
    Node,
    SyntaxTree,
    parts_of,
    walk,
)

if TYPE_CHECKING:
    from pratique.cel.interpretables import Functions

_EXEMPT = frozenset({"format"})
"""Functions whose arguments may mix literals of different types."""
_LITERALS = ("duration", "timestamp", "matches")
"""Functions whose first argument is validated if it is a literal; the receiver of a method is no argument."""


class AstIssue(msgspec.Struct, frozen=True):
    """A problem with the node that has this number."""

    number: int
    message: str


def validate_ast(tree: SyntaxTree, functions: Functions) -> list[AstIssue]:
    """Find what Kubernetes refuses, in the order of their positions."""
    nodes = list(walk(tree.root))
    if overflowing := [AstIssue(node.number, "invalid double literal") for node in nodes if _overflows(node)]:
        return overflowing  # cel-go's parser refuses it, so nothing else is looked at
    issues = [
        issue for name in _LITERALS for node in nodes if (issue := _invalid_literal(node, name, functions))
    ]
    issues += _mixed_literals(tree.root, tree)
    issues += [issue for node in nodes if (issue := _invalid_format(node, tree))]
    offsets = tree.offsets() if issues else {}
    return sorted(issues, key=lambda issue: offsets.get(issue.number, 0))


def _overflows(node: Node) -> bool:
    """Whether a node is a number that no double can hold, which the parser reads as infinity."""
    return isinstance(node, Constant) and isinstance(node.value, float) and math.isinf(node.value)


def _invalid_literal(node: Node, name: str, functions: Functions) -> AstIssue | None:
    if not isinstance(node, CallExpr) or node.function != name or len(node.arguments) <= node.is_method:
        return None
    argument = node.arguments[node.is_method]
    if not isinstance(argument, Constant) or not isinstance(argument.value, str):
        return None
    values = ("", argument.value) if name == "matches" else (argument.value,)
    try:
        functions[name](Frame({}, 0, 0), *values)
    except EvaluationError:
        return AstIssue(argument.number, f"invalid {name} argument")
    return None


def _invalid_format(node: Node, tree: SyntaxTree) -> AstIssue | None:
    """Find a constant format string whose clauses do not fit the elements of a list literal."""
    match node:
        case CallExpr(
            function="format",
            arguments=(Constant(value=str() as text), ListLiteral() as values),
            is_method=True,
        ):
            return _FormatCheck(node, values.elements, tree).run(text)
        case _:
            return None


class _FormatCheck:
    """Checks a call of ``format``: ``stringFormatChecker`` of ``github.com/google/cel-go/ext/formatting.go``."""

    def __init__(self, call: CallExpr, values: Sequence[Node], tree: SyntaxTree) -> None:
        self._call = call
        self._values = values
        self._tree = tree
        self._blamed = call.number
        self._seen = 0

    def run(self, text: str) -> AstIssue | None:
        try:
            fill_clauses(text, len(self._values), self._check, compiling=True)
        except EvaluationError as error:
            return AstIssue(self._blamed, str(error))
        if len(self._values) > self._seen:
            counts = f"expected {self._seen}, got {len(self._values)}"
            return AstIssue(self._call.number, f"too many arguments supplied to string.format ({counts})")
        return None

    def _check(self, clause: Clause, place: int) -> str:
        self._seen += 1
        kind = CLAUSES[clause.letter]
        self._check_type(self._values[place], kind, deep=clause.letter == "s")
        return ""

    def _check_type(self, node: Node, kind: ClauseKind, *, deep: bool) -> None:
        found = parse_type(render_type(self._tree.types.get(node.number, b"")))[0]
        if found not in kind.types and found != "dyn":
            self._blamed = node.number
            raise EvaluationError(f"{FORMATTING}: {kind.refusal}, was given {to_type_name(found)}")
        if deep and isinstance(node, ListLiteral | MapLiteral):
            for child in parts_of(node):
                self._check_type(child, kind, deep=True)


def _mixed_literals(node: Node, tree: SyntaxTree) -> Iterator[AstIssue]:
    """Find lists and maps that mix literals of different types, except in the arguments of ``format``."""
    if isinstance(node, CallExpr) and node.function in _EXEMPT:
        return
    if isinstance(node, ListLiteral):
        values = [(value, place in node.optional) for place, value in enumerate(node.elements)]
        yield from itertools.islice(_mixed_types(values, tree), 1)
    elif isinstance(node, MapLiteral):
        yield from _mixed_types([(entry.key, False) for entry in node.entries], tree)
        yield from _mixed_types([(entry.value, entry.optional) for entry in node.entries], tree)
    for child in parts_of(node):
        yield from _mixed_literals(child, tree)


def _mixed_types(nodes: Sequence[tuple[Node, bool]], tree: SyntaxTree) -> Iterator[AstIssue]:
    """Find the values whose type is not the first one's; a value comes with whether it is an optional."""
    expected = ""
    for node, optional in nodes:
        kind = render_type(tree.types.get(node.number, b""))
        if optional:
            kind = parse_type(kind)[1][0] if kind.startswith("optional_type(") else kind
        if isinstance(node, ListLiteral | MapLiteral) and not parts_of(node):
            continue  # the type of its elements or entries follows from the others
        expected = expected or kind
        if kind != expected:
            yield AstIssue(node.number, f"expected type '{expected}' but found '{kind}'")
