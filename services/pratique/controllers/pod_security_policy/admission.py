"""Admission by PodSecurityPolicies: who may use which policy, and which one admits a Pod.

Source: ``plugin/pkg/admission/security/podsecuritypolicy/admission.go`` of 1.24.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence

from pratique.admission.edits import Edits
from pratique.admission.results import Answer, allow, deny
from pratique.admission.reviews import Review
from pratique.apimachinery import statuses
from pratique.apimachinery.diff import semantically_equal
from pratique.apimachinery.errors import InputError, RefusalError
from pratique.apimachinery.field_errors import FieldError
from pratique.apimachinery.go_formats import go_type
from pratique.apimachinery.json_values import JSON, JSONObject, member
from pratique.apimachinery.requests import Operation, UserInfo
from pratique.cluster.authorization import AuthorizationAttributes
from pratique.controllers.pod_security_policy.providers import PolicyProvider, ReleaseBehavior, make_provider
from pratique.pods import pod_spec

_POLICY_GROUPS = ("policy", "extensions")
"""Policies moved from the second group to the first; roles may still name the second."""


def may_use(review: Review, policy: str) -> bool:
    """Tell whether the Pod's ServiceAccount or the user may use a policy in the Pod's namespace."""
    return any(
        review.authorizer.authorize(
            AuthorizationAttributes(
                user=user,
                verb="use",
                group=group,
                resource="podsecuritypolicies",
                namespace=review.namespace,
                name=policy,
            )
        ).allowed
        for user in _authorized_users(review)
        for group in _POLICY_GROUPS
    )


def _authorized_users(review: Review) -> Iterator[UserInfo]:
    """Whose permissions count: first the account's, which is the more common case."""
    account = pod_spec.service_account_name(review.object)
    if account:
        yield service_account_user(review.namespace, account)
    yield review.user


def service_account_user(namespace: str, name: str) -> UserInfo:
    """The user that a ServiceAccount is."""
    return UserInfo(
        f"system:serviceaccount:{namespace}:{name}",
        groups=("system:serviceaccounts", f"system:serviceaccounts:{namespace}"),
    )


@dataclasses.dataclass(frozen=True, slots=True)
class PolicyMatch:
    """A policy that admits a Pod."""

    policy: str
    """Its name."""
    edits: Edits
    """The Pod with what the policy fills in."""


@dataclasses.dataclass(frozen=True, slots=True)
class NoPolicyMatch:
    """No policy admits the Pod."""

    faults: tuple[FieldError, ...]
    """What the policies that may be used do not allow. None for those that would allow it if it were changed."""

    def __str__(self) -> str:
        """As Go prints a list of errors."""
        return f"[{' '.join(map(str, self.faults))}]"


def find_policy(
    pod: JSON,
    providers: Iterable[PolicyProvider],
    may_use: Callable[[str], bool],
    *,
    may_change: bool,
) -> PolicyMatch | NoPolicyMatch:
    """Find the policy that admits a Pod, of those that may be used.

    A policy that admits it as it is goes before all that have to change it; else the first counts.

    Args:
        pod: The Pod.
        providers: The policies, in the order in which they are asked.
        may_use: Tells by its name whether a policy may be used; asked no more than needed.
        may_change: Let policies change the Pod.

    Raises:
        RefusalError: a field of the Pod is of another type than it must be; 400.
    """
    changing: PolicyMatch | None = None
    refusals: list[tuple[str, list[FieldError]]] = []
    for provider in providers:
        name, edits = provider.policy.name, provider.filled(pod)
        faults = provider.faults(edits.document)
        if faults:
            refusals.append((name, faults))
        elif not edits.changed:
            if may_use(name):
                return PolicyMatch(name, edits)
        elif may_change and changing is None and may_use(name):
            changing = PolicyMatch(name, edits)
    if changing is not None:
        return changing
    return NoPolicyMatch(tuple(fault for name, faults in refusals if may_use(name) for fault in faults))


POLICY_ANNOTATION = "kubernetes.io/psp"
"""Of a Pod: the policy that admitted it."""
AUDIT_PREFIX = "podsecuritypolicy.policy.k8s.io"

_GARBAGE_COLLECTION_FIELDS = ("ownerReferences", "finalizers", "selfLink", "managedFields")

_log = logging.getLogger(__name__)


class PodSecurityPolicyAdmission:
    """The policies of a cluster, and what comes of them for a review."""

    def __init__(self, release: ReleaseBehavior) -> None:
        """Judge as ``release`` did."""
        self._release = release
        # The policies as they were listed last, and what became of them: they change rarely.
        self._read: tuple[Sequence[JSONObject], tuple[PolicyProvider, ...]] = ((), ())

    def mutate(self, review: Review) -> Answer:
        """Give a new Pod what the policy that admits it fills in."""
        if _is_garbage_collection_update(review) or review.operation is not Operation.CREATE:
            return allow()
        found = self._choose(review, may_change=True)
        if isinstance(found, NoPolicyMatch):
            return self._refuse(self._release.refused_by_mutation, found)
        found.edits.set(("metadata", "annotations", POLICY_ANNOTATION), found.policy)
        return found.edits.answer(audit_annotations={f"{AUDIT_PREFIX}/admit-policy": found.policy})

    def validate(self, review: Review) -> Answer:
        """Refuse a Pod that no policy admits as it is; the one that has admitted it is asked first."""
        if _is_garbage_collection_update(review):
            return allow()
        found = self._choose(review, may_change=False)
        if isinstance(found, NoPolicyMatch):
            return self._refuse(self._release.refused_by_validation, found)
        return allow(audit_annotations={f"{AUDIT_PREFIX}/validate-policy": found.policy})

    def _choose(self, review: Review, *, may_change: bool) -> PolicyMatch | NoPolicyMatch:
        providers = self._providers(review)
        if not providers:
            text = f"{self._release.prefix}no providers available to validate pod request"
            raise RefusalError(statuses.admission_forbidden(review, text))
        if not may_change:
            hint = member(review.object, "metadata", "annotations", POLICY_ANNOTATION)
            providers = tuple(sorted(providers, key=lambda each: each.policy.name != hint))
        allowed = functools.cache(functools.partial(may_use, review))
        return find_policy(review.object, providers, allowed, may_change=may_change)

    def _refuse(self, text: str, found: NoPolicyMatch) -> Answer:
        return deny(f"{self._release.prefix}{text}: {found}")

    def _providers(self, review: Review) -> tuple[PolicyProvider, ...]:
        """The policies that can judge anybody, by name."""
        documents, providers = self._read
        listed = review.cluster.list("policy", "podsecuritypolicies")
        if listed is not documents:
            providers = tuple(_make_providers(listed, self._release))
            self._read = (listed, providers)
        return providers


def _make_providers(documents: Sequence[JSONObject], release: ReleaseBehavior) -> list[PolicyProvider]:
    providers = []
    for document in documents:
        try:
            providers.append(make_provider(document, release))
        except InputError as error:
            _log.warning("a policy that cannot judge anybody is left out", extra={"reason": str(error)})
    return sorted(providers, key=lambda each: each.policy.name)


def _is_garbage_collection_update(review: Review) -> bool:
    """Tell whether an update is one of those that garbage collection makes.

    Raises:
        RefusalError: something else than a Pod is stored under pods.
    """
    if not pod_spec.is_pod(review.object):
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
    kept = {name: value for name, value in metadata.items() if name not in _GARBAGE_COLLECTION_FIELDS}
    return {**document, "metadata": kept}
