"""Admission by policies: what a Pod gets of the one that admits it, and why none does.

Source: ``plugin/pkg/admission/security/podsecuritypolicy/admission.go`` of 1.24, the last release that had it.
"""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING

from pratique import pods, statuses
from pratique.answers import Answer, allow, deny
from pratique.equalities import semantically_equal
from pratique.errors import InputError, RefusalError
from pratique.go_types import go_type
from pratique.json_values import member
from pratique.pod_security_policies.authorizations import may_use
from pratique.pod_security_policies.choices import Choice, NoChoice, choose
from pratique.pod_security_policies.providers import Provider, Release, make_provider
from pratique.reviews import Operation, Review

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pratique.json_values import JSON, JSONObject

ANNOTATION = "kubernetes.io/psp"
"""Of a Pod: the policy that admitted it."""
AUDIT_PREFIX = "podsecuritypolicy.policy.k8s.io"

_OF_GARBAGE_COLLECTION = ("ownerReferences", "finalizers", "selfLink", "managedFields")

_log = logging.getLogger(__name__)

_log = logging.getLogger(__name__)


class Policies:
    """The policies of a cluster, and what comes of them for a review."""

    def __init__(self, release: Release) -> None:
        """Judge as ``release`` did."""
        self._release = release
        # The policies as they were listed last, and what became of them: they change rarely.
        self._read: tuple[Sequence[JSONObject], tuple[Provider, ...]] = ((), ())

    def mutate(self, review: Review) -> Answer:
        """Give a new Pod what the policy that admits it fills in."""
        if _is_left_alone(review) or review.operation is not Operation.CREATE:
            return allow()
        found = self._choose(review, may_change=True)
        if isinstance(found, NoChoice):
            return self._refuse(self._release.refused_by_mutation, found)
        found.edits.set(("metadata", "annotations", ANNOTATION), found.policy)
        return found.edits.answer(audit_annotations={f"{AUDIT_PREFIX}/admit-policy": found.policy})

    def validate(self, review: Review) -> Answer:
        """Refuse a Pod that no policy admits as it is; the one that has admitted it is asked first."""
        if _is_left_alone(review):
            return allow()
        found = self._choose(review, may_change=False)
        if isinstance(found, NoChoice):
            return self._refuse(self._release.refused_by_validation, found)
        return allow(audit_annotations={f"{AUDIT_PREFIX}/validate-policy": found.policy})

    def _choose(self, review: Review, *, may_change: bool) -> Choice | NoChoice:
        providers = self._providers(review)
        if not providers:
            text = f"{self._release.prefix}no providers available to validate pod request"
            raise RefusalError(statuses.admission_forbidden(review, text))
        if not may_change:
            hint = member(review.object, "metadata", "annotations", ANNOTATION)
            providers = tuple(sorted(providers, key=lambda each: each.policy.name != hint))
        allowed = functools.cache(functools.partial(may_use, review))
        return choose(review.object, providers, allowed, may_change=may_change)

    def _refuse(self, text: str, found: NoChoice) -> Answer:
        return deny(f"{self._release.prefix}{text}: {found}")

    def _providers(self, review: Review) -> tuple[Provider, ...]:
        """The policies that can judge anybody, by name."""
        documents, providers = self._read
        listed = review.cluster.list("policy", "podsecuritypolicies")
        if listed is not documents:
            providers = tuple(_make_providers(listed, self._release))
            self._read = (listed, providers)
        return providers


def _make_providers(documents: Sequence[JSONObject], release: Release) -> list[Provider]:
    providers = []
    for document in documents:
        try:
            providers.append(make_provider(document, release))
        except InputError as error:
            _log.warning("a policy that cannot judge anybody is left out", extra={"reason": str(error)})
    return sorted(providers, key=lambda each: each.policy.name)


def _is_left_alone(review: Review) -> bool:
    """Tell whether an update is one of those that garbage collection makes.

    Raises:
        RefusalError: something else than a Pod is stored under pods.
    """
    if not pods.is_pod(review.object):
        text = f"unexpected type {go_type(review.object)}"
        raise RefusalError(statuses.admission_forbidden(review, text))
    if review.operation is not Operation.UPDATE or review.old_object is None:
        return False
    return semantically_equal(
        _without_garbage_fields(review.object), _without_garbage_fields(review.old_object)
    )


def _without_garbage_fields(document: JSON) -> JSON:
    """Leave out what tells who owns an object and what is still to be done before it goes."""
    metadata = member(document, "metadata")
    if not isinstance(metadata, dict):
        return document
    kept = {name: value for name, value in metadata.items() if name not in _OF_GARBAGE_COLLECTION}
    return {**document, "metadata": kept}
