"""What code does, as text that can be compared: two mutants that mean the same are one."""

from __future__ import annotations

import ast

_STORAGE = ("frozen", "slots", "kw_only")
"""Arguments of dataclasses and structures that no behaviour depends on."""


def meaning_of(code: str | None) -> str:
    """What code does, as text: without annotations and what only type checkers read. Empty for what is no Python."""
    try:
        tree = ast.parse(code or "")
    except SyntaxError:
        return ""
    return ast.dump(_Runtime().visit(tree))


_ALIKE: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.Eq: ast.Is, ast.NotEq: ast.IsNot}
_PAIRS = ((ast.Eq, ast.NotEq), (ast.Is, ast.IsNot), (ast.In, ast.NotIn), (ast.Lt, ast.GtE), (ast.Gt, ast.LtE))
_OPPOSITES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    one: other for pair in _PAIRS for one, other in (pair, pair[::-1])
}


def _is_unique(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return node.value is None
    return isinstance(node, ast.Attribute) and node.attr.isupper()


class _Runtime(ast.NodeTransformer):
    """Takes out what does nothing when the code runs."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(value=None)
        return self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.AST | None:
        return None if "TYPE_CHECKING" in ast.dump(node.test) else self.generic_visit(node)

    def visit_arguments(self, node: ast.arguments) -> ast.AST:
        # Whether an argument has to be named.
        node.args = [*node.posonlyargs, *node.args, *node.kwonlyargs]
        node.posonlyargs, node.kwonlyargs = [], []
        return self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        inner = node.operand
        if not isinstance(node.op, ast.Not):
            return node
        if isinstance(inner, ast.UnaryOp) and isinstance(inner.op, ast.Not):
            return inner.operand
        if isinstance(inner, ast.Compare) and len(inner.ops) == 1 and type(inner.ops[0]) in _OPPOSITES:
            inner.ops = [_OPPOSITES[type(inner.ops[0])]()]
            return inner
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        # None and members of enumerations are equal to themselves alone.
        operators = [
            _ALIKE.get(type(operator), type(operator))() if _is_unique(right) else operator
            for operator, right in zip(node.ops, node.comparators, strict=True)
        ]
        node.ops = operators
        return self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> ast.AST | None:
        return None if node.arg in _STORAGE else self.generic_visit(node)
