"""Validate the CEL expressions of webhooks and policies, in the API server's words.

CEL is imported only when the first expression compiles: it takes a tenth of a second, and most chains have none.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from pratique.apimachinery import names
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.field_errors import (
    FieldError,
    FieldPath,
    duplicate,
    internal,
    invalid,
    not_supported,
    required,
    too_many,
)
from pratique.configuration.admissionregistration import (
    AuditAnnotation,
    MatchCondition,
    MutatingAdmissionPolicy,
    Mutation,
    PatchExpression,
    PolicyDocument,
    ValidatingAdmissionPolicy,
    Validation,
    Variable,
)

if TYPE_CHECKING:
    from pratique.cel.policy_compiler import PolicyCompiler


def check_match_condition(expression: str) -> Sequence[str]:
    """Compile an expression of ``matchConditions``. Gives its errors, if any."""
    from pratique.cel.environments import MATCH_CONDITION_ENVIRONMENT  # noqa: PLC0415 - see the module
    from pratique.cel.errors import CompilationError  # noqa: PLC0415 - likewise
    from pratique.cel.expressions import compile_expression  # noqa: PLC0415 - likewise

    try:
        compile_expression(expression, MATCH_CONDITION_ENVIRONMENT, "bool")
    except CompilationError as error:
        return [str(error)]
    return []


ExpressionCheck: TypeAlias = Callable[[str], Sequence[str]]
"""Compiles a CEL expression that must be a boolean, and gives its errors, if any."""

_MAXIMUM = 64


def validate_match_conditions(
    conditions: tuple[MatchCondition, ...], path: FieldPath, check_expression: ExpressionCheck | None
) -> list[FieldError]:
    """Validate the match conditions of a webhook or policy.

    Args:
        conditions: The conditions.
        path: The path of their field.
        check_expression: Compiles an expression; None skips expressions.
    """
    errors = [too_many(path, len(conditions), _MAXIMUM)] if len(conditions) > _MAXIMUM else []
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        place = path / index
        errors += _validate_expression(condition.expression, place / "expression", check_expression)
        errors += _validate_name(condition.name, place / "name")
        if condition.name in seen:
            errors.append(duplicate(place / "name", condition.name))
        if condition.name:
            seen.add(condition.name)
    return errors


def _validate_expression(
    expression: str, path: FieldPath, check_expression: ExpressionCheck | None
) -> list[FieldError]:
    trimmed = expression.strip()
    if not trimmed:
        return [required(path)]
    messages = check_expression(trimmed) if check_expression else ()
    return [_compilation_error(path, trimmed, message) for message in messages]


def _compilation_error(path: FieldPath, expression: str, message: str) -> FieldError:
    """The error of an expression that does not compile; one that cannot be planned is an internal error."""
    if message.startswith(_NOT_PLANNED):
        return internal(path, message)
    return invalid(path, expression, message)


_NOT_PLANNED = "program instantiation failed: "


def _validate_name(name: str, path: FieldPath) -> list[FieldError]:
    if not name:
        return [required(path)]
    return [invalid(path, name, message) for message in names.check_qualified_name(name)]


def validate_variables(
    variables: tuple[Variable, ...], path: FieldPath, expressions: PolicyExpressionChecker
) -> list[FieldError]:
    """Validate the variables of a policy. Expressions compiled later see each variable with its type."""
    errors = []
    for index, variable in enumerate(variables):
        errors += _validate_variable_name(variable.name, path / index / "name")
        place = path / index / "expression"
        if not variable.expression.strip():
            errors.append(required(place, "expression is not specified"))
            continue
        messages = expressions.add_variable(variable)
        errors += [_compilation_error(place, variable.expression, message) for message in messages]
    return errors


def _validate_variable_name(name: str, path: FieldPath) -> list[FieldError]:
    from pratique.cel.declarations import IDENTIFIER, RESERVED_WORDS  # noqa: PLC0415 - see the module

    if not name.strip():
        return [required(path, "name is not specified")]
    if not IDENTIFIER.fullmatch(name) or name in RESERVED_WORDS:
        return [invalid(path, name, "must be a valid CEL identifier")]
    return []


APPLY_CONFIGURATION, JSON_PATCH = "ApplyConfiguration", "JSONPatch"
"""The values of ``patchType``."""

_FIELDS = {APPLY_CONFIGURATION: "applyConfiguration", JSON_PATCH: "jsonPatch"}


def validate_mutations(
    mutations: tuple[Mutation, ...], path: FieldPath, expressions: PolicyExpressionChecker
) -> list[FieldError]:
    """Validate the mutations of a policy, which needs at least one."""
    if not mutations:
        return [required(path, "mutations must contain at least one item")]
    return [
        error
        for index, mutation in enumerate(mutations)
        for error in _validate_mutation(mutation, path / index, expressions)
    ]


def _validate_mutation(
    mutation: Mutation, path: FieldPath, expressions: PolicyExpressionChecker
) -> list[FieldError]:
    kind = mutation.patch_type
    if not kind:
        return [required(path / "patchType")]
    if kind not in _FIELDS:
        return [not_supported(path / "patchType", kind, tuple(_FIELDS))]
    patches = {APPLY_CONFIGURATION: mutation.apply_configuration, JSON_PATCH: mutation.json_patch}
    wanted = patches.pop(kind)
    errors = _validate_patch(kind, wanted, path / _FIELDS[kind], expressions)
    for other, patch in patches.items():
        if patch is not None:
            field = _FIELDS[other]
            text = f"must not be specified when patchType is {kind}"
            errors.append(invalid(path / field, f"{{{field}}}", text))
    return errors


def _validate_patch(
    kind: str, patch: PatchExpression | None, path: FieldPath, expressions: PolicyExpressionChecker
) -> list[FieldError]:
    if patch is None:
        return [required(path, f"must be specified when patchType is {kind}")]
    trimmed, place = patch.expression.strip(), path / "expression"
    if not trimmed:
        return [required(place)]
    return [_compilation_error(place, trimmed, text) for text in expressions.check_mutation(kind, trimmed)]


_MUTATIONS = {APPLY_CONFIGURATION: "Object", JSON_PATCH: "list(JSONPatch)"}
"""The result types of mutations' expressions, by ``patchType``."""


