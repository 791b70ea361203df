"""What the API server says of the variables of a policy.

Source: ``k8s.io/kubernetes/pkg/apis/admissionregistration/validation/validation.go`` ``validateVariable``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pratique.field_errors import FieldError, FieldPath, invalid, required

if TYPE_CHECKING:
    from pratique.configurations.policies import Variable
    from pratique.configurations.policy_expressions import PolicyExpressions

_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_RESERVED = frozenset(
    [
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ]
)


def validate_variables(
    variables: tuple[Variable, ...], path: FieldPath, expressions: PolicyExpressions
) -> list[FieldError]:
    """Check the variables of a policy. What is compiled after one of them knows it, and its type."""
    errors = []
    for index, variable in enumerate(variables):
        errors += _validate_name(variable.name, path / index / "name")
        place = path / index / "expression"
        if not variable.expression.strip():
            errors.append(required(place, "expression is not specified"))
            continue
        messages = expressions.add_variable(variable)
        errors += [invalid(place, variable.expression, message) for message in messages]
    return errors


def _validate_name(name: str, path: FieldPath) -> list[FieldError]:
    if not name.strip():
        return [required(path, "name is not specified")]
    if not _IDENTIFIER.fullmatch(name) or name in _RESERVED:
        return [invalid(path, name, "must be a valid CEL identifier")]
    return []
