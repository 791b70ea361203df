"""Pods and workloads: which requests are evaluated, against which checks, and what is answered in the three modes.

Source: ``k8s.io/pod-security-admission/policy/registry.go`` and ``…/admission/admission.go``.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from pratique.admission.results import Allow, Answer, Deny, allow, deny
from pratique.admission.reviews import Review
from pratique.apimachinery import statuses
from pratique.apimachinery.field_errors import join
from pratique.apimachinery.json_values import JSON, JSONObject, member
from pratique.apimachinery.requests import Operation
from pratique.apimachinery.statuses import Status, go_quoted
from pratique.controllers.pod_security import baseline_checks, restricted_checks
from pratique.controllers.pod_security.checks import (
    MistypedError,
    as_object,
    details,
    objects,
    read_pod,
    text,
)
from pratique.controllers.pod_security.configuration import EXEMPT_RUNTIME_CLASS
from pratique.controllers.pod_security.standards import (
    LABEL_PREFIX,
    PRIVILEGED,
    LevelVersion,
    PodSecurityLevel,
)
from pratique.pods.pod_spec import is_pod

if TYPE_CHECKING:
    from pratique.controllers.pod_security.checks import (
        CheckedPod,
        CheckPod,
        CheckResult,
        PodSecurityCheck,
        VersionedCheck,
    )
    from pratique.controllers.pod_security.configuration import PodSecuritySettings
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


_IGNORED_SUBRESOURCES = frozenset(
    {"exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"}
)
"""All others bring a Pod."""


def validate_pod(standards: PodSecuritySettings, review: Review) -> Answer:
    """Refuse a Pod that does what its namespace forbids, and tell what it warns of."""
    if review.subresource in _IGNORED_SUBRESOURCES:
        return allow()
    exempt = standards.exempt.answer_to(review)
    if exempt is not None:
        return exempt
    name = review.namespace
    namespace = review.cluster.get("", "namespaces", name)
    if namespace is None:
        status = statuses.internal_error(f"failed to lookup namespace {go_quoted(name)}")
        return deny_with_error(review, status, not_found(name))
    labelled = standards.policies.of(namespace)
    if labelled.policy.is_fully_privileged and not labelled.errors:
        return ALLOWED_AS_PRIVILEGED
    return _evaluate_pod(standards, labelled, review)


def not_found(namespace: str) -> str:
    """Say that there is no such Namespace."""
    return statuses.not_found("", "namespaces", namespace).message


def _evaluate_pod(standards: PodSecuritySettings, labelled: LabeledPolicy, review: Review) -> Answer:
    updating = review.operation is Operation.UPDATE
    wrong = _undecodable_pod(review.object)
    if not wrong and updating:
        old = _undecodable_pod(review.old_object)
        wrong = f"old {old}" if old else ""
    if wrong:
        return deny_undecodable(review, wrong)
    try:
        if updating and not _is_significant_update(review.object, review.old_object):
            return allow()
        pod = read_pod(review.object)
        if standards.exempt.has_runtime_class(pod.spec):
            return EXEMPT_RUNTIME_CLASS
        return evaluate_policy(labelled, pod, review, enforce=True)
    except MistypedError as error:
        return deny_undecodable(review, "object", str(error))


def _undecodable_pod(document: JSON) -> str:
    """What cannot be decoded; empty where the document is a Pod."""
    if not isinstance(document, dict):
        return "object"
    return "" if is_pod(document) else "pod"


def _is_significant_update(pod: JSONObject, old: JSONObject) -> bool:
    """Tell whether an update brings containers or images, the only things that can be changed and matter."""
    spec, old_spec = as_object(pod.get("spec"), "spec"), as_object(old.get("spec"), "spec")
    if any(_images(spec, field) != _images(old_spec, field) for field in ("containers", "initContainers")):
        return True
    # Reversed, because the first of a name counts.
    known = {
        text(each, "name"): text(each, "image") for each in reversed(objects(old_spec, "ephemeralContainers"))
    }
    return any(
        known.get(text(each, "name")) != text(each, "image") for each in objects(spec, "ephemeralContainers")
    )


def _images(spec: JSONObject, field: str) -> list[str]:
    return [text(each, "image") for each in objects(spec, field)]


_SPEC_TEMPLATE = ("spec", "template")

WORKLOADS: Mapping[tuple[str, str], tuple[str, tuple[str, ...]]] = {
    ("", "replicationcontrollers"): ("ReplicationController", _SPEC_TEMPLATE),
    ("", "podtemplates"): ("PodTemplate", ("template",)),
    ("apps", "replicasets"): ("ReplicaSet", _SPEC_TEMPLATE),
    ("apps", "deployments"): ("Deployment", _SPEC_TEMPLATE),
    ("apps", "statefulsets"): ("StatefulSet", _SPEC_TEMPLATE),
    ("apps", "daemonsets"): ("DaemonSet", _SPEC_TEMPLATE),
    ("batch", "jobs"): ("Job", _SPEC_TEMPLATE),
    ("batch", "cronjobs"): ("CronJob", ("spec", "jobTemplate", *_SPEC_TEMPLATE)),
}
"""By group and resource, the kind of the workload, and where it has its template."""


def validate_workload(standards: PodSecuritySettings, review: Review) -> Answer:
    """Tell what its namespace has against the Pods that a workload is going to make."""
    if review.subresource:
        return allow()
    exempt = standards.exempt.answer_to(review)
    if exempt is not None:
        return exempt
    name = review.namespace
    namespace = review.cluster.get("", "namespaces", name)
    if namespace is None:
        return allow_with_error(f"failed to lookup namespace {go_quoted(name)}: {not_found(name)}")
    labelled = standards.policies.of(namespace)
    policy = labelled.policy
    if policy.warn.level is policy.audit.level is PodSecurityLevel.PRIVILEGED and not labelled.errors:
        return allow()
    try:
        return _evaluate_template(standards, labelled, review)
    except MistypedError as error:
        return allow_with_error(f"failed to decode object: {error}")


def _evaluate_template(standards: PodSecuritySettings, labelled: LabeledPolicy, review: Review) -> Answer:
    workload = review.object
    kind, path = WORKLOADS[review.resource.group, review.resource.resource]
    if not isinstance(workload, dict) or workload.get("kind", kind) != kind:
        return allow_with_error(f"failed to decode object: unexpected type {_go_type(workload)}")
    template = _template(workload, path)
    if template is None:
        return allow()
    pod = read_pod(template, is_template=True)
    if standards.exempt.has_runtime_class(pod.spec):
        return EXEMPT_RUNTIME_CLASS
    return evaluate_policy(labelled, pod, review, enforce=False)


def _template(workload: JSONObject, path: tuple[str, ...]) -> JSONObject | None:
    """The template of a workload; None where it has none."""
    found = workload
    for name in path[:-1]:
        found = as_object(found.get(name), name)
    template = found.get(path[-1])
    return None if template is None else as_object(template, path[-1])


def _go_type(document: JSON) -> str:
    """What Go calls the type of an object that is not the one expected."""
    kind = member(document, "kind")
    if not kind:
        return "<nil>"
    group, slash, _ = str(member(document, "apiVersion") or "").partition("/")
    return f"*{group.partition('.')[0] if slash else 'core'}.{kind}"
