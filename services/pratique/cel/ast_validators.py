"""AST validators: what Kubernetes refuses in an expression that type-checks.

Source: ``k8s.io/apiserver/pkg/cel/environment/base.go`` ``ASTValidators`` and ``HomogeneousAggregateLiterals``;
``github.com/google/cel-go/cel/validator.go``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pratique.cel.activation import Frame
from pratique.cel.compilation_errors import render_type
from pratique.cel.errors import EvaluationError
from pratique.cel.syntax_trees import (
    CallExpr,
    Comprehension,
    Constant,
    ListLiteral,
    MapLiteral,
    Node,
    Select,
    StructLiteral,
    SyntaxTree,
)

if TYPE_CHECKING:
    from pratique.cel.interpretables import Functions

_DYN = "dyn"
_EXEMPT = frozenset({"format"})
"""Functions whose arguments may mix literals of different types."""
_LITERALS = ("duration", "timestamp")
"""Conversions whose literal arguments are validated."""


@dataclasses.dataclass(frozen=True, slots=True)
class AstIssue:
    """A problem with the node that has this number."""

    number: int
    message: str


def validate_ast(tree: SyntaxTree, functions: Functions) -> list[AstIssue]:
    """Find what Kubernetes refuses, in the order of its validators."""
    nodes = list(_walk(tree.root))
    issues = [
        issue for name in _LITERALS for node in nodes if (issue := _invalid_literal(node, name, 0, functions))
    ]
    issues += [issue for node in nodes if (issue := _invalid_literal(node, "matches", 1, functions))]
    return issues + list(_mixed_literals(tree.root, tree))


def _walk(node: Node) -> Iterator[Node]:
    yield node
    for child in _children(node):
        yield from _walk(child)


def _children(node: Node) -> Sequence[Node]:
    match node:
        case Select(_, operand):
            return (operand,)
        case CallExpr(arguments=parts) | ListLiteral(elements=parts):
            return parts
        case StructLiteral(_, _, fields):
            return [field.value for field in fields]
        case MapLiteral(_, entries):
            return [part for entry in entries for part in (entry.key, entry.value)]
        case Comprehension():
            return (node.items, node.start, node.condition, node.step, node.result)
        case _:
            return ()


def _invalid_literal(node: Node, name: str, place: int, functions: Functions) -> AstIssue | None:
    if not isinstance(node, CallExpr) or node.function != name or len(node.arguments) != place + 1:
        return None
    argument = node.arguments[place]
    if not isinstance(argument, Constant) or not isinstance(argument.value, str):
        return None
    values = ["", argument.value][1 - place :]
    try:
        functions[name](Frame({}, 0, 0), *values)
    except EvaluationError:
        return AstIssue(argument.number, f"invalid {name} argument")
    return None


def _mixed_literals(node: Node, tree: SyntaxTree) -> Iterator[AstIssue]:
    """Find lists and maps that mix literals of different types, except in the arguments of ``format``."""
    if isinstance(node, CallExpr) and node.function in _EXEMPT:
        return
    if isinstance(node, ListLiteral):
        yield from _mixed_types(node.elements, node.optional, tree)
    elif isinstance(node, MapLiteral):
        optional = frozenset(place for place, entry in enumerate(node.entries) if entry.optional)
        yield from _mixed_types([entry.key for entry in node.entries], frozenset(), tree)
        yield from _mixed_types([entry.value for entry in node.entries], optional, tree)
    for child in _children(node):
        yield from _mixed_literals(child, tree)


def _mixed_types(nodes: Sequence[Node], optional: frozenset[int], tree: SyntaxTree) -> Iterator[AstIssue]:
    expected = ""
    for place, node in enumerate(nodes):
        kind = render_type(tree.types.get(node.number, b""))
        if place in optional:
            kind = kind.removeprefix("optional_type(").removesuffix(")")
        if _DYN in kind:
            continue
        expected = expected or kind
        if kind != expected:
            yield AstIssue(node.number, f"expected type '{expected}' but found '{kind}'")
            return
