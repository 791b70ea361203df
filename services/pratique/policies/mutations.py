"""The mutations of a MutatingAdmissionPolicy: its expressions make patches, which are applied one after another.

Source: ``k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

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
from pratique.cluster.go_decoding import TypedDecodingError
from pratique.cluster.schemas import ListType, MapType, Structure, Type, schema_of
from pratique.cluster.structured_merge import ApplyError, Merged, structured_apply
from pratique.cluster.typed_decoding import conforms, decode_changed
from pratique.configuration.admissionregistration import MutatingAdmissionPolicySpec, Mutation
from pratique.configuration.expression_validation import APPLY_CONFIGURATION
from pratique.policies.activation import EvaluationLimits, ReviewActivations
from pratique.policies.compilation import evaluate_all
from pratique.registry.defaults.defaulting import with_defaults_of_changes

_K = TypeVar("_K", bound="Hashable")
_C = TypeVar("_C", bound="list[JSON] | JSONObject")


class PolicyPatchError(PratiqueError):
    """The patch of an expression cannot be applied; ``failurePolicy`` decides. The text is the API server's."""


def apply_configuration(value: Struct, stored: JSONObject, schema: Structure) -> Merged:
    """Apply the value of an ``applyConfiguration`` expression to an object, which is not changed.

    Raises:
        PolicyPatchError: a type name does not match its field's path, the value does not fit the schema, or it sets a
            list that can only be replaced as a whole.
    """
    _check_type_names(value)
    try:
        return structured_apply(schema, stored, to_object(value))
    except ApplyError as error:
        raise PolicyPatchError(f"error applying patch: {error}") from None
    except EvaluationError as error:
        raise PolicyPatchError(f"invalid return type: {error}") from None


def apply_json_patch(
    patches: Sequence[Struct], stored: JSONObject, kind: GroupVersionKind, schema: Structure | None
) -> JSONObject:
    """Apply the value of a ``jsonPatch`` expression to an object. Gives a new object.

    If a ``test`` operation fails, nothing is applied, and that is no error.

    Args:
        patches: The operations.
        stored: The object.
        kind: The kind that the review names.
        schema: The fields that the object may have; None allows any.

    Raises:
        PolicyPatchError: an operation has no JSON value or does not fit the object.
        RefusalError: the patch changes the object's kind, adds fields that it does not have, or sets one to a value of
            another type: 500, whatever ``failurePolicy`` says.
    """
    operations = [_operation(patch) for patch in patches]
    try:
        patched = apply_patch(stored, operations)
    except PatchTestError:
        patched = stored
    except PatchError as error:
        raise PolicyPatchError(f"JSON Patch: {error}") from None
    if schema is not None and isinstance(patched, dict) and conforms(kind, schema, stored, operations):
        return _restore_type(patched, stored)
    # The same once more, in the API server's order and words.
    if schema is not None:
        _check_fields(schema, stored, patched)
    if not isinstance(patched, dict):
        raise RefusalError(internal_error("the result of the patch is not an object"))
    patched = _restore_type(patched, stored)
    _check_field_types(kind, stored, patched)
    return patched


def _operation(patch: Struct) -> JSONObject:
    operation = {"op": patch.fields.get("op", ""), "path": patch.fields.get("path", "")}
    if patch.fields.get("from"):
        operation["from"] = patch.fields["from"]
    if "value" not in patch.fields:
        return operation
    value = patch.fields["value"]
    if isinstance(value, Struct):
        _check_type_names(value)
    try:
        return operation | {"value": to_json(value)}
    except EvaluationError as error:
        text = "JSONPath valueExpression evaluated to a type that could not marshal to JSON"
        raise PolicyPatchError(f"{text}: {error}") from None


def _check_type_names(value: Struct) -> None:
    if not value.is_well_named:
        raise PolicyPatchError("type mismatch: " + "\n".join(value.misnamed()))


def _check_fields(schema: Structure, stored: JSON, patched: JSON) -> None:
    """Check that a patch adds no field that the kind does not have; unknown fields from before may stay."""
    found = list(_unknown_fields(schema, patched, "", stored))
    if not found:
        return
    before = set(_unknown_fields(schema, stored, ""))
    added = [field for field in found if field not in before]
    if added:
        listed = ", ".join(f"unknown field {go_quoted(field)}" for field in added)
        raise RefusalError(internal_error(f"strict decoding error: {listed}"))


_ABSENT = object()
"""Marks a value that did not exist before."""


