"""The patches of one MutatingAdmissionPolicy, made by its expressions and applied one after another."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from pratique.admission.reviews import Review
from pratique.apimachinery.errors import PratiqueError, RefusalError
from pratique.apimachinery.json_values import JSON, Document, JSONObject
from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource
from pratique.apimachinery.patches import PatchError, PatchTestError, apply_patch
from pratique.apimachinery.statuses import go_quoted, internal_error, service_unavailable
from pratique.cel import costs
from pratique.cel.costs import Budget
from pratique.cel.errors import EvaluationError
from pratique.cel.expressions import Expression
from pratique.cel.policy_compiler import PolicyCompiler
from pratique.cel.structs import Struct, to_json, to_object
from pratique.cel.values import Value
from pratique.cluster.api_resources import built_in_resources
from pratique.cluster.conversion import convert
from pratique.cluster.schemas import ListType, MapType, Structure, Type, schema_of
from pratique.cluster.structured_merge import ApplyError, structured_apply
from pratique.cluster.typed_decoding import TypedDecodingError, decode_changed
from pratique.configuration.admissionregistration import MutatingAdmissionPolicySpec, Mutation
from pratique.configuration.expression_validation import APPLY_CONFIGURATION
from pratique.policies.activation import EvaluationLimits, ReviewActivations
from pratique.policies.compilation import evaluate_all

_K = TypeVar("_K", bound="Hashable")
_C = TypeVar("_C", bound="list[JSON] | JSONObject")


class PolicyPatchError(PratiqueError):
    """What an expression gives cannot be applied; ``failurePolicy`` decides. The text is the API server's."""


def apply_configuration(value: Struct, stored: JSONObject, schema: Structure) -> JSONObject:
    """Apply what an ``applyConfiguration`` expression gave to an object, which is not changed.

    Raises:
        PolicyPatchError: its types are not named by their fields, it does not fit the schema, or it sets what is
            never merged.
    """
    _check_names(value)
    try:
        return structured_apply(schema, stored, to_object(value))
    except ApplyError as error:
        raise PolicyPatchError(f"error applying patch: {error}") from None
    except EvaluationError as error:
        raise PolicyPatchError(f"invalid return type: {error}") from None


def apply_json_patch(patches: Sequence[Struct], stored: JSONObject, schema: Structure | None) -> JSONObject:
    """Apply what a ``jsonPatch`` expression gave to an object, which is not changed.

    Where a ``test`` operation does not hold, nothing is applied and nothing is wrong.

    Args:
        patches: The operations.
        stored: The object.
        schema: What fields the object may have; None where any are allowed.

    Raises:
        PolicyPatchError: an operation cannot be made or does not fit the object.
        RefusalError: what comes out has fields that its kind does not have, 500, whatever ``failurePolicy`` says.
    """
    operations = [_operation(each) for each in patches]
    try:
        patched = apply_patch(stored, operations)
    except PatchTestError:
        return stored
    except PatchError as error:
        raise PolicyPatchError(f"JSON Patch: {error}") from None
    if schema is not None:
        _check_fields(schema, stored, patched)
    if not isinstance(patched, dict):
        raise RefusalError(internal_error("the patched object is no object"))
    return patched


def _operation(patch: Struct) -> JSONObject:
    operation = {"op": patch.fields.get("op", ""), "path": patch.fields.get("path", "")}
    if patch.fields.get("from"):
        operation["from"] = patch.fields["from"]
    if "value" not in patch.fields:
        return operation
    value = patch.fields["value"]
    if isinstance(value, Struct):
        _check_names(value)
    try:
        return operation | {"value": to_json(value)}
    except EvaluationError as error:
        text = "JSONPath valueExpression evaluated to a type that could not marshal to JSON"
        raise PolicyPatchError(f"{text}: {error}") from None


def _check_names(value: Struct) -> None:
    wrong = list(value.misnamed())
    if wrong:
        raise PolicyPatchError("type mismatch: " + "\n".join(wrong))


def _check_fields(schema: Structure, stored: JSON, patched: JSON) -> None:
    """See that a patch brings no field that the kind does not have; what was there before is let be."""
    found = list(_unknown(schema, patched, "", stored))
    if not found:
        return
    before = set(_unknown(schema, stored, ""))
    added = [field for field in found if field not in before]
    if added:
        listed = ", ".join(f"unknown field {go_quoted(field)}" for field in added)
        raise RefusalError(internal_error(f"strict decoding error: {listed}"))


