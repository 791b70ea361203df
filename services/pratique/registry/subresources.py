"""Requests to subresources whose objects have a kind of their own: Scale, Binding, Eviction, TokenRequest.

Nothing is stored of them, so that there are no strategies: the handlers themselves check what they get.

Sources: ``ValidateScale`` of ``pkg/apis/autoscaling/validation/validation.go``; ``BindingREST.Create`` of
``pkg/registry/core/pod/storage/storage.go`` and ``ValidatePodBinding`` of ``pkg/apis/core/validation/validation.go``;
``EvictionREST.Create`` of ``pkg/registry/core/pod/storage/eviction.go``; ``TokenREST.Create`` of
``pkg/registry/core/serviceaccount/storage/token.go`` and ``ValidateTokenRequest`` of
``pkg/apis/authentication/validation/validation.go``; ``scaleUpdatedObjectInfo`` of
``k8s.io/apiextensions-apiserver/pkg/registry/customresource/etcd.go``.
"""

from __future__ import annotations

import msgspec

from pratique.admission.reviews import Review
from pratique.apimachinery import field_errors, names, statuses
from pratique.apimachinery.field_errors import (
    ROOT,
    FieldError,
    FieldPath,
    covered,
    invalid,
    not_supported,
    required,
)
from pratique.apimachinery.json_values import Document, JSONObject, list_at, mapping_at
from pratique.apimachinery.kinds import GroupVersionKind
from pratique.apimachinery.statuses import Status, go_quoted
from pratique.cluster.api_resources import CRD_GROUP, CRD_RESOURCE
from pratique.registry.custom_resources.scales import with_replicas
from pratique.registry.validation.metadata import (
    subdomain_name,
    validate_managed_fields,
    validate_nonnegative,
)

_METADATA, _SPEC = ROOT / "metadata", ROOT / "spec"


# Scales


def is_scale(review: Review) -> bool:
    """Tell whether a review is of the subresource ``scale``, whose object stands for another one."""
    return review.subresource == "scale" and review.kind.kind == "Scale"


def custom_resource_of(review: Review) -> JSONObject | None:
    """The definition of the custom resources that a review is of, or of a subresource of them; None for others."""
    resource = review.resource
    return review.cluster.get(CRD_GROUP, CRD_RESOURCE, f"{resource.resource}.{resource.group}")


def validate_scale(scale: JSONObject) -> list[FieldError]:
    """Validate the Scale of a built-in kind, of which the replicas count."""
    managed = mapping_at(scale, "metadata").get("managedFields") or ()
    errors = validate_managed_fields(managed, _METADATA / "managedFields")
    replicas = mapping_at(scale, "spec").get("replicas")
    return errors + covered(validate_nonnegative(replicas, _SPEC / "replicas"))


def scaled_custom_resource(review: Review) -> Review | None:
    """The update of the custom resource that a Scale stands for.

    None if the review is of no such Scale, or the custom resource is not known.
    """
    if not is_scale(review) or (definition := custom_resource_of(review)) is None:
        return None
    resource = review.resource
    stored = review.cluster.get(resource.group, resource.resource, review.name, review.namespace)
    if stored is None:
        return None
    versions = list_at(definition, "spec", "versions")
    scale = next(
        (
            mapping_at(version, "subresources", "scale")
            for version in versions
            if version.get("name") == resource.version
        ),
        {},
    )
    replicas = mapping_at(review.object, "spec").get("replicas", 0)
    scaled = with_replicas(stored, scale.get("specReplicasPath") or "", replicas)
    names = mapping_at(definition, "spec", "names")
    return msgspec.structs.replace(
        review,
        kind=GroupVersionKind(resource.group, resource.version, str(names.get("kind") or "")),
        subresource="",
        object_document=Document.from_data(scaled),
        old_object_document=Document.from_data(stored),
    )


# Objects that are created, and never stored


def refused_creation(review: Review) -> Status | None:
    """Why a creation in a subresource is refused, after mutating and before validating admission; None if it is not."""
    written = review.object
    match review.subresource, review.kind.kind:
        case "binding", "Binding":
            return _refused_binding(review, written)
        case "eviction", "Eviction":
            return _refused_eviction(review, written)
        case "token", "TokenRequest":
            return _refused_token(review, written)
    return None


def _name_of(written: JSONObject) -> str:
    return str(mapping_at(written, "metadata").get("name") or "")


def _refused_binding(review: Review, binding: JSONObject) -> Status | None:
    if _name_of(binding) != review.name:
        return statuses.bad_request("name in URL does not match name in Binding object")
    errors: list[FieldError] = []
    target = mapping_at(binding, "target")
    kind, name, path = target.get("kind", ""), target.get("name", ""), ROOT / "target"
    if kind not in {"", "Node"}:
        errors.append(not_supported(path / "kind", kind, ("Node", "<empty>")))
    if not name:
        errors.append(required(path / "name"))
    elif kind in {"", "Node"}:
        errors += [invalid(path / "name", name, message) for message in subdomain_name(name, False)]
    return statuses.plain_error(field_errors.join(errors)) if errors else None


_UNSAFE = "ignoreStoreReadErrorWithClusterBreakingPotential"


