"""Evaluation: all that a level holds against a Pod, and what is answered in the three modes."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import msgspec

from pratique.admission.answers import Allow, Answer, Deny, allow, deny
from pratique.apimachinery import statuses
from pratique.apimachinery.field_errors import join
from pratique.apimachinery.json_values import member
from pratique.controllers.pod_security import baseline_checks, restricted_checks
from pratique.controllers.pod_security.checks import details
from pratique.controllers.pod_security.standards import LABEL_PREFIX, PRIVILEGED, PodSecurityLevel, LevelVersion

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pratique.admission.reviews import Review
    from pratique.apimachinery.statuses import Status
    from pratique.controllers.pod_security.checks import PodSecurityCheck, CheckPod, CheckResult, VersionedCheck
    from pratique.controllers.pod_security.pod_shapes import CheckedPod
    from pratique.controllers.pod_security.standards import LabeledPolicy

CHECKS: tuple[PodSecurityCheck, ...] = (
    baseline_checks.APP_ARMOR_PROFILE,
    baseline_checks.CAPABILITIES_BASELINE,
    baseline_checks.HOST_NAMESPACES,
    baseline_checks.HOST_PATH_VOLUMES,
    baseline_checks.HOST_PORTS,
    baseline_checks.HOST_PROBES_AND_HOST_LIFECYCLE,
    baseline_checks.PRIVILEGED,
    baseline_checks.BASELINE,
    baseline_checks.SE_LINUX_OPTIONS,
    baseline_checks.SECCOMP_PROFILE_BASELINE,
    baseline_checks.SYSCTLS,
    baseline_checks.WINDOWS_HOST_PROCESS,
    restricted_checks.ALLOW_PRIVILEGE_ESCALATION,
    restricted_checks.CAPABILITIES_RESTRICTED,
    baseline_checks.RESTRICTED,
    restricted_checks.RESTRICTED_VOLUMES,
    restricted_checks.RUN_AS_NON_ROOT,
    restricted_checks.RUN_AS_USER,
    restricted_checks.SECCOMP_PROFILE_RESTRICTED,
)
"""Every check, in the order in which findings are told: by level, and by id in each."""

NEWEST = max(revision.since for check in CHECKS for revision in check.revisions)
"""The last minor release that changed a check, which is what ``latest`` means."""


def evaluate(level_version: LevelVersion, pod: CheckedPod) -> tuple[CheckResult, ...]:
    """All that a level holds against a Pod; nothing where it may do what it does.

    Raises:
        MistypedError: a member of the Pod is of another type than its field.
    """
    minor = level_version.version.minor
    finders = _checks_of(level_version.level, NEWEST if minor is None else min(minor, NEWEST))
    return tuple([finding for find in finders if (finding := find(pod)) is not None])


@functools.cache
def _checks_of(level: PodSecurityLevel, minor: int) -> tuple[CheckPod, ...]:
    """What a level of a release looks at, worked out once."""
    if level is PodSecurityLevel.PRIVILEGED:
        return ()
    current = tuple(_current_checks(level, minor))
    overridden = {name for _, revision in current for name in revision.overrides}
    return tuple(revision.find for check, revision in current if check.id not in overridden)


def _current_checks(level: PodSecurityLevel, minor: int) -> Iterator[tuple[PodSecurityCheck, VersionedCheck]]:
    """The checks that a level has in a release, each as it was then."""
    for check in CHECKS:
        revisions = [revision for revision in check.revisions if revision.since <= minor]
        if revisions and check.level.strictness <= level.strictness:
            yield check, revisions[-1]


_ENFORCE_POLICY_ANNOTATION = f"{LABEL_PREFIX}enforce-policy"
_AUDIT_VIOLATIONS_ANNOTATION = f"{LABEL_PREFIX}audit-violations"
_ERROR_ANNOTATION = f"{LABEL_PREFIX}error"

ALLOWED_AS_PRIVILEGED = allow(audit_annotations={_ENFORCE_POLICY_ANNOTATION: str(PRIVILEGED)})
"""The answer to every Pod of a namespace that neither refuses nor tells anything."""


def evaluate_policy(labelled: LabeledPolicy, pod: CheckedPod, review: Review, *, enforce: bool) -> Answer:
    """Hold a Pod to a policy.

    Args:
        labelled: The policy of its namespace.
        pod: The Pod, or a template.
        review: The request that brought it.
        enforce: Refuse it; otherwise what is wrong is only told.

    Raises:
        MistypedError: a member of the Pod is of another type than its field.
    """
    policy = labelled.policy
    results: dict[LevelVersion, Sequence[CheckResult]] = {}

    def findings(level_version: LevelVersion) -> Sequence[CheckResult]:
        if level_version not in results:
            results[level_version] = evaluate(level_version, pod)
        return results[level_version]

    annotations: dict[str, str] = {}
    if labelled.errors:
        annotations[_ERROR_ANNOTATION] = f"Failed to parse policy: {join(labelled.errors)}"
    if enforce:
        annotations[_ENFORCE_POLICY_ANNOTATION] = str(policy.enforce)
    if audited := findings(policy.audit):
        annotations[_AUDIT_VIOLATIONS_ANNOTATION] = _violation_message("would violate", policy.audit, audited)
    if enforce and (forbidden := findings(policy.enforce)):
        status = _forbidden_status(review, _violation_message("violates", policy.enforce, forbidden))
        return deny(status=status, audit_annotations=annotations)
    warned = findings(policy.warn)
    warnings = (_violation_message("would violate", policy.warn, warned),) if warned else ()
    return Allow(warnings, annotations)


def _violation_message(verb: str, level_version: LevelVersion, findings: Sequence[CheckResult]) -> str:
    return f'{verb} PodSecurity "{level_version}": {details(findings)}'


def _forbidden_status(review: Review, text: str) -> Status:
    name = review.name or member(review.object, "metadata", "name") or ""
    return statuses.forbidden(review.resource.group, review.resource.resource, str(name), text)


def deny_with_error(review: Review, status: Status, error: str = "") -> Deny:
    """Refuse a request because the Pod or its namespace cannot be read; ``error`` says what of it."""
    text = f"{status.message}: {error}" if error else status.message
    if status.details is None:
        details_ = statuses.admission_forbidden(review, "").details
        status = msgspec.structs.replace(status, details=details_)
    return deny(status=status, audit_annotations={_ERROR_ANNOTATION: text})


def deny_undecodable(review: Review, what: str, error: str = "") -> Deny:
    """Refuse a request because ``what`` of it, such as ``old object``, is not what it should be."""
    return deny_with_error(review, statuses.bad_request(f"failed to decode {what}"), error)


def allow_with_error(error: str) -> Allow:
    """Let a workload through that cannot be looked at, because its Pods will be."""
    return allow(audit_annotations={_ERROR_ANNOTATION: error})
