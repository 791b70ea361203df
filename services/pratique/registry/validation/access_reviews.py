"""Reviews of access and of tokens, which an API server answers and never stores.

They have no strategy: the handler itself checks what it gets, after mutating and before validating admission. What it
says of an invalid object names neither its kind nor a name, and so do the Statuses here.

Sources: ``pkg/apis/authorization/validation/validation.go``; ``Create`` of ``pkg/registry/authorization/*/rest.go``
and of ``pkg/registry/authentication/tokenreview/storage.go``; and ``ValidateFieldSelectorRequirement`` of
``pkg/apis/meta/v1/validation/validation.go`` of ``k8s.io/apimachinery``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from pratique.admission.reviews import Review
from pratique.apimachinery import statuses
from pratique.apimachinery.field_errors import (
    ROOT,
    FieldError,
    FieldPath,
    GoLiteral,
    covered,
    invalid,
    required,
)
from pratique.apimachinery.json_values import JSONObject, list_at, mapping_at
from pratique.apimachinery.statuses import Status
from pratique.registry.declarative_validation import with_declared_errors
from pratique.registry.go_values import differs, internal_value
from pratique.registry.validation.metadata import (
    validate_label_requirement,
    validate_selector_values,
)

_METADATA, _SPEC = ROOT / "metadata", ROOT / "spec"
_RESOURCE, _NON_RESOURCE = "resourceAttributes", "nonResourceAttributes"
_ACCESS, _TOKENS = "authorization.k8s.io", "authentication.k8s.io"
_Refuse: TypeAlias = Callable[[Review, JSONObject], Status | None]


def refused_review(review: Review) -> Status | None:
    """Why an API server refuses to answer a review of access or of a token; None if it answers."""
    resource = review.resource
    refuse = _REFUSALS.get((resource.group, resource.resource))
    return None if refuse is None else refuse(review, review.object)


def _refused_subject_review(review: Review, written: JSONObject) -> Status | None:
    errors = _subject(mapping_at(written, "spec")) + _empty_metadata(written)
    return _invalid(review, errors)


def _refused_self_review(review: Review, written: JSONObject) -> Status | None:
    errors = _attributes(mapping_at(written, "spec")) + _empty_metadata(written)
    return _invalid(review, errors)


def _refused_local_review(review: Review, written: JSONObject) -> Status | None:
    spec, own = mapping_at(written, "spec"), mapping_at(written, "metadata").get("namespace", "")
    errors = _subject(spec) + _empty_metadata(written, except_namespace=True) + _local(spec, own)
    refused = _invalid(review, errors)
    if refused is None and not review.namespace:
        return statuses.bad_request("namespace is required on this type: ")
    if refused is None and review.namespace != own:
        message = f"spec.resourceAttributes.namespace must match namespace: {review.namespace}"
        return statuses.bad_request(message)
    return refused


def _refused_rules_review(_: Review, written: JSONObject) -> Status | None:
    has_namespace = mapping_at(written, "spec").get("namespace")
    return None if has_namespace else statuses.bad_request("no namespace on request")


def _refused_token_review(review: Review, written: JSONObject) -> Status | None:
    if review.namespace:
        return statuses.bad_request(f"namespace is not allowed on this type: {review.namespace}")
    if not mapping_at(written, "spec").get("token"):
        return statuses.bad_request("token is required for TokenReview in authentication")
    return None


_REFUSALS: Mapping[tuple[str, str], _Refuse] = {
    (_ACCESS, "localsubjectaccessreviews"): _refused_local_review,
    (_ACCESS, "selfsubjectaccessreviews"): _refused_self_review,
    (_ACCESS, "selfsubjectrulesreviews"): _refused_rules_review,
    (_ACCESS, "subjectaccessreviews"): _refused_subject_review,
    (_TOKENS, "tokenreviews"): _refused_token_review,
}
"""By group and resource; SelfSubjectReviews, which have nothing but a status, are never refused."""


def _invalid(review: Review, handwritten: list[FieldError]) -> Status | None:
    errors = with_declared_errors(handwritten, review.kind, review.object, None)
    return statuses.invalid(_ACCESS, "", "", errors) if errors else None


def _subject(spec: JSONObject) -> list[FieldError]:
    """``ValidateSubjectAccessReviewSpec``."""
    one_of, selectors = _one_of(spec), _selectors(spec)
    if spec.get("user") or spec.get("groups"):
        return one_of + selectors
    missing = invalid(_SPEC / "user", "", "at least one of user or group must be specified")
    return [*one_of, missing, *selectors]


def _attributes(spec: JSONObject) -> list[FieldError]:
    """``ValidateSelfSubjectAccessReviewSpec``."""
    return _one_of(spec) + _selectors(spec)


def _one_of(spec: JSONObject) -> list[FieldError]:
    other = spec.get(_NON_RESOURCE)
    if (spec.get(_RESOURCE) is None) is not (other is None):
        return []
    detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
    return covered(invalid(_SPEC, _non_resource(other), detail), "union")


def _non_resource(attributes: JSONObject | None) -> GoLiteral:
    return internal_value("*authorization.NonResourceAttributes", attributes)


def _local(spec: JSONObject, own_namespace: str) -> list[FieldError]:
    errors, attributes, other = [], spec.get(_RESOURCE), spec.get(_NON_RESOURCE)
    if attributes is not None and attributes.get("namespace", "") != own_namespace:
        path, namespace = _SPEC / _RESOURCE / "namespace", attributes.get("namespace", "")
        errors.append(invalid(path, namespace, "must match metadata.namespace"))
    if other is not None:
        detail = "disallowed on this kind of request"
        errors.append(invalid(_SPEC / _NON_RESOURCE, _non_resource(other), detail))
    return errors


def _empty_metadata(written: JSONObject, *, except_namespace: bool = False) -> list[FieldError]:
    """Refuse metadata, of which managed fields do not count.

    An API server has added an entry to them by then, with the time and with the program that asks, and shows it.
    """
    metadata = mapping_at(written, "metadata")
    shown = {name: value for name, value in metadata.items() if name != "managedFields"}
    counted = {name: value for name, value in shown.items() if name != "namespace" or not except_namespace}
    if not counted or not differs(_OBJECT_META, {}, counted):
        return []
    detail = "must be empty except for namespace" if except_namespace else "must be empty"
    return [invalid(_METADATA, internal_value(_OBJECT_META, shown), detail)]


_OBJECT_META = "meta.v1.ObjectMeta"


def _selectors(spec: JSONObject) -> list[FieldError]:
    """``validateResourceAttributes``."""
    attributes, path = mapping_at(spec, _RESOURCE), _SPEC / _RESOURCE
    errors = []
    for name, validate in (("fieldSelector", _field_requirement), ("labelSelector", _label_requirement)):
        if attributes.get(name) is not None:
            errors += _selector(attributes[name], path / name, validate)
    return errors


def _selector(
    selector: JSONObject, path: FieldPath, validate: Callable[[JSONObject, FieldPath], list[FieldError]]
) -> list[FieldError]:
    """``validateFieldSelectorAttributes`` and ``validateLabelSelectorAttributes``, which differ in requirements."""
    errors, raw, requirements = [], selector.get("rawSelector", ""), list_at(selector, "requirements")
    if raw and requirements:
        detail = "may not specified at the same time as requirements"
        errors.append(invalid(path / "rawSelector", raw, detail))
    if not raw and not requirements:
        detail = f"when {path} is specified, requirements or rawSelector is required"
        errors.append(required(path / "requirements", detail))
    for index, requirement in enumerate(requirements):
        errors += validate(requirement, path / "requirements" / index)
    return errors


def _field_requirement(requirement: JSONObject, path: FieldPath) -> list[FieldError]:
    key = [] if requirement.get("key") else [required(path / "key", "must be specified")]
    return key + validate_selector_values(requirement, path, allow_unknown_operator=True)


def _label_requirement(requirement: JSONObject, path: FieldPath) -> list[FieldError]:
    return validate_label_requirement(requirement, path, allow_unknown_operator=True)