_NOWHERE = object()
"""What stands where nothing stood before."""


def _unknown(kind: Type, value: JSON, path: str, before: JSON = _NOWHERE) -> Iterator[str]:
    """Find fields that a kind does not have, but in what is the very value that stood in its place before."""
    match kind, value:
        case ListType(), list():
            for index, item, was in _changed(enumerate(value), dict(enumerate(_or(before, list)))):
                yield from _unknown(kind.items, item, f"{path}[{index}]", was)
        case MapType(), dict():
            for name, child, was in _changed(value.items(), _or(before, dict)):
                yield from _unknown(kind.values, child, f"{path}.{name}", was)
        case Structure(), dict():
            for name, child, was in _changed(value.items(), _or(before, dict)):
                inner = f"{path}.{name}" if path else name
                if name in kind.fields:
                    yield from _unknown(kind.fields[name], child, inner, was)
                elif not kind.open:
                    yield inner
        case _:
            return


def _or(value: JSON, container: type[_C]) -> _C:
    """A value where it is such a container, else an empty one."""
    return value if isinstance(value, container) else container()


def _changed(
    children: Iterable[tuple[_K, JSON]], before: Mapping[_K, JSON]
) -> Iterator[tuple[_K, JSON, JSON]]:
    """The children that are not those that were in their places before, with what was."""
    for key, child in children:
        was = before.get(key, _NOWHERE)
        if child is not was:
            yield key, child, was


class MutatedObjects:
    """The object in each version, by how it came in.

    As in the API server, each version is looked after for itself: policies that matched by one do not see what those
    that matched by another have done, and what comes out is the version that was mutated last.
    """

    def __init__(self) -> None:
        """Nothing has been changed."""
        self._now: dict[ReviewActivations, ReviewActivations] = {}
        self._last: ReviewActivations | None = None

    def now(self, original: ReviewActivations) -> ReviewActivations:
        """See one version as it is now."""
        return self._now.get(original, original)

    def touch(self, original: ReviewActivations) -> None:
        """Remember that a mutation of this version is tried."""
        self._last = original

    def change(self, original: ReviewActivations, document: JSONObject) -> None:
        """Replace the object in one version, be it by what it is anyway."""
        activations = self.now(original)
        review = activations.review
        self._now[original] = activations.changed(review.with_object(Document.from_data(document)))

    def are_only_of(self, resource: GroupVersionResource) -> bool:
        """Whether nothing but the object in that version was mutated."""
        return [one.review.resource for one in self._now.values()] == [resource]

    def outcome(self, asked: Review) -> tuple[Document, bool]:
        """Give the object in the version of the request, and whether anything was applied to it at all."""
        if self._last is None or self._last not in self._now:
            return asked.object_document, False
        review = self._now[self._last].review
        if review.resource == asked.resource:
            return review.object_document, True
        return convert(review.object_document, asked.resource, asked.kind, asked.cluster), True


_SCHEME = "pkg/api/legacyscheme/scheme.go:30"
"""What the API server calls the place where it knows its own kinds from."""
_TYPE = ("apiVersion", "kind")


@dataclasses.dataclass(frozen=True, slots=True)
class Patcher:
    """One mutation, ready to be made."""

    expression: Expression
    configures: bool
    """Whether the expression makes an apply configuration; else it makes a JSON Patch."""
    budget: int = costs.RUNTIME_COST_BUDGET
    """What the expression, and the variables that it asks for, may cost: each mutation has all of it."""

    def patch(
        self,
        activations: ReviewActivations,
        params: JSON,
        variables: Mapping[str, Expression],
        limits: EvaluationLimits,
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
        review, is_custom = (
            activations.review,
            built_in_resources().for_resource(activations.review.resource) is None,
        )
        schema = _find_schema(review)
        value = self._evaluate(activations, params, variables, limits)
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
        self,
        activations: ReviewActivations,
        params: JSON,
        variables: Mapping[str, Expression],
        limits: EvaluationLimits,
    ) -> Value:
        seen = activations.for_expressions(params, variables, limits, has_authorizer=True)
        (found,) = evaluate_all((self.expression,), seen, Budget(self.budget), limits)
        if isinstance(found, EvaluationError):
            raise found
        return found


def compile_mutations(spec: MutatingAdmissionPolicySpec, compiler: PolicyCompiler) -> tuple[Patcher, ...]:
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
