"""What the API server says of the mutations of a policy.

Source: ``k8s.io/kubernetes/pkg/apis/admissionregistration/validation/validation.go`` ``validateMutation``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.field_errors import FieldError, FieldPath, invalid, not_supported, required

if TYPE_CHECKING:
    from pratique.configurations.policies import Mutation, PatchExpression
    from pratique.configurations.policy_expressions import PolicyExpressions

APPLY_CONFIGURATION, JSON_PATCH = "ApplyConfiguration", "JSONPatch"
"""The types of patches."""

_FIELDS = {APPLY_CONFIGURATION: "applyConfiguration", JSON_PATCH: "jsonPatch"}


def validate_mutations(
    mutations: tuple[Mutation, ...], path: FieldPath, expressions: PolicyExpressions
) -> list[FieldError]:
    """Check the mutations of a policy: there must be one."""
    if not mutations:
        return [required(path, "mutations must contain at least one item")]
    return [
        error
        for index, mutation in enumerate(mutations)
        for error in _validate_mutation(mutation, path / index, expressions)
    ]


def _validate_mutation(
    mutation: Mutation, path: FieldPath, expressions: PolicyExpressions
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
    kind: str, patch: PatchExpression | None, path: FieldPath, expressions: PolicyExpressions
) -> list[FieldError]:
    if patch is None:
        return [required(path, f"must be specified when patchType is {kind}")]
    trimmed, place = patch.expression.strip(), path / "expression"
    if not trimmed:
        return [required(place)]
    return [invalid(place, trimmed, message) for message in expressions.check_mutation(kind, trimmed)]