class PolicyExpressionChecker:
    """Compiles the expressions of one policy to find their errors. Expressions see the variables added before."""

    def __init__(self, document: PolicyDocument) -> None:
        """Begin without variables."""
        self._has_params = document.spec.param_kind is not None
        # A ValidatingAdmissionPolicy without variables does not even have the CEL variable `variables`.
        self._composes = bool(document.spec.variables) or isinstance(document, MutatingAdmissionPolicy)

    @functools.cached_property
    def _compiler(self) -> PolicyCompiler:
        from pratique.cel.policy_compiler import PolicyCompiler  # noqa: PLC0415 - see the module

        return PolicyCompiler(self._has_params, {} if self._composes else None)

    def check_match_condition(self, expression: str) -> Sequence[str]:
        """The errors of a match condition, which sees no variables."""
        return _compilation_errors(lambda: self._compiler.compile(expression, "bool", has_variables=False))

    def add_variable(self, variable: Variable) -> Sequence[str]:
        """Add a variable, whose expression sees those added before. Gives the expression's errors."""
        return _compilation_errors(lambda: self._compiler.add_variable(variable.name, variable.expression))

    def check_validation(self, expression: str) -> Sequence[str]:
        """The errors of a validation's expression."""
        return _compilation_errors(lambda: self._compiler.compile(expression, "bool"))

    def check_message(self, expression: str) -> Sequence[str]:
        """The errors of a ``messageExpression``, which sees no authorizer."""
        return _compilation_errors(lambda: self._compiler.compile(expression, "string", has_authorizer=False))

    def check_annotation(self, expression: str) -> Sequence[str]:
        """The errors of a ``valueExpression``."""
        return _compilation_errors(lambda: self._compiler.compile(expression, "string", "null_type"))

    def check_mutation(self, kind: str, expression: str) -> Sequence[str]:
        """The errors of a mutation's expression, for its ``patchType``."""
        return _compilation_errors(
            lambda: self._compiler.compile(expression, _MUTATIONS[kind], has_patches=True)
        )