def _refused_eviction(review: Review, eviction: JSONObject) -> Status | None:
    if _name_of(eviction) != review.name:
        return statuses.bad_request("name in URL does not match name in Eviction object")
    options = mapping_at(eviction, "deleteOptions")
    if options.get(_UNSAFE):
        detail = "can not be set for pod eviction, try after removing the option"
        error = invalid(ROOT / "deleteOptions" / _UNSAFE, True, detail)
        return statuses.invalid("policy", "Eviction", review.name, [error])
    asked, in_body = mapping_at(review.options).get("dryRun") or [], options.get("dryRun") or []
    if asked and in_body and asked != in_body:
        texts = " and ".join(f"[{' '.join(map(str, values))}]" for values in (asked, in_body))
        return statuses.plain_error(f"Non-matching dry-run options in request and content: {texts}")
    return None


_TOKEN_GROUP, _TOKEN_KIND = "authentication.k8s.io", "TokenRequest"
_SHORTEST_SECONDS, _LONGEST_SECONDS = 10 * 60, 2**32
_WEBHOOKS = ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")


def _refused_token(review: Review, request: JSONObject) -> Status | None:
    metadata = mapping_at(request, "metadata")
    for field, wanted in (("name", review.name), ("namespace", review.namespace)):
        if metadata.get(field) and metadata[field] != wanted:
            detail = f"must match the service account {field} if specified"
            errors = [invalid(_METADATA / field, metadata[field], detail)]
            return statuses.invalid(_TOKEN_GROUP, _TOKEN_KIND, review.name, errors)
    spec = mapping_at(request, "spec")
    errors = _validate_token(spec)
    if errors:
        return statuses.invalid(_TOKEN_GROUP, _TOKEN_KIND, "", errors)
    return _refused_bond(review, spec["boundObjectRef"]) if spec.get("boundObjectRef") is not None else None


_BOUND_KINDS = frozenset({"Node", "Pod", "Secret"})


def _refused_bond(review: Review, reference: JSONObject) -> Status | None:
    """Why a token cannot be bound to an object; what is not in the cluster may well exist."""
    api_version = str(reference.get("apiVersion") or "")
    group, _, version = ("" if api_version.count("/") > 1 else api_version).rpartition("/")
    kind, name = str(reference.get("kind") or ""), str(reference.get("name") or "")
    if group or kind not in _BOUND_KINDS:
        gate = (
            " (feature gate APIServerWebhookAuthenticationToken is disabled)"
            if _is_webhook(reference)
            else ""
        )
        what = f"{group}/{version}, Kind={kind}"
        return statuses.bad_request(f"cannot bind token to object of type {what}{gate}")
    namespace = "" if kind == "Node" else review.namespace
    found = review.cluster.get("", f"{kind.lower()}s", name, namespace)
    if found is None:
        return None
    if kind == "Pod" and mapping_at(found, "spec").get("serviceAccountName", "") != review.name:
        account = go_quoted(review.name)
        message = f"cannot bind token for serviceaccount {account} to pod running with different serviceaccount name."
        return statuses.bad_request(message)
    uid, own = reference.get("uid"), mapping_at(found, "metadata").get("uid", "")
    if not uid or uid == own:
        return None
    detail = (
        f"the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been"
        " deleted and then recreated"
    )
    return statuses.conflict("", kind, name, detail)


def _is_webhook(reference: JSONObject) -> bool:
    return (
        reference.get("kind") in _WEBHOOKS
        and reference.get("apiVersion") == "admissionregistration.k8s.io/v1"
    )


def _validate_token(spec: JSONObject) -> list[FieldError]:
    """``ValidateTokenRequest``."""
    errors, seconds = [], spec.get("expirationSeconds", 0)
    for is_wrong, detail in (
        (seconds < _SHORTEST_SECONDS, "may not specify a duration less than 10 minutes"),
        (seconds > _LONGEST_SECONDS, "may not specify a duration larger than 2^32 seconds"),
    ):
        errors += [invalid(_SPEC / "expirationSeconds", seconds, detail)] if is_wrong else []
    reference, attestations = mapping_at(spec, "boundObjectRef"), mapping_at(spec, "attestations")
    path = _SPEC / "attestations"
    if not _is_webhook(reference):
        detail = "attestations may only be specified with a webhook bound object reference"
        shown = dict(sorted(attestations.items()))
        return [invalid(path, shown, detail)] if attestations else errors
    audiences = list_at(spec, "audiences")
    if len(audiences) != 1:
        detail = "must be length 1 when bound to a webhook config"
        errors.append(invalid(_SPEC / "audiences", audiences, detail))
    if len(attestations) != 1:
        detail = "webhook bound requests require exactly one admissionReviewAPIGroups attestation"
        return [*errors, invalid(path, spec.get("attestations"), detail)]
    ((key, groups),) = attestations.items()
    return errors + _validate_attestation(key, groups, path.key(key))


_REVIEWED_GROUPS = "admissionReviewAPIGroups"


def _validate_attestation(key: str, groups: list[str] | None, path: FieldPath) -> list[FieldError]:
    """``validateWebhookKeysAndValues``: a token for the core group is for all groups, which only ``*`` stands for."""
    if key != _REVIEWED_GROUPS:
        return [not_supported(path, key, (_REVIEWED_GROUPS,))]
    if groups is None or len(groups) != 1:
        return [invalid(path, groups, "must specify a single value")]
    (group,) = groups
    if not group:
        return [invalid(path / 0, group, "may not be an empty string")]
    problems = [] if group == "*" else names.check_dns1123_subdomain(group)
    return [invalid(path / 0, group, f"must specify a valid API Group: {problem}") for problem in problems]