def _unknown_fields(kind: Type, value: JSON, path: str, before: JSON = _ABSENT) -> Iterator[str]:
    """Find fields that a kind does not have; skip values that are the same Python object as in ``before``."""
    match kind, value:
        case ListType(), list():
            for index, item, was in _changed_children(
                enumerate(value), dict(enumerate(_container(before, list)))
            ):
                yield from _unknown_fields(kind.items, item, f"{path}[{index}]", was)
        case MapType(), dict():
            for name, child, was in _changed_children(value.items(), _container(before, dict)):
                yield from _unknown_fields(kind.values, child, f"{path}.{name}", was)
        case Structure(), dict():
            for name, child, was in _changed_children(value.items(), _container(before, dict)):
                inner = f"{path}.{name}" if path else name
                if name in kind.fields:
                    yield from _unknown_fields(kind.fields[name], child, inner, was)
                elif not kind.open:
                    yield inner
        case _:
            return


def _container(value: JSON, container: type[_C]) -> _C:
    """The value if it is such a container, else an empty one."""
    return value if isinstance(value, container) else container()


def _changed_children(
    children: Iterable[tuple[_K, JSON]], before: Mapping[_K, JSON]
) -> Iterator[tuple[_K, JSON, JSON]]:
    """The children that are different Python objects from before, each with its previous value."""
    for key, child in children:
        was = before.get(key, _ABSENT)
        if child is not was:
            yield key, child, was


class MutatedObjects:
    """The mutated object in each API version, by the activations of the object as received.

    As in the API server, versions are independent: a policy that matched by one version does not see the mutations of
    policies that matched by another, and the version mutated last is the result.
    """

    def __init__(self) -> None:
        """Begin without changes."""
        self._current: dict[ReviewActivations, ReviewActivations] = {}
        self._last_attempted: ReviewActivations | None = None

    def copy(self) -> MutatedObjects:
        """The same objects, which mutations of these do not change."""
        other = MutatedObjects()
        other._current, other._last_attempted = self._current.copy(), self._last_attempted
        return other

    def current(self, original: ReviewActivations) -> ReviewActivations:
        """The activations of one version with the mutations so far."""
        return self._current.get(original, original)

    def mark_attempted(self, original: ReviewActivations) -> None:
        """Record that a mutation of this version is attempted."""
        self._last_attempted = original

    def replace_object(self, original: ReviewActivations, document: JSONObject) -> None:
        """Replace the object in one version, even if it is the same."""
        activations = self.current(original)
        review = activations.review
        self._current[original] = activations.changed(review.with_object(Document.from_data(document)))

    def are_only_of(self, resource: GroupVersionResource) -> bool:
        """Whether the object was mutated in that version only."""
        return [current.review.resource for current in self._current.values()] == [resource]

    def result(self, requested: Review) -> tuple[Document, bool]:
        """Give the object in the version of the request, and whether any patch was applied to it."""
        if self._last_attempted is None or self._last_attempted not in self._current:
            return requested.object_document, False
        review = self._current[self._last_attempted].review
        if review.resource == requested.resource:
            return review.object_document, True
        return convert(review.object_document, requested.resource, requested.kind, requested.cluster), True


_SCHEME = "pkg/api/legacyscheme/scheme.go:30"
"""The API server's name for the scheme of built-in kinds."""
_TYPE = ("apiVersion", "kind")


