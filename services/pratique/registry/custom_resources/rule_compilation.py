"""Compile the rules of custom resources: ``x-kubernetes-validations``.

Source: ``k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/compilation.go``.
"""

from __future__ import annotations

import re

import msgspec

from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.patterns import pattern
from pratique.cel.declarations import restore_type_paths
from pratique.cel.environments import Environment
from pratique.cel.errors import CompilationError
from pratique.cel.expressions import Expression, compile_expression
from pratique.registry.custom_resources.field_references import FieldReferenceError, resolve_field
from pratique.registry.custom_resources.rule_types import (
    OLD_SELF,
    compares_lists,
    has_keyed_lists,
    rule_environment,
)
from pratique.registry.custom_resources.structural import Structural

_QUOTED = pattern(
    r"""//[^\n]*|[bB]?[rR]?(?:\"{3}.*?\"{3}|'{3}.*?'{3})|[bB]?[rR](?:"[^"]*"|'[^']*')"""
    r"""|[bB]?(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')""",
    re.DOTALL,
)
_OLD_SELF = pattern(rf"(?<![\w.]){OLD_SELF}\b")


def uses_old_self(source: str) -> bool:
    """Whether a rule is about a change, and so has no meaning for a new value."""
    return OLD_SELF in source and _OLD_SELF.search(_QUOTED.sub("''", source)) is not None


class CompiledRule(msgspec.Struct, frozen=True):
    """One rule: with its expression, or the error of compiling it, or neither if it is empty."""

    written: JSONObject
    expression: Expression | None = None
    error: str = ""
    message_expression: Expression | None = None
    message_error: str = ""
    """Why the message expression does not compile; the message stands in for it then."""
    uses_old: bool = False
    optional_old: bool = False
    field: str = ""
    """The field that its errors are about, relative to the value."""
    compares_lists: bool = False
    """Whether it may compare or add lists that are sets or maps."""

    @property
    def description(self) -> str:
        """How errors call the rule: ``ruleErrorString``."""
        return str(self.written.get("message") or self.written.get("rule") or "").strip()

    @property
    def message(self) -> str:
        """What is wrong with a value that the rule refuses: ``ruleMessageOrDefault``."""
        text = self.written.get("message")
        return text.strip() if text else f"failed rule: {self.description}"


def compile_rule(written: JSONObject, schema: Structural, *, is_root: bool) -> CompiledRule:
    """Compile a rule of a schema. Errors are part of the result."""
    source: str = written.get("rule") or ""
    if not source.strip():
        return CompiledRule(written)
    optional_old = bool(written.get("optionalOldSelf"))
    environment = rule_environment(schema, is_root=is_root, optional_old=optional_old)
    if environment is None:
        raise CompilationError("failed to convert to declType for CEL validation rules")
    try:
        expression = compile_expression(source, environment)
    except CompilationError as error:
        return CompiledRule(written, error=restore_type_paths(str(error)))
    if expression.result_type != "bool":
        return CompiledRule(written, error="cel expression must evaluate to a bool")
    message, message_error = _compile_message(written.get("messageExpression") or "", environment)
    try:
        field = resolve_field(written.get("fieldPath") or "", schema)[0]
    except FieldReferenceError:
        field = ""
    keyed = has_keyed_lists(schema) and compares_lists(source, environment)
    if keyed:  # its code takes lists for lists
        expression = expression.without_code()
    old = uses_old_self(source)
    return CompiledRule(written, expression, "", message, message_error, old, optional_old, field, keyed)


def _compile_message(source: str, environment: Environment) -> tuple[Expression | None, str]:
    """Compile a message expression, if there is one, or tell why it does not compile."""
    if not source:
        return None, ""
    try:
        message = compile_expression(source, environment)
    except CompilationError as error:
        return None, f"messageExpression {restore_type_paths(str(error))}"
    if message.result_type != "string":
        return None, "messageExpression must evaluate to a string"
    return message, ""
