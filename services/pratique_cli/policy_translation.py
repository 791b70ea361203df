"""The body of a Python policy as CEL: reads the syntax tree, and translates only what surely means the same.

Every translated expression has a value for every object: none of them can fail, whatever a user wrote.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

_OBJECTS = {"object": "dyn(object)", "old_object": "dyn(oldObject)"}
_SIZES: Mapping[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
_EMPTY = '[dyn(null), dyn(false), dyn(0), dyn(""), dyn([]), dyn({})]'
"""What Python counts as false. A list in a policy cannot mix types, so they are dynamic."""
_MAX_MESSAGE_CHARACTERS = 1024


class UntranslatableError(Exception):
    """A part of a policy has no certain equal in CEL; ``line`` is where."""

    def __init__(self, node: ast.AST, text: str) -> None:
        """Say what, and why."""
        super().__init__(text)
        self.line: int = getattr(node, "lineno", 1)


NamePath: TypeAlias = "tuple[str, ...]"
"""The names of members, from the whole object to a part of it."""


class Denial(NamedTuple):
    """A ``return deny(…)``."""

    condition: str
    """CEL that is true if the policy gets there."""
    message: str


class TranslationScope(msgspec.Struct, frozen=True):
    """The names that a part of the body can use."""

    review: str
    values: Mapping[str, str] = msgspec.field(default_factory=dict)
    """CEL by the Python name."""
    lists: frozenset[str] = frozenset()
    """The names that ``isinstance`` has shown to be lists."""
    draft: str = ""
    """The name of the Edits of the object; empty if there are none."""
    edited: Sequence[NamePath] = ()
    """What has been edited so far."""

    def knowing(self, test: ast.expr, *, truth: bool) -> TranslationScope:
        """Return the scope where a test has come out as ``truth``."""
        return msgspec.structs.replace(self, lists=self.lists | _shown_lists(test, truth=truth))

    def naming(self, name: str, value: str) -> TranslationScope:
        """Return the scope with another name."""
        return msgspec.structs.replace(self, values={**self.values, name: value})


class BodyTranslator:
    """Translates one function."""

    def __init__(self, review: str) -> None:
        """Take the name of the function's parameter."""
        self.variables: dict[str, str] = {}
        """The policy's variables: CEL by name."""
        self.denials: list[Denial] = []
        self._scope = TranslationScope(review)

    def translate(self, body: Sequence[ast.stmt]) -> None:
        """Fill in variables and denials.

        Raises:
            UntranslatableError: a part of the body is not among what can be translated.
        """
        for index, statement in enumerate(body):
            if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                self._assign(statement, statement.targets[0])
            elif not (index == 0 and is_docstring(statement)):
                self._block(body[index:], self._scope, ())
                return
        raise UntranslatableError(body[-1], "the function can end without an answer")

    def _assign(self, statement: ast.Assign, target: ast.expr) -> None:
        if not isinstance(target, ast.Name):
            raise UntranslatableError(statement, "only plain names can be assigned")
        name = target.id
        if name in self._scope.values or name == self._scope.review:
            raise UntranslatableError(statement, f"{name} is assigned twice")
        self.variables[name] = translate_value(statement.value, self._scope)
        self._scope = self._scope.naming(name, f"variables.{name}")

    def _block(self, body: Sequence[ast.stmt], scope: TranslationScope, path: tuple[str, ...]) -> None:
        """Translate statements that are reached if every expression of ``path`` is true."""
        for index, statement in enumerate(body):
            if isinstance(statement, ast.Return) and statement.value is not None:
                self._answer(statement.value, scope, path)
                return
            if not isinstance(statement, ast.If):
                text = (
                    "only if and return can be translated here, and assignments at the start of the function"
                )
                raise UntranslatableError(statement, text)
            test = f"({translate_condition(statement.test, scope)})"
            self._block(statement.body, scope.knowing(statement.test, truth=True), (*path, test))
            scope, path = scope.knowing(statement.test, truth=False), (*path, f"!{test}")
            if statement.orelse:
                self._block([*statement.orelse, *body[index + 1 :]], scope, path)
                return
        raise UntranslatableError(body[-1], "not every way through this ends with a return")

    def _answer(self, answer: ast.expr, scope: TranslationScope, path: tuple[str, ...]) -> None:
        if isinstance(answer, ast.IfExp):
            test = f"({translate_condition(answer.test, scope)})"
            self._answer(answer.body, scope.knowing(answer.test, truth=True), (*path, test))
            self._answer(answer.orelse, scope.knowing(answer.test, truth=False), (*path, f"!{test}"))
            return
        match answer:
            case ast.Call(func=ast.Name(id="allow"), args=[], keywords=[]):
                return
            case ast.Call(func=ast.Name(id="deny"), args=[ast.Constant(value=str(message))], keywords=[]):
                self.denials.append(Denial(" && ".join(path) or "true", _message(answer, message)))
            case _:
                raise UntranslatableError(
                    answer, 'the answers that can be translated are allow() and deny("text")'
                )


