"""The body of a Python mutator as a JSON Patch in CEL: reads the syntax tree, translates only what means the same.

What can be translated edits members of an object whose names are written in the source, with values that are, too. The
conditions all look at the object as it came, so one expression can make the whole patch.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from pratique.apimachinery.json_values import JSON, pointer
from pratique_cli.policy_translation import (
    NamePath,
    TranslationScope,
    UntranslatableError,
    is_docstring,
    literal_path,
    member_expression,
    overlap,
    translate_condition,
    translate_value,
)

_METHODS = {"set": 2, "append": 2, "remove": 1}
"""What an Edits object does, and with how many arguments."""
_OBJECT = "dyn(object)"
_NEVER_WORKS = f'JSONPatch{{op: string({_OBJECT}.metadata), path: ""}}'
"""An operation that cannot be evaluated: metadata is no text."""
_WHOLE_NUMBERS = 1 << 53
"""Larger ones are not the same in every JSON."""
_ALWAYS, _NEVER, _SOMETIMES = True, False, None
"""Whether a part of the body ends with a return."""


class Edit(NamedTuple):
    """An edit of one member."""

    condition: str
    """CEL that is true if the mutator gets there."""
    method: str
    path: NamePath
    value: JSON = None


class MutationTranslator(msgspec.Struct):
    """Translates one function."""

    review: str
    """The name of the function's parameter."""
    variables: dict[str, str] = msgspec.field(default_factory=dict)
    """The policy's variables: CEL by name."""
    edits: list[Edit] = msgspec.field(default_factory=list)
    _edited: list[NamePath] = msgspec.field(default_factory=list)

    def translate(self, body: Sequence[ast.stmt]) -> None:
        """Fill in variables and edits.

        Raises:
            UntranslatableError: a part of the body is not among what can be translated.
        """
        scope = TranslationScope(self.review, edited=self._edited)
        for index, statement in enumerate(body):
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    scope = self._assign(name, value, scope)
                case _ if index or not is_docstring(statement):
                    if self._block(body[index:], scope, ()) is _ALWAYS:
                        return
                    break
        raise UntranslatableError(body[-1], "the function can end without an answer")

    def _assign(self, name: str, value: ast.expr, scope: TranslationScope) -> TranslationScope:
        if name in scope.values or name in {self.review, scope.draft}:
            raise UntranslatableError(value, f"{name} is assigned twice")
        match value:
            case ast.Call(
                func=ast.Name(id="Edits"),
                args=[ast.Attribute(value=ast.Name(id=self.review), attr="object")],
                keywords=[],
            ) if not scope.draft:
                return msgspec.structs.replace(scope, draft=name)
        self.variables[name] = translate_value(value, scope)
        return scope.naming(name, f"variables.{name}")

    def _block(self, body: Sequence[ast.stmt], scope: TranslationScope, path: tuple[str, ...]) -> bool | None:
        """Translate statements that are reached if every expression of ``path`` is true; whether they end."""
        ended: bool | None = _NEVER
        for index, statement in enumerate(body):
            match statement:
                case ast.Return(value=value):
                    self._answer(statement, value, scope)
                    return _ALWAYS
                case ast.If(test=test):
                    condition = f"({translate_condition(test, scope)})"
                    there, elsewhere = scope.knowing(test, truth=True), scope.knowing(test, truth=False)
                    otherwise = (*path, f"!{condition}")
                    then = self._block(statement.body, there, (*path, condition))
                    if then is _ALWAYS:
                        rest = [*statement.orelse, *body[index + 1 :]]
                        return self._block(rest, elsewhere, otherwise) or _SOMETIMES
                    other = self._block(statement.orelse, elsewhere, otherwise)
                    if _SOMETIMES in {then, other}:
                        text = "a branch either returns or goes on, whatever is in it"
                        raise UntranslatableError(statement, text)
                    if other is _ALWAYS:
                        ended, scope, path = _SOMETIMES, there, (*path, condition)
                case ast.Expr(
                    value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) as call
                ) if name == scope.draft and method in _METHODS:
                    self._edit(call, method, " && ".join(path) or "true")
                case _:
                    raise UntranslatableError(
                        statement,
                        "only if, return, and set, append and remove of Edits can be translated here",
                    )
        return ended

    def _answer(self, statement: ast.stmt, answer: ast.expr | None, scope: TranslationScope) -> None:
        match answer:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=name), attr="answer"), args=[], keywords=[]
            ) if name == scope.draft:
                return
            case ast.Call(func=ast.Name(id="allow"), args=[], keywords=[]) if not self.edits:
                return
        text = "a mutator's answers that can be translated are edits.answer() and, before any edit, allow()"
        raise UntranslatableError(statement, text)

    def _edit(self, call: ast.Call, method: str, condition: str) -> None:
        if call.keywords or len(call.args) != _METHODS[method]:
            raise UntranslatableError(call, f"{method} is translated with {_METHODS[method]} arguments")
        path = literal_path(call.args[0])
        value = _literal_value(call.args[1]) if method != "remove" else None
        for other in self.edits:
            if overlap(path, other.path) and (path, method) != (other.path, other.method):
                text = f"two edits of {pointer(path)} and {pointer(other.path)} depend on each other"
                raise UntranslatableError(call, text)
        self.edits.append(Edit(condition, method, path, value))
        self._edited.append(path)

    def expression(self) -> str:
        """Return the JSON Patch, in CEL: first what is missing around the edited members, then the edits."""
        parents: dict[NamePath, tuple[str, list[str]]] = {}
        for edit in self.edits:
            if edit.method == "remove":
                continue
            for length in range(1, len(edit.path)):
                parents.setdefault(edit.path[:length], ("{}", []))[1].append(edit.condition)
            if edit.method == "append":
                parents.setdefault(edit.path, ("[]", []))[1].append(edit.condition)
        parts = [
            _conditional(
                f"({' || '.join(conditions)}) && {_found(path)} == null", _operation("add", path, empty)
            )
            for path, (empty, conditions) in sorted(parents.items(), key=lambda item: len(item[0]))
        ]
        for edit in self.edits:
            parts += _operations(edit)
        return " + ".join(parts)


