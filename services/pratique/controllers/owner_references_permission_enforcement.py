"""OwnerReferencesPermissionEnforcement: whose owner references an object gets is for those to say who may delete it.

Source: ``plugin/pkg/admission/gc/gc_admission.go``; for the mapping of kinds ``k8s.io/apimachinery/pkg/api/meta`` and
``k8s.io/client-go/restmapper/discovery.go``.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import msgspec

from pratique.admission.controllers import VALIDATE, Controller, Handlers
from pratique.admission.results import Answer, allow, deny
from pratique.admission.reviews import Review
from pratique.admission.rules import Rule
from pratique.apimachinery.diff import semantically_equal
from pratique.apimachinery.errors import InputError, RefusalError
from pratique.apimachinery.json_values import JSON, member
from pratique.apimachinery.kinds import ResourceType
from pratique.apimachinery.requests import Operation
from pratique.apimachinery.statuses import bad_request
from pratique.cluster.api_resources import rest_mappings
from pratique.cluster.authorization import AuthorizationAttributes, AuthorizationDecision


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Which release to follow where they differ."""

    check_creations: bool = False
    """Ask whether a new object may be deleted, too, as releases before 1.11 do."""


class OwnerReference(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Another object, with which an object is to be deleted."""

    api_version: str | None = None
    kind: str | None = None
    name: str | None = None
    uid: str | None = None
    controller: bool | None = None
    block_owner_deletion: bool | None = None
    """The owner waits for the object, where it is deleted in the foreground."""


def validate(settings: Settings, review: Review) -> Answer:
    """Ask whether the user may delete the object, and hold up those that are newly blocked, if references change."""
    if review.concerns("", "pods", "status"):
        return (
            allow()
        )  # old kubelets garble references there, and the API server itself keeps them as they were
    new, old = _references(review.object), _references(review.old_object)
    if new is None or not _references_changed(review, new, old):
        return allow()
    # Whoever makes an object could as well have left it, and so may say with what it goes.
    if settings.check_creations or review.operation is not Operation.CREATE:
        decision = _may_delete(review)
        if not decision.allowed:
            return deny(f"cannot set an ownerRef on a resource you can't delete: {_go_decision(decision)}")
    blocking = tuple(_newly_blocking(new, old or ()))
    if not blocking or _may_finalize_all(review).allowed:
        return allow()
    return next((deny(text) for one in blocking for text in _blocking_errors(review, one)), allow())


def _references(document: JSON) -> tuple[OwnerReference, ...] | None:
    """The owner references of an object; None where it has no metadata to have them in."""
    if not isinstance(member(document, "metadata"), dict):
        return None
    written = member(document, "metadata", "ownerReferences") or ()
    try:
        return msgspec.convert(written, tuple[OwnerReference, ...])
    except msgspec.ValidationError:
        raise RefusalError(
            bad_request("metadata.ownerReferences is not a list of owner references")
        ) from None


def _references_changed(
    review: Review, new: tuple[OwnerReference, ...], old: tuple[OwnerReference, ...] | None
) -> bool:
    if review.old_object is None:
        return bool(new)
    return old is not None and not semantically_equal(msgspec.to_builtins(new), msgspec.to_builtins(old))


def _may_delete(review: Review) -> AuthorizationDecision:
    resource = review.resource
    return review.authorizer.authorize(
        AuthorizationAttributes(
            user=review.user,
            verb="delete",
            group=resource.group,
            resource=resource.resource,
            subresource=review.subresource,
            namespace=review.namespace,
            name=review.name,
        )
    )


def _may_finalize_all(review: Review) -> AuthorizationDecision:
    """Ask whether it need not be known what collections the owners are in: since 1.21."""
    return review.authorizer.authorize(
        AuthorizationAttributes(
            user=review.user, verb="update", group="*", resource="*", subresource="finalizers", name="*"
        )
    )


def _newly_blocking(
    new: tuple[OwnerReference, ...], old: tuple[OwnerReference, ...]
) -> Iterator[OwnerReference]:
    """The references that block and did not. Of several with one uid, the last is the one that there was."""
    blocked = {reference.uid or "": reference.block_owner_deletion is True for reference in old}
    for reference in new:
        if reference.block_owner_deletion is True and not blocked.get(reference.uid or "", False):
            yield reference


def _blocking_errors(review: Review, reference: OwnerReference) -> Iterator[str]:
    """Why the user may not let the owner wait; nothing where he may."""
    api_version, kind = reference.api_version or "", reference.kind or ""
    try:
        collections = rest_mappings(api_version, kind, review.cluster.resources, review.resource)
    except InputError as error:
        yield (
            "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for"
            f" APIVersion {api_version} Kind {kind}: {error}"
        )
        return
    for collection in collections:
        decision = _may_finalize(review, collection, reference.name or "")
        if not decision.allowed:
            yield (
                "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set"
                f" finalizers on: {_go_decision(decision)}"
            )


def _may_finalize(review: Review, collection: ResourceType, name: str) -> AuthorizationDecision:
    resource = collection.resource
    return review.authorizer.authorize(
        AuthorizationAttributes(
            user=review.user,
            verb="update",
            group=resource.group,
            resource=resource.resource,
            subresource="finalizers",
            # An owner that is in a namespace is in that of what it owns.
            namespace=review.namespace if collection.namespaced else "",
            name=name,
        )
    )


def _go_decision(decision: AuthorizationDecision) -> str:
    """Reason and error, as Go prints an error that is not there."""
    return f"{decision.reason}, {decision.error or '<nil>'}"


def _build(settings: Settings) -> Handlers:
    return Handlers(validate=functools.partial(validate, settings))


CONTROLLER = Controller(
    name="OwnerReferencesPermissionEnforcement",
    summary="Lets those change owner references who may delete the object, and block owners who may finalize them.",
    phases=VALIDATE,
    rules=(Rule(("CREATE", "UPDATE"), ("*",), ("*",), ("*/*",), "*"),),
    build=_build,
    settings=Settings,
    looks_up=("roles", "rolebindings", "clusterroles", "clusterrolebindings", "customresourcedefinitions"),
    trusted=True,
)
