"""Mutations: the patches of one MutatingAdmissionPolicy, made by its expressions and applied one after another.

Sources, below ``k8s.io/apiserver/pkg/admission/plugin/policy/mutating``: ``compilation.go``, ``dispatcher.go``
``dispatchOne``, and ``patch/{json_patch,smd}.go``.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pratique.admission_policies.evaluations import evaluate_all
from pratique.cel import costs
from pratique.cel.budgets import Budget
from pratique.cel.errors import EvaluationError
from pratique.configurations.mutation_validations import APPLY_CONFIGURATION
from pratique.errors import RefusalError
from pratique.json_values import Document
from pratique.policy_patches import PolicyPatchError, apply_configuration, apply_json_patch
from pratique.resources import built_in
from pratique.schemas import schema_of
from pratique.statuses import go_quoted, internal_error, service_unavailable
from pratique.typed_decoding import TypedDecodingError, decode_changed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pratique.admission_policies.sights import Limits, Sight
    from pratique.cel.expressions import Expression
    from pratique.cel.policy_environments import PolicyCompiler
    from pratique.cel.values import Value
    from pratique.configurations.policies import MutatingSpec, Mutation
    from pratique.json_values import JSON, JSONObject
    from pratique.kinds import GroupVersionKind
    from pratique.reviews import Review
    from pratique.schemas import Structure

_SCHEME = "pkg/api/legacyscheme/scheme.go:30"
"""What the API server calls the place where it knows its own kinds from."""
_TYPE = ("apiVersion", "kind")


@dataclasses.dataclass(frozen=True, slots=True)
class Patcher:
    """One mutation, ready to be made."""

    expression: Expression
    configures: bool
    """Whether the expression makes an apply configuration; else it makes a JSON Patch."""
    budget: int = costs.PER_POLICY
    """What the expression, and the variables that it asks for, may cost: each mutation has all of it."""

    def patch(
        self,
        sight: Sight,
        params: JSON,
        variables: Mapping[str, Expression],
        limits: Limits,
        asked: GroupVersionKind,
    ) -> JSONObject:
        """Give the object as the mutation leaves it; nothing is changed in place.

        Variables are evaluated anew for each mutation, as they see what the one before it did.

        Args:
            sight: The object as it is now, in the version that the policy matched.
            params: The parameter.
            variables: Those of the policy.
            limits: How long, and with how much patience, the expression is evaluated.
            asked: The object's kind in the request.

        Raises:
            PolicyPatchError: what the expression gives cannot be applied; the failure policy decides.
            EvaluationError: it has no value; the failure policy decides.
            OutOfBudgetError: it costs too much; the failure policy decides.
            RefusalError: the kind is not known, 503, or what comes out is none of it, 500, whatever the failure
                policy says.
            SlowEvaluationError: it takes more than there is patience for.
        """
        review, is_custom = sight.review, built_in().for_resource(sight.review.resource) is None
        schema = _find_schema(review)
        value = self._evaluate(sight, params, variables, limits)
        if self.configures:
            patched = apply_configuration(value, review.object, _merging(schema, review))
        else:
            # Custom resources are decoded without a schema: what it does not have is dropped later, or kept.
            fields = None if is_custom else schema
            patched = _typed(apply_json_patch(value, review.object, fields), review.object)
            _check_types(review, patched)
        if not is_custom:
            _check_version(review.kind, asked)
        return patched

    def _evaluate(
        self, sight: Sight, params: JSON, variables: Mapping[str, Expression], limits: Limits
    ) -> Value:
        seen = sight.for_expressions(params, variables, limits, has_authorizer=True)
        (found,) = evaluate_all((self.expression,), seen, Budget(self.budget), limits)
        if isinstance(found, EvaluationError):
            raise found
        return found


def compile_mutations(spec: MutatingSpec, compiler: PolicyCompiler) -> tuple[Patcher, ...]:
    """Compile what a MutatingAdmissionPolicy does, in its order.

    Raises:
        CompilationError: an expression does not compile, which loading it would have told.
    """
    return tuple(_compile(mutation, compiler) for mutation in spec.mutations)


def _compile(mutation: Mutation, compiler: PolicyCompiler) -> Patcher:
    configures = mutation.patch_type == APPLY_CONFIGURATION
    written = mutation.apply_configuration if configures else mutation.json_patch
    if written is None:
        raise ValueError(f"a mutation of type {mutation.patch_type} has no expression, a required field")
    kind = "Object" if configures else "list(JSONPatch)"
    return Patcher(compiler.compile(written.expression, kind, has_patches=True), configures)


def _find_schema(review: Review) -> Structure | None:
    """The schema of the object; None where the API server serves the version and has no schema of the kind in it."""
    kind = review.kind
    found = schema_of(kind, review.cluster)
    if found is not None:
        return found
    version = (kind.group, kind.version)
    if any((one.kind.group, one.kind.version) == version for one in review.cluster.resources):
        return None
    raise RefusalError(
        service_unavailable(
            f"Resource kind {kind} not found. There can be a delay between when CustomResourceDefinitions are "
            "created and when they are available."
        )
    )


def _merging(schema: Structure | None, review: Review) -> Structure:
    if schema is None:
        text = "error applying patch: failed to convert patch object to typed object"
        raise PolicyPatchError(f"{text}: no corresponding type for {review.kind}")
    return schema


def _typed(patched: JSONObject, stored: JSONObject) -> JSONObject:
    """Read a patched object as one of the type that it had: a patch may leave the type out, not change it."""
    had = {name: stored[name] for name in _TYPE if stored.get(name)}
    for name, value in had.items():
        if (patched.get(name) or value) != value:
            raise RefusalError(internal_error(f"the patched object has another {name}"))
    return patched if patched.items() >= had.items() else patched | had


def _check_types(review: Review, patched: JSONObject) -> None:
    """Fail as the API server does where what a patch brings is not of its field's type, whatever the policy says."""
    try:
        decode_changed(review.kind, review.object, Document.from_data(patched))
    except TypedDecodingError as error:
        raise RefusalError(internal_error(str(error))) from None


def _check_version(seen: GroupVersionKind, asked: GroupVersionKind) -> None:
    """Fail as the API server does for built-in kinds seen in another version than the request's.

    After each mutation it converts the object to that version at once, for which it would have to go by the version
    that all others are converted by: it knows no direct way between two.
    """
    if seen.api_version == asked.api_version:
        return
    found = f"{seen.version}.{seen.kind}"
    if seen.group != asked.group:
        text = f"{found} is not suitable for converting to {go_quoted(asked.api_version)} in scheme"
        raise PolicyPatchError(f"{text} {go_quoted(_SCHEME)}")
    raise PolicyPatchError(f"converting ({found}) to ({asked.version}.{asked.kind}): unknown conversion")
