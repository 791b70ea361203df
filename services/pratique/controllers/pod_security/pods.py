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
    join_details,
    object_list,
    read_pod,
    string_field,
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
    baseline_checks.PROC_MOUNT_BASELINE,
    baseline_checks.SE_LINUX_OPTIONS,
    baseline_checks.SECCOMP_PROFILE_BASELINE,
    baseline_checks.SYSCTLS,
    baseline_checks.WINDOWS_HOST_PROCESS,
    restricted_checks.ALLOW_PRIVILEGE_ESCALATION,
    restricted_checks.CAPABILITIES_RESTRICTED,
    baseline_checks.PROC_MOUNT_RESTRICTED,
    restricted_checks.RESTRICTED_VOLUMES,
    restricted_checks.RUN_AS_NON_ROOT,
    restricted_checks.RUN_AS_USER,
    restricted_checks.SECCOMP_PROFILE_RESTRICTED,
)
"""All checks in the order of reporting: by level, then by id."""

NEWEST = max(version.minimum_minor for check in CHECKS for version in check.versions)
"""The last minor release that changed a check; ``latest`` means this one."""


def evaluate(level_version: LevelVersion, pod: CheckedPod) -> tuple[CheckResult, ...]:
    """What a level forbids in a Pod; empty if it allows the Pod.

    Raises:
        MistypedError: A field of the Pod has the wrong type.
    """
    minor = level_version.version.minor
    checks = _checks_of(level_version.level, NEWEST if minor is None else min(minor, NEWEST))
    return tuple([violation for check_pod in checks if (violation := check_pod(pod)) is not None])


@functools.cache
def _checks_of(level: PodSecurityLevel, minor: int) -> tuple[CheckPod, ...]:
    """The checks of a level in a release, cached."""
    if level is PodSecurityLevel.PRIVILEGED:
        return ()
    current = tuple(_current_checks(level, minor))
    overridden = {name for _, version in current for name in version.override_check_ids}
    return tuple(version.check_pod for check, version in current if check.id not in overridden)


def _current_checks(level: PodSecurityLevel, minor: int) -> Iterator[tuple[PodSecurityCheck, VersionedCheck]]:
    """The checks of a level in a release, each in the form it had then."""
    for check in CHECKS:
        versions = [version for version in check.versions if version.minimum_minor <= minor]
        if versions and check.level.strictness <= level.strictness:
            yield check, versions[-1]


_ENFORCE_POLICY_ANNOTATION = f"{LABEL_PREFIX}enforce-policy"
_AUDIT_VIOLATIONS_ANNOTATION = f"{LABEL_PREFIX}audit-violations"
_ERROR_ANNOTATION = f"{LABEL_PREFIX}error"

PRIVILEGED_ANSWER = allow(audit_annotations={_ENFORCE_POLICY_ANNOTATION: str(PRIVILEGED)})
"""The answer to every Pod in a namespace whose policy is fully privileged."""


def evaluate_policy(labeled: LabeledPolicy, pod: CheckedPod, review: Review, *, enforce: bool) -> Answer:
    """Evaluate a Pod against the policy of its namespace.

    Args:
        labeled: The policy.
        pod: The Pod, or a template.
        review: The request.
        enforce: Deny violations of the enforced level. False: only audit and warn.

    Raises:
        MistypedError: A field of the Pod has the wrong type.
    """
    policy = labeled.policy
    results: dict[LevelVersion, Sequence[CheckResult]] = {}

    def violations(level_version: LevelVersion) -> Sequence[CheckResult]:
        if level_version not in results:
            results[level_version] = evaluate(level_version, pod)
        return results[level_version]

    annotations: dict[str, str] = {}
    if labeled.errors:
        annotations[_ERROR_ANNOTATION] = f"Failed to parse policy: {join(labeled.errors)}"
    if enforce:
        annotations[_ENFORCE_POLICY_ANNOTATION] = str(policy.enforce)
    if audited := violations(policy.audit):
        annotations[_AUDIT_VIOLATIONS_ANNOTATION] = _violation_message("would violate", policy.audit, audited)
    if enforce and (forbidden := violations(policy.enforce)):
        status = _forbidden_status(review, _violation_message("violates", policy.enforce, forbidden))
        return deny(status=status, audit_annotations=annotations)
    warned = violations(policy.warn)
    warnings = (_violation_message("would violate", policy.warn, warned),) if warned else ()
    return Allow(warnings, annotations)


def _violation_message(verb: str, level_version: LevelVersion, violations: Sequence[CheckResult]) -> str:
    return f'{verb} PodSecurity "{level_version}": {join_details(violations)}'


def _forbidden_status(review: Review, text: str) -> Status:
    name = review.name or member(review.object, "metadata", "name") or ""
    return statuses.forbidden(review.resource.group, review.resource.resource, str(name), text)


def deny_with_error(review: Review, status: Status, error: str = "") -> Deny:
    """Deny a request because its Pod or namespace cannot be read; ``error`` has the details."""
    text = f"{status.message}: {error}" if error else status.message
    if status.details is None:
        details = statuses.admission_forbidden(review, "").details
        status = msgspec.structs.replace(status, details=details)
    return deny(status=status, audit_annotations={_ERROR_ANNOTATION: text})


def deny_undecodable(review: Review, what: str, error: str = "") -> Deny:
    """Deny a request because ``what``, such as ``old object``, cannot be decoded."""
    return deny_with_error(review, statuses.bad_request(f"failed to decode {what}"), error)


