"""Namespaces: their labels have to be right, and who makes them stricter is told of Pods that are not so.

Source: ``k8s.io/pod-security-admission/admission/admission.go`` ``ValidateNamespace``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique import statuses
from pratique.answers import Allow, Answer, allow, deny, warn
from pratique.json_values import JSON, member
from pratique.pod_security import existing_pods
from pratique.pod_security.levels import Level
from pratique.pod_security.policies import is_labelled
from pratique.pod_security.verdicts import undecodable
from pratique.reviews import Operation, Review

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from pratique.pod_security.configurations import Standards
    from pratique.pod_security.levels import LevelVersion
    from pratique.pod_security.policies import Labelled, Policy


def validate_namespace(standards: Standards, review: Review) -> Answer | Awaitable[Answer]:
    """Refuse labels that cannot be read, and warn of what a new level means for the Pods that are there."""
    if review.subresource:
        return allow()
    wrong = _not_a_namespace(review.object)
    if wrong:
        return undecodable(review, wrong)
    new = standards.policies.of(review.object)
    if review.operation is Operation.CREATE:
        return _invalid(review, new) if new.errors else _warn_if_exempt(standards, review, new.policy)
    wrong = _not_a_namespace(review.old_object)
    if wrong:
        # Kubernetes' own text has two spaces.
        return undecodable(review, f" old {wrong}")
    return _updated(standards, review, new, standards.policies.of(review.old_object))


def _updated(
    standards: Standards, review: Review, new: Labelled, old: Labelled
) -> Answer | Awaitable[Answer]:
    if new.errors and new.errors != old.errors:
        return _invalid(review, new)
    if not _is_stricter(new.policy.enforce, old.policy.enforce):
        return allow()
    if _is_exempt(standards, review):
        return _warn_if_exempt(standards, review, new.policy)
    return _warn_of_pods(standards, review, new.policy.enforce)


def _not_a_namespace(document: JSON) -> str:
    """What cannot be decoded; empty where the document is a Namespace."""
    if not isinstance(document, dict):
        return "object"
    return "" if document.get("kind", "Namespace") == "Namespace" else "namespace"


def _invalid(review: Review, labelled: Labelled) -> Answer:
    kind = review.kind
    return deny(status=statuses.invalid(kind.group, kind.kind, _name(review), labelled.errors))


def _is_stricter(new: LevelVersion, old: LevelVersion) -> bool:
    """Tell whether Pods may be refused that were not. Of different versions it is not known which is stricter."""
    if new == old or new.level is Level.PRIVILEGED:
        return False
    return new.version != old.version or new.level.strictness > old.level.strictness


def _is_exempt(standards: Standards, review: Review) -> bool:
    # To an API server, a Namespace is in the namespace of its own name.
    return (review.namespace or _name(review)) in standards.exempt.namespaces


def _warn_if_exempt(standards: Standards, review: Review, policy: Policy) -> Allow:
    """Say that labels have no effect, where that is so."""
    if not _is_exempt(standards, review):
        return allow()
    if policy.is_fully_privileged or policy.is_equivalent(standards.policies.defaults):
        return allow()
    modes = {"enforce": policy.enforce, "audit": policy.audit, "warn": policy.warn}
    said = [
        f"{mode}={level_version}"
        for mode, level_version in modes.items()
        if level_version.level is not Level.PRIVILEGED and is_labelled(review.object, mode)
    ]
    return warn(
        f'namespace "{_name(review)}" is exempt from Pod Security, and the policy ({", ".join(said)}) will be ignored'
    )


async def _warn_of_pods(standards: Standards, review: Review, enforce: LevelVersion) -> Answer:
    name = _name(review)
    pods = review.cluster.list("", "pods", name)
    return warn(*await existing_pods.warnings_of(pods, standards.exempt, enforce, name))


def _name(review: Review) -> str:
    return str(review.name or member(review.object, "metadata", "name") or "")