def _operations(edit: Edit) -> list[str]:
    found = _found(edit.path)
    if edit.method == "set":
        return [_conditional(edit.condition, _operation("add", edit.path, _cel(edit.value)))]
    if edit.method == "remove":
        around = _found(edit.path[:-1])
        there = f"type({around}) == map && {_text(edit.path[-1])} in {around}"
        return [_conditional(f"{edit.condition} && {there}", _operation("remove", edit.path))]
    # A patch would add a member "-" to a map: something else than a list fails, as it does in Python. An operation that
    # tests it would not do, because Kubernetes takes a failed test for a patch that is not wanted.
    is_list = f"({found} == null || type({found}) == list)"
    return [
        _conditional(f"{edit.condition} && !{is_list}", _NEVER_WORKS),
        _conditional(
            f"{edit.condition} && {is_list}", _operation("add", (*edit.path, "-"), _cel(edit.value))
        ),
    ]


def _conditional(condition: str, operation: str) -> str:
    return f"(({condition}) ? [{operation}] : [])"


def _operation(kind: str, path: NamePath, value: str | None = None) -> str:
    shown = "" if value is None else f", value: {value}"
    return f"JSONPatch{{op: {_text(kind)}, path: {_text(pointer(path))}{shown}}}"


def _found(path: NamePath) -> str:
    found = _OBJECT
    for step in path:
        found = member_expression(found, _text(step))
    return found


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _literal_value(node: ast.expr) -> JSON:
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        raise UntranslatableError(node, "only literals can be written") from None
    if not _is_plain(value):
        text = "the values that can be written are texts, whole numbers, True, False, and lists and dicts of them"
        raise UntranslatableError(node, text)
    return value


def _is_plain(value: Any) -> bool:
    match value:
        case dict():
            return all(
                isinstance(key, str) and _is_plain(key) and _is_plain(each) for key, each in value.items()
            )
        case list():
            return all(map(_is_plain, value))
        case str():
            return not any("\ud800" <= character <= "\udfff" for character in value)
        case int():
            return abs(value) < _WHOLE_NUMBERS
    return False


def _cel(value: JSON) -> str:
    match value:
        case dict():
            return f"{{{', '.join(f'{_text(key)}: dyn({_cel(each)})' for key, each in value.items())}}}"
        case list():
            return f"[{', '.join(f'dyn({_cel(each)})' for each in value)}]"
        case _:
            return json.dumps(value, ensure_ascii=False)
