"""What the API server says of ``matchConditions``.

Source: ``k8s.io/kubernetes/pkg/apis/admissionregistration/validation/validation.go``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from pratique import names
from pratique.field_errors import FieldError, FieldPath, duplicate, invalid, required, too_many

if TYPE_CHECKING:
    from pratique.configurations.webhooks import MatchCondition

ExpressionCheck: TypeAlias = Callable[[str], Sequence[str]]
"""Says what is wrong with a CEL expression that must be a boolean; nothing where it is right."""

_MAXIMUM = 64


def validate_match_conditions(
    conditions: tuple[MatchCondition, ...], path: FieldPath, check_expression: ExpressionCheck | None
) -> list[FieldError]:
    """Check the conditions of one webhook.

    Args:
        conditions: The conditions.
        path: Where they stand.
        check_expression: Compiles an expression; None leaves expressions unread.
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
    return [invalid(path, trimmed, message) for message in messages]


def _validate_name(name: str, path: FieldPath) -> list[FieldError]:
    if not name:
        return [required(path)]
    return [invalid(path, name, message) for message in names.check_qualified_name(name)]