class Patcher(msgspec.Struct, frozen=True):
    """One compiled mutation."""

    expression: Expression
    is_apply_configuration: bool
    """Whether the expression makes an apply configuration; otherwise it makes a JSON Patch."""
    budget: int = costs.RUNTIME_COST_BUDGET
    """The most that the expression and its variables may cost; each mutation has its own budget."""

    def patch(
        self,
        activations: ReviewActivations,
        params: JSON,
        variables: Mapping[str, Expression] | None,
        limits: EvaluationLimits,
        requested: GroupVersionKind,
    ) -> tuple[JSONObject, Sequence[JSONObject] | None]:
        """Apply the mutation. Gives a new object, and how it differs: None if only a diff can tell.

        Variables are evaluated again for each mutation, because they see the previous one's result.

        Args:
            activations: The object with the mutations so far, in the version that the policy matched.
            params: The parameter.
            variables: The policy's variables.
            limits: The limits of the evaluation.
            requested: The object's kind in the request.

        Raises:
            PolicyPatchError: the patch cannot be applied; the failure policy decides.
            EvaluationError: the evaluation failed; the failure policy decides.
            OutOfBudgetError: it costs too much; the failure policy decides.
            RefusalError: the kind is unknown, 503, or the result does not fit it, 500, whatever the failure policy.
            SlowEvaluationError: it exceeds the inline budget.
        """
        review, is_custom = (
            activations.review,
            built_in_resources().for_resource(activations.review.resource) is None,
        )
        schema = _find_schema(review)
        value = self._evaluate(activations, params, variables, limits)
        operations: Sequence[JSONObject] | None = None
        if self.is_apply_configuration:
            patched, operations = apply_configuration(value, review.object, _require_schema(schema, review))
        else:
            # As in the API server, custom resources are decoded without a schema; pruning follows later.
            fields = None if is_custom else schema
            patched = apply_json_patch(value, review.object, review.kind, fields)
        if is_custom:
            return patched, operations
        _check_version(review.kind, requested)
        completed = with_defaults_of_changes(review.kind, review.object, patched)
        return completed, operations if completed is patched else None

    def _evaluate(
        self,
        activations: ReviewActivations,
        params: JSON,
        variables: Mapping[str, Expression] | None,
        limits: EvaluationLimits,
    ) -> Value:
        activation = activations.for_expressions(params, variables, limits, has_authorizer=True, mutates=True)
        (result,) = evaluate_all((self.expression,), activation, Budget(self.budget), limits)
        if isinstance(result, EvaluationError):
            raise result
        return result


def compile_mutations(spec: MutatingAdmissionPolicySpec, compiler: PolicyCompiler) -> tuple[Patcher, ...]:
    """Compile the mutations of a MutatingAdmissionPolicy, in order.

    Raises:
        CompilationError: an expression does not compile; loading reports that before.
    """
    return tuple(_compile(mutation, compiler) for mutation in spec.mutations)


def _compile(mutation: Mutation, compiler: PolicyCompiler) -> Patcher:
    is_apply_configuration = mutation.patch_type == APPLY_CONFIGURATION
    written = mutation.apply_configuration if is_apply_configuration else mutation.json_patch
    if written is None:
        raise ValueError(f"a mutation of type {mutation.patch_type} has no expression, a required field")
    kind = "Object" if is_apply_configuration else "list(JSONPatch)"
    return Patcher(compiler.compile(written.expression, kind, has_patches=True), is_apply_configuration)


def _find_schema(review: Review) -> Structure | None:
    """Find the schema of the object; None if the API server serves the version but has no schema for the kind."""
    kind = review.kind
    found = schema_of(kind, review.cluster)
    if found is not None:
        return found
    version = (kind.group, kind.version)
    if any((resource.kind.group, resource.kind.version) == version for resource in review.cluster.resources):
        return None
    raise RefusalError(
        service_unavailable(
            f"Resource kind {kind} not found. There can be a delay between when CustomResourceDefinitions are "
            "created and when they are available."
        )
    )


def _require_schema(schema: Structure | None, review: Review) -> Structure:
    if schema is None:
        text = "error applying patch: failed to convert patch object to typed object"
        raise PolicyPatchError(f"{text}: no corresponding type for {review.kind}")
    return schema


def _restore_type(patched: JSONObject, stored: JSONObject) -> JSONObject:
    """Restore ``apiVersion`` and ``kind`` if a patch removed them. A patch must not change them."""
    had = {name: stored[name] for name in _TYPE if stored.get(name)}
    for name, value in had.items():
        if (patched.get(name) or value) != value:
            raise RefusalError(internal_error(f"the patch changes the {name} of the object"))
    return patched if patched.items() >= had.items() else patched | had


def _check_field_types(kind: GroupVersionKind, stored: JSONObject, patched: JSONObject) -> None:
    """Fail as the API server does if a patched value does not have its field's type, whatever the failure policy."""
    try:
        decode_changed(kind, stored, Document.from_data(patched))
    except TypedDecodingError as error:
        raise RefusalError(internal_error(str(error))) from None


def _check_version(matched: GroupVersionKind, requested: GroupVersionKind) -> None:
    """Fail as the API server does for built-in kinds matched in another version than the request's.

    After each mutation it converts the object to the request's version directly, but it can convert built-in kinds only
    to and from their internal version.
    """
    if matched.api_version == requested.api_version:
        return
    found = f"{matched.version}.{matched.kind}"
    if matched.group != requested.group:
        text = f"{found} is not suitable for converting to {go_quoted(requested.api_version)} in scheme"
        raise PolicyPatchError(f"{text} {go_quoted(_SCHEME)}")
    raise PolicyPatchError(
        f"converting ({found}) to ({requested.version}.{requested.kind}): unknown conversion"
    )
