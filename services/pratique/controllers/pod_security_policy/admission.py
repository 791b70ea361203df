"""Admission by PodSecurityPolicies: who may use which policy, and which one admits a Pod.

Source: ``plugin/pkg/admission/security/podsecuritypolicy/admission.go`` of 1.24.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from pratique.admission.results import Answer, Edits, allow, deny
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
"""The API group of policies moved from the second to the first. Roles may still name the second."""


def may_use(review: Review, policy: str) -> bool:
    """Whether the Pod's ServiceAccount or the user may use a policy in the Pod's namespace."""
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
    """The users whose permissions count. The account comes first because it is the more common case."""
    account = pod_spec.service_account_name(review.object)
    if account:
        yield service_account_user(review.namespace, account)
    yield review.user


def service_account_user(namespace: str, name: str) -> UserInfo:
    """The user that a ServiceAccount authenticates as."""
    return UserInfo(
        f"system:serviceaccount:{namespace}:{name}",
        groups=("system:serviceaccounts", f"system:serviceaccounts:{namespace}"),
    )


class PolicyMatch(msgspec.Struct, frozen=True):
    """A policy that admits a Pod."""

    policy: str
    """Its name."""
    edits: Edits
    """The Pod with the policy's defaults."""


class NoPolicyMatch(msgspec.Struct, frozen=True):
    """No policy admits the Pod."""

    errors: tuple[FieldError, ...]
    """The errors of the usable policies. Policies that would admit the Pod with changes contribute none."""

    def __str__(self) -> str:
        """Formatted as Go prints a list of errors."""
        return f"[{' '.join(map(str, self.errors))}]"


def find_policy(
    pod: JSON,
    providers: Iterable[PolicyProvider],
    may_use: Callable[[str], bool],
    *,
    may_change: bool,
) -> PolicyMatch | NoPolicyMatch:
    """Find the policy that admits a Pod, among those that may be used.

    A policy that admits the Pod unchanged takes precedence over all that have to change it; otherwise the first one
    counts.

    Args:
        pod: The Pod.
        providers: The policies, in the order in which they are tried.
        may_use: Whether the policy of that name may be used; called as rarely as possible.
        may_change: Whether policies may change the Pod.

    Raises:
        RefusalError: A field of the Pod has the wrong type; 400.
    """
    changing: PolicyMatch | None = None
    refusals: list[tuple[str, list[FieldError]]] = []
    for provider in providers:
        name, edits = provider.policy.name, provider.with_defaults(pod)
        errors = provider.errors(edits.document)
        if errors:
            refusals.append((name, errors))
        elif not edits.changed:
            if may_use(name):
                return PolicyMatch(name, edits)
        elif may_change and changing is None and may_use(name):
            changing = PolicyMatch(name, edits)
    if changing is not None:
        return changing
    return NoPolicyMatch(tuple(error for name, errors in refusals if may_use(name) for error in errors))


POLICY_ANNOTATION = "kubernetes.io/psp"
"""The annotation of a Pod that names the policy that admitted it."""
AUDIT_PREFIX = "podsecuritypolicy.policy.k8s.io"

_GARBAGE_COLLECTION_FIELDS = ("ownerReferences", "finalizers", "selfLink", "managedFields")

_log = logging.getLogger(__name__)


class PodSecurityPolicyAdmission:
    """Admits Pods by the policies of a cluster."""

    def __init__(self, release: ReleaseBehavior) -> None:
        """Follow ``release``."""
        self._release = release
        # The policies of the last listing, and their providers: policies rarely change.
        self._read: tuple[Sequence[JSONObject], tuple[PolicyProvider, ...]] = ((), ())

    def mutate(self, review: Review) -> Answer:
        """Apply the defaults of the policy that admits a new Pod."""
        if _is_garbage_collection_update(review) or review.operation is not Operation.CREATE:
            return allow()
        match = self._choose(review, may_change=True)
        if isinstance(match, NoPolicyMatch):
            return self._refuse(self._release.refused_by_mutation, match)
        match.edits.set(("metadata", "annotations", POLICY_ANNOTATION), match.policy)
        return match.edits.answer(audit_annotations={f"{AUDIT_PREFIX}/admit-policy": match.policy})

    def validate(self, review: Review) -> Answer:
        """Deny a Pod that no policy admits unchanged. The policy that mutated it is tried first."""
        if _is_garbage_collection_update(review):
            return allow()
        match = self._choose(review, may_change=False)
        if isinstance(match, NoPolicyMatch):
            return self._refuse(self._release.refused_by_validation, match)
        return allow(audit_annotations={f"{AUDIT_PREFIX}/validate-policy": match.policy})

    def _choose(self, review: Review, *, may_change: bool) -> PolicyMatch | NoPolicyMatch:
        providers = self._providers(review)
        if not providers:
            text = f"{self._release.prefix}no providers available to validate pod request"
            raise RefusalError(statuses.admission_forbidden(review, text))
        if not may_change:
            hint = member(review.object, "metadata", "annotations", POLICY_ANNOTATION)
            # sorted() is stable: the hinted policy comes first, and all others keep their order by name.
            providers = tuple(sorted(providers, key=lambda provider: provider.policy.name != hint))
        allowed = functools.cache(functools.partial(may_use, review))
        return find_policy(review.object, providers, allowed, may_change=may_change)

    def _refuse(self, text: str, mismatch: NoPolicyMatch) -> Answer:
        return deny(f"{self._release.prefix}{text}: {mismatch}")

    def _providers(self, review: Review) -> tuple[PolicyProvider, ...]:
        """The valid policies by name."""
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
            _log.warning("an invalid policy is left out", extra={"reason": str(error)})
    return sorted(providers, key=lambda provider: provider.policy.name)


def _is_garbage_collection_update(review: Review) -> bool:
    """Whether an update is one that garbage collection makes.

    Raises:
        RefusalError: The object is not a Pod.
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
    """Drop the metadata that garbage collection changes: owners, finalizers and bookkeeping."""
    metadata = member(document, "metadata")
    if not isinstance(metadata, dict):
        return document
    kept = {name: value for name, value in metadata.items() if name not in _GARBAGE_COLLECTION_FIELDS}
    return {**document, "metadata": kept}
