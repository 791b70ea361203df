"""OwnerReferencesPermissionEnforcement: only users who may delete an object may change its owner references.

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
from pratique.apimachinery.prepared_types import prepared
from pratique.apimachinery.requests import Operation
from pratique.apimachinery.statuses import bad_request
from pratique.cluster.api_resources import rest_mappings
from pratique.cluster.authorization import AuthorizationAttributes, AuthorizationDecision


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Which release to follow where releases differ."""

    check_creations: bool = False
    """Also ask whether a user may delete the object that they create, as releases before 1.11 do."""


class OwnerReference(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A reference to the object that an object is deleted with."""

    api_version: str | None = None
    kind: str | None = None
    name: str | None = None
    uid: str | None = None
    controller: bool | None = None
    block_owner_deletion: bool | None = None
    """In foreground deletion, the owner waits for the object."""


def validate(settings: Settings, review: Review) -> Answer:
    """If owner references change, check that the user may delete the object and may block the owners' deletion."""
    if review.concerns("", "pods", "status"):
        return allow()  # old kubelets garble references there, and the API server restores them
    new, old = _references(review.object), _references(review.old_object)
    if new is None or not _references_changed(review, new, old):
        return allow()
    # Users who create an object may choose its owners: they could as well not create it.
    if settings.check_creations or review.operation is not Operation.CREATE:
        decision = _may_delete(review)
        if not decision.allowed:
            return deny(f"cannot set an ownerRef on a resource you can't delete: {_go_decision(decision)}")
    blocking = tuple(_newly_blocking(new, old or ()))
    if not blocking or _may_finalize_all(review).allowed:
        return allow()
    return next(
        (deny(text) for reference in blocking for text in _blocking_errors(review, reference)), allow()
    )


def _references(document: JSON) -> tuple[OwnerReference, ...] | None:
    """The owner references of an object; None if it has no metadata."""
    if not isinstance(member(document, "metadata"), dict):
        return None
    written = member(document, "metadata", "ownerReferences") or ()
    try:
        return msgspec.convert(written, prepared(tuple[OwnerReference, ...]))
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
    """Whether the user may update the finalizers of every resource; then owners need not be looked up. Since 1.21."""
    return review.authorizer.authorize(
        AuthorizationAttributes(
            user=review.user, verb="update", group="*", resource="*", subresource="finalizers", name="*"
        )
    )


def _newly_blocking(
    new: tuple[OwnerReference, ...], old: tuple[OwnerReference, ...]
) -> Iterator[OwnerReference]:
    """The references that block now and did not before. Of several old references with one uid, the last counts."""
    blocked = {reference.uid or "": reference.block_owner_deletion is True for reference in old}
    for reference in new:
        if reference.block_owner_deletion is True and not blocked.get(reference.uid or "", False):
            yield reference


def _blocking_errors(review: Review, reference: OwnerReference) -> Iterator[str]:
    """Why the user may not block the owner's deletion; nothing if they may."""
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
            # A namespaced owner is in the namespace of its dependent.
            namespace=review.namespace if collection.namespaced else "",
            name=name,
        )
    )


def _go_decision(decision: AuthorizationDecision) -> str:
    """The reason and the error as Go prints them; a missing error is ``<nil>``."""
    return f"{decision.reason}, {decision.error or '<nil>'}"


def _build(settings: Settings) -> Handlers:
    return Handlers(validate=functools.partial(validate, settings))


CONTROLLER = Controller(
    name="OwnerReferencesPermissionEnforcement",
    summary="Requires the right to delete an object to change its owners, and to finalize an owner to block it.",
    phases=VALIDATE,
    rules=(Rule(("CREATE", "UPDATE"), ("*",), ("*",), ("*/*",), "*"),),
    build=_build,
    settings=Settings,
    looks_up=("roles", "rolebindings", "clusterroles", "clusterrolebindings", "customresourcedefinitions"),
    trusted=True,
)