def allow_with_error(error: str) -> Allow:
    """Admit a workload that cannot be evaluated: its Pods will be."""
    return allow(audit_annotations={_ERROR_ANNOTATION: error})


_IGNORED_SUBRESOURCES = frozenset(
    {"exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"}
)
"""All other subresources carry a Pod."""


def validate_pod(settings: PodSecuritySettings, review: Review) -> Answer:
    """Deny a Pod that violates the enforced level of its namespace, and warn about violations of the warn level."""
    if review.subresource in _IGNORED_SUBRESOURCES:
        return allow()
    exempt = settings.exempt.answer_for(review)
    if exempt is not None:
        return exempt
    name = review.namespace
    namespace = review.cluster.get("", "namespaces", name)
    if namespace is None:
        status = statuses.internal_error(f"failed to lookup namespace {go_quoted(name)}")
        return deny_with_error(review, status, not_found(name))
    labeled = settings.policies.policy_of(namespace)
    if labeled.policy.is_fully_privileged and not labeled.errors:
        return PRIVILEGED_ANSWER
    return _evaluate_pod(settings, labeled, review)


def not_found(namespace: str) -> str:
    """The message for a missing Namespace."""
    return statuses.not_found("", "namespaces", namespace).message


def _evaluate_pod(settings: PodSecuritySettings, labeled: LabeledPolicy, review: Review) -> Answer:
    updating = review.operation is Operation.UPDATE
    undecoded = _undecodable_pod(review.object)
    if not undecoded and updating:
        old = _undecodable_pod(review.old_object)
        undecoded = f"old {old}" if old else ""
    if undecoded:
        return deny_undecodable(review, undecoded)
    try:
        if updating and not _is_significant_update(review.object, review.old_object):
            return allow()
        pod = read_pod(review.object)
        if settings.exempt.has_runtime_class(pod.spec):
            return EXEMPT_RUNTIME_CLASS
        return evaluate_policy(labeled, pod, review, enforce=True)
    except MistypedError as error:
        return deny_undecodable(review, "object", str(error))


def _undecodable_pod(document: JSON) -> str:
    """The part of the request that cannot be decoded; empty if the document is a Pod."""
    if not isinstance(document, dict):
        return "object"
    return "" if is_pod(document) else "pod"


def _is_significant_update(pod: JSONObject, old: JSONObject) -> bool:
    """Whether an update changes containers or images; no other mutable field matters to a level."""
    spec, old_spec = as_object(pod.get("spec"), "spec"), as_object(old.get("spec"), "spec")
    if any(_images(spec, field) != _images(old_spec, field) for field in ("containers", "initContainers")):
        return True
    # Reversed, because the first container of a name counts.
    known = {
        string_field(container, "name"): string_field(container, "image")
        for container in reversed(object_list(old_spec, "ephemeralContainers"))
    }
    return any(
        known.get(string_field(container, "name")) != string_field(container, "image")
        for container in object_list(spec, "ephemeralContainers")
    )


def _images(spec: JSONObject, field: str) -> list[str]:
    return [string_field(container, "image") for container in object_list(spec, field)]


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
"""By group and resource: the workload's kind, and the path of its template."""


def validate_workload(settings: PodSecuritySettings, review: Review) -> Answer:
    """Warn about and audit the Pods that a workload will create."""
    if review.subresource:
        return allow()
    exempt = settings.exempt.answer_for(review)
    if exempt is not None:
        return exempt
    name = review.namespace
    namespace = review.cluster.get("", "namespaces", name)
    if namespace is None:
        return allow_with_error(f"failed to lookup namespace {go_quoted(name)}: {not_found(name)}")
    labeled = settings.policies.policy_of(namespace)
    policy = labeled.policy
    if policy.warn.level is policy.audit.level is PodSecurityLevel.PRIVILEGED and not labeled.errors:
        return allow()
    try:
        return _evaluate_template(settings, labeled, review)
    except MistypedError as error:
        return allow_with_error(f"failed to decode object: {error}")


def _evaluate_template(settings: PodSecuritySettings, labeled: LabeledPolicy, review: Review) -> Answer:
    workload = review.object
    kind, path = WORKLOADS[review.resource.group, review.resource.resource]
    if not isinstance(workload, dict) or workload.get("kind", kind) != kind:
        return allow_with_error(f"failed to decode object: unexpected type {_go_type(workload)}")
    template = _template(workload, path)
    if template is None:
        return allow()
    pod = read_pod(template, is_template=True)
    if settings.exempt.has_runtime_class(pod.spec):
        return EXEMPT_RUNTIME_CLASS
    return evaluate_policy(labeled, pod, review, enforce=False)


def _template(workload: JSONObject, path: tuple[str, ...]) -> JSONObject | None:
    """The template of a workload; None if it has none."""
    holder = workload
    for name in path[:-1]:
        holder = as_object(holder.get(name), name)
    template = holder.get(path[-1])
    return None if template is None else as_object(template, path[-1])


def _go_type(document: JSON) -> str:
    """The Go type of an object of an unexpected kind."""
    kind = member(document, "kind")
    if not kind:
        return "<nil>"
    group, slash, _ = str(member(document, "apiVersion") or "").partition("/")
    return f"*{group.partition('.')[0] if slash else 'core'}.{kind}"