def is_docstring(statement: ast.stmt) -> bool:
    """Whether a statement is only a text."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _message(node: ast.AST, text: str) -> str:
    # Policies show a message without the spaces around it, and on one line.
    if not text or text != text.strip() or not text.isprintable() or len(text) > _MAX_MESSAGE_CHARACTERS:
        raise UntranslatableError(
            node,
            f"a policy's message is one line of 1 to {_MAX_MESSAGE_CHARACTERS} characters, without spaces around",
        )
    return text


def _shown_lists(test: ast.expr, *, truth: bool) -> frozenset[str]:
    """The names that are lists if ``test`` is ``truth``."""
    match test:
        case ast.Call(func=ast.Name(id="isinstance"), args=[ast.Name(id=name), _]) if truth:
            return frozenset({name})
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _shown_lists(operand, truth=not truth)
        case ast.BoolOp(op=op, values=values) if isinstance(op, ast.And) is truth:
            return frozenset().union(*(_shown_lists(value, truth=truth) for value in values))
    return frozenset()


def translate_condition(node: ast.expr, scope: TranslationScope) -> str:
    """Translate an expression of which only the truth counts."""
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return f"!({translate_condition(operand, scope)})"
        case ast.BoolOp(op=op, values=values):
            return _joined(isinstance(op, ast.And), values, scope)
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _comparison(left, op, right, scope)
        case ast.Call(func=ast.Name(id="isinstance"), args=[value, ast.Name(id="list")], keywords=[]):
            return f"type({translate_value(value, scope)}) == list"
        case ast.Call(
            func=ast.Name(id="any" | "all" as name), args=[ast.GeneratorExp() as each], keywords=[]
        ):
            return _quantified(name, each, scope)
    part = translate_value(node, scope)
    return f"!({part} in {_EMPTY})"


def _joined(conjunction: bool, values: Sequence[ast.expr], scope: TranslationScope) -> str:  # noqa: FBT001 - what joins them
    parts = []
    for value in values:
        parts.append(f"({translate_condition(value, scope)})")
        scope = scope.knowing(value, truth=conjunction)
    return (" && " if conjunction else " || ").join(parts)


def _comparison(left: ast.expr, op: ast.cmpop, right: ast.expr, scope: TranslationScope) -> str:
    match left, op, right:
        case _, ast.Is() | ast.IsNot(), ast.Constant(value=None):
            return f"{translate_value(left, scope)} {'==' if isinstance(op, ast.Is) else '!='} null"
        case _, ast.Eq() | ast.NotEq(), ast.Constant(value=str(text)):
            # The text first: a list or map of a built-in kind compared with another type is an error in an API server.
            return f"{_quoted(right, text)} {_SIZES[type(op)]} {translate_value(left, scope)}"
        case _, ast.In() | ast.NotIn(), ast.Tuple(elts=elements) | ast.List(elts=elements):
            found = f"{translate_value(left, scope)} in [{', '.join(map(_text, elements))}]"
            return found if isinstance(op, ast.In) else f"!({found})"
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)], keywords=[]), _, ast.Constant(
            value=number
        ):
            if type(number) is int and abs(number) < 1 << 31 and type(op) in _SIZES:
                return f"size({_list(left, name, scope)}) {_SIZES[type(op)]} {number}"
    # Python's 1 == True == 1.0, and its errors of < between types, are not CEL's.
    raise UntranslatableError(
        left,
        "the comparisons that can be translated are is None, == and in with texts, and len() of a list with a number",
    )


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return _quoted(node, node.value)
    raise UntranslatableError(node, "only texts can stand in this list")


def _list(node: ast.AST, name: str, scope: TranslationScope) -> str:
    if name not in scope.lists or name not in scope.values:
        raise UntranslatableError(
            node,
            f"{name} may be no list, which Python and CEL treat differently; "
            f"ask isinstance({name}, list) before",
        )
    return scope.values[name]


def _quantified(name: str, each: ast.GeneratorExp, scope: TranslationScope) -> str:
    match each.generators:
        case [ast.comprehension(target=ast.Name(id=item), iter=ast.Name(id=source), ifs=[], is_async=0)]:
            items = _list(each, source, scope)
            if item in scope.values or item == scope.review or not item.isascii():
                raise UntranslatableError(each, f"{item} has another meaning already")
            inner = scope.naming(item, f"each_{item}")
            macro = "exists" if name == "any" else "all"
            return f"{items}.{macro}(each_{item}, {translate_condition(each.elt, inner)})"
    raise UntranslatableError(each, f"{name}() can be translated over one list with a name, without if")


def translate_value(node: ast.expr, scope: TranslationScope) -> str:
    """Translate an expression that is a part of an object."""
    match node:
        case ast.Name(id=name) if name in scope.values:
            return scope.values[name]
        case ast.Attribute(value=ast.Name(id=name), attr=attribute) if (
            name == scope.review and attribute in _OBJECTS
        ):
            return _OBJECTS[attribute]
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="get"), args=[path], keywords=[]) if (
            scope.draft and name == scope.draft
        ):
            return _current(path, scope)
        case ast.Call(func=ast.Name(id="member"), args=[start, *steps], keywords=[]):
            found = translate_value(start, scope)
            for step in steps:
                found = member_expression(found, _text(step))
            return found
    raise UntranslatableError(
        node,
        "the values that can be translated are review.object, review.old_object, and member() of them with texts",
    )


def _current(node: ast.expr, scope: TranslationScope) -> str:
    """Translate a part of the object with its edits: it must be as it came."""
    path = literal_path(node)
    if any(overlap(path, other) for other in scope.edited):
        raise UntranslatableError(node, "what has been edited cannot be read again")
    found = _OBJECTS["object"]
    for step in path:
        found = member_expression(found, json.dumps(step, ensure_ascii=False))
    return found


def literal_path(node: ast.expr) -> NamePath:
    """Read a path of names.

    Raises:
        UntranslatableError: it is not written as one, or a name is an index in a JSON Patch.
    """
    steps = node.elts if isinstance(node, ast.Tuple) else []
    names = tuple(
        step.value for step in steps if isinstance(step, ast.Constant) and isinstance(step.value, str)
    )
    if not names or len(names) < len(steps) or any(name == "-" or name.isdigit() for name in names):
        raise UntranslatableError(
            node, 'the paths that can be translated are tuples of names: ("spec", "replicas")'
        )
    for step, name in zip(steps, names, strict=True):
        _quoted(step, name)
    return names


def overlap(one: NamePath, other: NamePath) -> bool:
    """Whether one path is that of the other, or of something around or inside it."""
    shared = min(len(one), len(other))
    return one[:shared] == other[:shared]


def member_expression(value: str, key: str) -> str:
    """Return CEL for a member of a value, by the CEL of its name; null where there is none."""
    # A list of one names the value, so that the expression does not grow threefold with each step.
    return f"[{value}].map(m, type(m) == map && {key} in m ? m[{key}] : null)[0]"


def _quoted(node: ast.AST, text: str) -> str:
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise UntranslatableError(node, "a text with half a character cannot be written")
    return json.dumps(text, ensure_ascii=False)