def _compilation_errors(compile_expressions: Callable[[], object]) -> Sequence[str]:
    try:
        compile_expressions()
    except InputError as error:
        return [str(error)]
    return []


_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_MAXIMUM_ANNOTATIONS = 20
_MAXIMUM_LENGTH = 5 * 1024  # bytes of the expression of an annotation
_NOTHING = "validations or auditAnnotations must contain at least one item"


def validate_validations(
    document: ValidatingAdmissionPolicy, path: FieldPath, expressions: PolicyExpressionChecker
) -> list[FieldError]:
    """Validate validations and audit annotations; a policy needs at least one of either."""
    spec = document.spec
    if not spec.validations and not spec.audit_annotations:
        return [required(path / "validations", _NOTHING), required(path / "auditAnnotations", _NOTHING)]
    errors = []
    for index, validation in enumerate(spec.validations):
        errors += _validate_validation(validation, path / "validations" / index, expressions)
    return errors + _validate_annotations(document, path / "auditAnnotations", expressions)


def _validate_validation(
    validation: Validation, path: FieldPath, expressions: PolicyExpressionChecker
) -> list[FieldError]:
    errors = []
    expression, place = validation.expression, path / "expression"
    if not expression.strip():
        errors.append(required(place, "expression is not specified"))
    else:
        errors += [
            _compilation_error(place, expression, text) for text in expressions.check_validation(expression)
        ]
    errors += _validate_message_expression(
        validation.message_expression, path / "messageExpression", expressions
    )
    errors += _validate_message(validation.message, path / "message")
    if validation.reason is not None and validation.reason not in _REASONS:
        errors.append(not_supported(path / "reason", validation.reason, _REASONS))
    return errors


def _validate_message_expression(
    expression: str, path: FieldPath, expressions: PolicyExpressionChecker
) -> list[FieldError]:
    if not expression:
        return []
    if not expression.strip():
        return [invalid(path, expression, "must be non-empty if specified")]
    return [_compilation_error(path, expression, text) for text in expressions.check_message(expression)]


def _validate_message(message: str, path: FieldPath) -> list[FieldError]:
    trimmed = message.strip()
    if message and not trimmed:
        return [invalid(path, message, "must be non-empty if specified")]
    if "\n" in trimmed or "\r" in trimmed:
        return [invalid(path, message, "must not contain line breaks")]
    return []


def _validate_annotations(
    document: ValidatingAdmissionPolicy, path: FieldPath, expressions: PolicyExpressionChecker
) -> list[FieldError]:
    annotations, errors = document.spec.audit_annotations, []
    if len(annotations) > _MAXIMUM_ANNOTATIONS:
        detail = f"must not have more than {_MAXIMUM_ANNOTATIONS} auditAnnotations"
        errors.append(invalid(path, msgspec.to_builtins(annotations), detail))
    seen: set[str] = set()
    for index, annotation in enumerate(annotations):
        place = path / index
        errors += _validate_key(document.metadata.name, annotation.key, place / "key")
        errors += _validate_value(annotation, place / "valueExpression", expressions)
        if annotation.key in seen:
            errors.append(duplicate(place / "key", annotation.key))
        seen.add(annotation.key)
    return errors


def _validate_key(policy: str, key: str, path: FieldPath) -> list[FieldError]:
    if not policy:
        return [invalid(path, key, "requires metadata.name be non-empty")]
    name = f"{policy}/{key}"
    return [invalid(path, name, message) for message in names.check_qualified_name(name)]


def _validate_value(
    annotation: AuditAnnotation, path: FieldPath, expressions: PolicyExpressionChecker
) -> list[FieldError]:
    trimmed = annotation.value_expression.strip()
    if not trimmed:
        return [required(path, "valueExpression is not specified")]
    if len(trimmed.encode()) > _MAXIMUM_LENGTH:
        return [required(path, f"must not exceed {_MAXIMUM_LENGTH} bytes in length")]
    messages = expressions.check_annotation(trimmed)
    return [_compilation_error(path, annotation.value_expression, message) for message in messages]
