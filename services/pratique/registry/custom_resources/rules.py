"""Validation rules of custom resources, evaluated: ``x-kubernetes-validations``.

Rules are compiled when an object first has the value that they are about. Source:
``k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/validation.go``.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping

import msgspec

from pratique.apimachinery.field_errors import OMITTED, FieldError, duplicate, forbidden, invalid, required
from pratique.apimachinery.json_values import JSON
from pratique.apimachinery.statuses import go_quoted
from pratique.cel import costs
from pratique.cel.activation import KeyedList, KeyedVariables
from pratique.cel.declarations import field_name
from pratique.cel.errors import CompilationError, EvaluationError
from pratique.cel.expressions import Expression
from pratique.cel.values import OPTIONAL_NONE, Optional, Value, optional_of
from pratique.registry.custom_resources.correlation import Correlation, MapList
from pratique.registry.custom_resources.rule_compilation import CompiledRule, compile_rule
from pratique.registry.custom_resources.rule_types import (
    OLD_SELF,
    SELF,
    Conversion,
    conversion,
    declared_type,
    has_float,
    invalid_parts,
    keyed_lists,
)
from pratique.registry.custom_resources.structural import Structural
from pratique.registry.custom_resources.value_validation import field_path, shown


class _Ratchet(msgspec.Struct, frozen=True):
    """What of an update is unchanged: ``ratchetingOptions``."""

    current: Correlation | None = None
    parent: Correlation | None = None
    """The nearest value around this one that has a stored counterpart."""

    @property
    def drops_errors(self) -> bool:
        found = self.current or self.parent
        return found is not None and found.is_unchanged

    def key(self, name: str) -> _Ratchet:
        if self.current is None:
            return self
        if self.parent is None and name in ("apiVersion", "kind"):
            return _Ratchet()
        return _Ratchet(self.current.key(name), self.current)

    def index(self, index: int) -> _Ratchet:
        return self if self.current is None else _Ratchet(self.current.index(index), self.current)


class _Target(msgspec.Struct, frozen=True):
    """A value that rules are about."""

    path: str
    value: JSON
    old: JSON
    """The stored value; None if there is none."""
    ratchet: _Ratchet

    def member(self, name: str, path: str) -> _Target:
        """A member of an object."""
        old = self.old.get(name) if isinstance(self.old, dict) else None
        return _Target(path, self.value[name], old, self.ratchet.key(name))

    def item(self, index: int, old_items: MapList) -> _Target:
        """An item of a list."""
        value = self.value[index]
        return _Target(f"{self.path}[{index}]", value, old_items.find(value), self.ratchet.index(index))


class _BudgetUsedUpError(Exception):
    """No further rules are evaluated."""


class RuleResults:
    """What the rules of an object found."""

    def __init__(self, *, has_floats: bool = False) -> None:
        self.has_floats = has_floats
        """Whether there are floats in the object, which may be where integers belong."""
        self.errors: list[FieldError] = []
        self.warnings: list[str] = []
        """The errors of unchanged values."""
        self.budget = costs.RUNTIME_COST_BUDGET

    def fail(self, path: str, value: JSON, text: str) -> None:
        """Add an error of a rule that could not be evaluated."""
        self.errors.append(invalid(field_path(path), shown(value), text))

    def stop(self, path: str, value: JSON, text: str) -> None:
        """Add an error, and evaluate no further rules.

        Raises:
            _BudgetUsedUpError: always.
        """
        self.fail(path, value, text)
        raise _BudgetUsedUpError


_OUT_OF_BUDGET = (
    "validation failed due to running out of cost budget, no further validation rules will be run"
)
_COST_LIMIT = "operation cancelled: actual cost limit exceeded"
_MAX_MESSAGE_BYTES = 5 * 1024
"""``MaxEvaluatedMessageExpressionSizeBytes`` of ``k8s.io/apiserver/pkg/apis/cel/config.go``."""


class RuleValidator:
    """The rules of one node of a schema, and of the nodes below it."""

    def __init__(self, validation: Structural, schema: Structural, *, is_root: bool) -> None:
        """Take the rules of ``validation``, which is the schema itself or a conjunct of its ``allOf``."""
        self._rules = validation.rules
        self._schema = schema
        self._is_root = is_root
        self._items = _inner_validator(validation.items, schema.items)
        self._properties = _property_validators(validation, schema)
        self._additional = _inner_validator(validation.additional, schema.additional)
        clauses = (rule_validator(clause, schema, is_root=is_root) for clause in validation.all_of)
        self._all_of = [clause for clause in clauses if clause is not None]
        self._convert = conversion(schema)

    @property
    def has_rules(self) -> bool:
        """Whether there is a rule anywhere."""
        return bool(self._rules or self._items or self._properties or self._additional or self._all_of)

    def validate(self, value: JSON, old: JSON, correlation: Correlation | None) -> RuleResults:
        """Evaluate the rules of an object; ``correlation`` is None unless it is an update."""
        results = RuleResults(has_floats=has_float(value) or has_float(old))
        with contextlib.suppress(_BudgetUsedUpError):
            self.evaluate(results, _Target("", value, old, _Ratchet(correlation)))
        return results

    @functools.cached_property
    def _strict_conversion(self) -> Conversion | None:
        return conversion(self._schema, has_floats=True)

    @functools.cached_property
    def _compiled(self) -> tuple[CompiledRule, ...]:
        return tuple(compile_rule(rule, self._schema, is_root=self._is_root) for rule in self._rules)

    def evaluate(self, results: RuleResults, target: _Target) -> None:
        """Evaluate the rules of a value and of the values inside it.

        Raises:
            _BudgetUsedUpError: no further rules are to be evaluated.
        """
        value = target.value
        if value is None:
            return
        if self._rules:
            self._evaluate_own(results, target)
        for clause in self._all_of:
            ratchet = _Ratchet(parent=target.ratchet.parent)
            clause.evaluate(results, msgspec.structs.replace(target, ratchet=ratchet))
        if isinstance(value, list):
            if self._items is not None:
                old_items = MapList(self._schema, target.old)
                for index in range(len(value)):
                    self._items.evaluate(results, target.item(index, old_items))
        elif isinstance(value, dict):
            self._evaluate_members(results, target)

    def _evaluate_members(self, results: RuleResults, target: _Target) -> None:
        value, path = target.value, target.path
        if self._additional is not None:
            for name in sorted(value):
                self._additional.evaluate(results, target.member(name, f"{path}[{name}]"))
        for name, validator in self._properties.items():
            if name in value:
                validator.evaluate(results, target.member(name, f"{path}.{name}" if path else name))

    def _evaluate_own(self, results: RuleResults, target: _Target) -> None:
        path, type_ = target.path, self._schema.type
        try:
            compiled = self._compiled
        except CompilationError as error:
            results.fail(path, type_, f"rule compiler initialization error: {error}")
            return
        if results.budget <= 0:
            results.stop(path, type_, _OUT_OF_BUDGET)
        convert = self._strict_conversion if results.has_floats else self._convert
        activation, optional_activation = _activations(target, convert)
        if any(rule.compares_lists for rule in compiled):
            activation, optional_activation = map(self._with_keyed_lists, (activation, optional_activation))
        for rule in compiled:
            if rule.error:
                results.fail(path, type_, f"rule compile error: {rule.error}")
            elif rule.expression is not None and (
                target.old is not None or not rule.uses_old or rule.optional_old
            ):
                variables = optional_activation if rule.optional_old else activation
                if not self._holds(rule, rule.expression, variables, results, path):
                    self._refuse(rule, variables, results, target)

    def _with_keyed_lists(self, variables: dict[str, Value]) -> dict[str, Value]:
        def find() -> Iterator[KeyedList]:
            for value in variables.values():
                inner = value.value if isinstance(value, Optional) else value
                yield from keyed_lists(inner, self._schema)

        return KeyedVariables(variables, find)

    def _holds(
        self,
        rule: CompiledRule,
        expression: Expression,
        variables: Mapping[str, Value],
        results: RuleResults,
        path: str,
    ) -> bool:
        """Evaluate a rule. An error of the evaluation is added to the results, and the rule counts as true."""
        found, cost = expression.evaluate_with_cost(variables)
        type_ = self._schema.type
        if cost > results.budget:
            results.stop(path, type_, _OUT_OF_BUDGET)
        results.budget -= cost
        if not isinstance(found, EvaluationError):
            return found is True
        text = str(found)
        unreadable = invalid_parts(variables[SELF]) if text.startswith("no such overload") else []
        if unreadable:
            results.fail(path, type_, f"{unreadable[0].problem} evaluating rule: {rule.description}")
        elif text.startswith("no such overload"):
            problem = (
                "call arguments did not match a supported operator, function or macro signature for rule"
            )
            results.fail(path, type_, f"'{text}': {problem}: {rule.description}")
        elif text.startswith(_COST_LIMIT):
            problem = "no further validation rules will be run due to call cost exceeds limit for rule"
            results.stop(path, type_, f"'{text}': {problem}: {rule.description}")
        else:
            results.fail(path, type_, f"{text} evaluating rule: {rule.description}")
        return True

    def _refuse(
        self, rule: CompiledRule, variables: Mapping[str, Value], results: RuleResults, target: _Target
    ) -> None:
        """Add the error of a rule that is false, or a warning if the value is unchanged."""
        type_ = self._schema.type
        path = (f"{target.path}.{rule.field}" if target.path else rule.field) if rule.field else target.path
        detail, problem = rule.message, ""
        if rule.message_expression is not None:
            found, problem = _message(rule, rule.message_expression, variables, results)
            detail = found or detail
        if problem:
            error = invalid(field_path(path), type_, problem)
        else:
            bad = OMITTED if type_ in ("object", "array") else shown(target.value)
            error = _error_for_reason(rule.written.get("reason"), path, bad, detail)
        if not rule.uses_old and target.ratchet.drops_errors:
            results.warnings.append(str(error))
        else:
            results.errors.append(error)
        if problem:
            raise _BudgetUsedUpError


def _activations(target: _Target, convert: Conversion | None) -> tuple[dict[str, Value], dict[str, Value]]:
    """The variables of a rule, and of one whose ``oldSelf`` is optional."""
    value = target.value if convert is None else convert(target.value)
    if target.old is None:
        return {SELF: value}, {SELF: value, OLD_SELF: OPTIONAL_NONE}
    old = target.old if convert is None else convert(target.old)
    return {SELF: value, OLD_SELF: old}, {SELF: value, OLD_SELF: optional_of(old)}


def _message(
    rule: CompiledRule, expression: Expression, variables: Mapping[str, Value], results: RuleResults
) -> tuple[str, str]:
    """Evaluate a message expression. Gives the message, empty if there is none, and why no more rules are evaluated."""
    found, cost = expression.evaluate_with_cost(variables)
    if cost > results.budget:
        problem = "running out of cost budget, no further validation rules will be run"
        return "", f"messageExpression evaluation failed due to {problem}"
    if isinstance(found, EvaluationError) and str(found).startswith(_COST_LIMIT):
        source = rule.written["messageExpression"]
        problem = (
            "no further validation rules will be run due to call cost exceeds limit for messageExpression"
        )
        return "", f"{problem}: {go_quoted(source)}"
    results.budget -= cost
    if not isinstance(found, str):
        return "", ""
    text = found.strip()
    return ("" if "\n" in text or len(text.encode()) > _MAX_MESSAGE_BYTES else text), ""


def _error_for_reason(reason: JSON, path: str, value: JSON, detail: str) -> FieldError:
    """The error of a rule with a reason: ``fieldErrorForReason``."""
    at = field_path(path)
    match reason:
        case "FieldValueForbidden":
            return forbidden(at, detail)
        case "FieldValueRequired":
            return required(at, detail)
        case "FieldValueDuplicate":
            return duplicate(at, value)
        case _:
            return invalid(at, value, detail)


def _inner_validator(validation: Structural | None, schema: Structural | None) -> RuleValidator | None:
    if validation is None or schema is None:
        return None
    return rule_validator(validation, schema, is_root=schema.is_embedded)


def _property_validators(validation: Structural, schema: Structural) -> dict[str, RuleValidator]:
    validators = {}
    for name, child in sorted(validation.properties.items()):
        inner = schema.properties.get(name)
        if inner is None or (
            field_name(name) is not None and declared_type(inner, is_root=inner.is_embedded) is None
        ):
            continue
        validator = rule_validator(child, inner, is_root=inner.is_embedded)
        if validator is not None:
            validators[name] = validator
    return validators


def rule_validator(validation: Structural, schema: Structural, *, is_root: bool) -> RuleValidator | None:
    """The rules of a schema; None if it has none."""
    validator = RuleValidator(validation, schema, is_root=is_root)
    return validator if validator.has_rules else None
