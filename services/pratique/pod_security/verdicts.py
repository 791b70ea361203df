"""Verdicts: what is answered to a Pod, in the three modes of its namespace's policy.

Source: ``k8s.io/pod-security-admission/admission/admission.go`` ``EvaluatePod``, ``response.go``, and
``plugin/pkg/admission/security/podsecurity/admission.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pratique import statuses
from pratique.answers import Allow, Answer, Deny, allow, deny
from pratique.field_errors import join
from pratique.json_values import member
from pratique.pod_security.evaluators import evaluate
from pratique.pod_security.findings import details
from pratique.pod_security.levels import PRIVILEGED
from pratique.pod_security.policies import PREFIX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pratique.pod_security.findings import Finding
    from pratique.pod_security.levels import LevelVersion
    from pratique.pod_security.pod_shapes import PodShape
    from pratique.pod_security.policies import Labelled
    from pratique.reviews import Review
    from pratique.statuses import Status

_ENFORCED = f"{PREFIX}enforce-policy"
_VIOLATIONS = f"{PREFIX}audit-violations"
_ERROR = f"{PREFIX}error"

NOTHING_FORBIDDEN = allow(audit_annotations={_ENFORCED: str(PRIVILEGED)})
"""The answer to every Pod of a namespace that neither refuses nor tells anything."""


def judge(labelled: Labelled, pod: PodShape, review: Review, *, enforce: bool) -> Answer:
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
    results: dict[LevelVersion, Sequence[Finding]] = {}

    def findings(level_version: LevelVersion) -> Sequence[Finding]:
        if level_version not in results:
            results[level_version] = evaluate(level_version, pod)
        return results[level_version]

    annotations: dict[str, str] = {}
    if labelled.errors:
        annotations[_ERROR] = f"Failed to parse policy: {join(labelled.errors)}"
    if enforce:
        annotations[_ENFORCED] = str(policy.enforce)
    if audited := findings(policy.audit):
        annotations[_VIOLATIONS] = _violation("would violate", policy.audit, audited)
    if enforce and (forbidden := findings(policy.enforce)):
        status = _forbidden(review, _violation("violates", policy.enforce, forbidden))
        return deny(status=status, audit_annotations=annotations)
    warned = findings(policy.warn)
    warnings = (_violation("would violate", policy.warn, warned),) if warned else ()
    return Allow(warnings, annotations)


def _violation(verb: str, level_version: LevelVersion, findings: Sequence[Finding]) -> str:
    return f'{verb} PodSecurity "{level_version}": {details(findings)}'


def _forbidden(review: Review, text: str) -> Status:
    name = review.name or member(review.object, "metadata", "name") or ""
    return statuses.forbidden(review.resource.group, review.resource.resource, str(name), text)


def cannot_judge(review: Review, status: Status, error: str = "") -> Deny:
    """Refuse a request because the Pod or its namespace cannot be read; ``error`` says what of it."""
    text = f"{status.message}: {error}" if error else status.message
    if status.details is None:
        details_ = statuses.admission_forbidden(review, "").details
        status = msgspec.structs.replace(status, details=details_)
    return deny(status=status, audit_annotations={_ERROR: text})


def undecodable(review: Review, what: str, error: str = "") -> Deny:
    """Refuse a request because ``what`` of it, such as ``old object``, is not what it should be."""
    return cannot_judge(review, statuses.bad_request(f"failed to decode {what}"), error)


def cannot_tell(error: str) -> Allow:
    """Let a workload through that cannot be looked at, because its Pods will be."""
    return allow(audit_annotations={_ERROR: error})
