"""Pods and workloads: which requests are evaluated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.admission.answers import Answer, allow
from pratique.admission.reviews import Operation, Review
from pratique.apimachinery import statuses
from pratique.apimachinery.json_values import JSON, JSONObject, member
from pratique.apimachinery.statuses import go_quoted
from pratique.controllers.pod_security.configuration import EXEMPT_RUNTIME_CLASS
from pratique.controllers.pod_security.evaluation import (
    ALLOWED_AS_PRIVILEGED,
    deny_with_error,
    allow_with_error,
    evaluate_policy,
    deny_undecodable,
)
from pratique.controllers.pod_security.pod_shapes import MistypedError, as_object, objects, read_pod, text
from pratique.controllers.pod_security.standards import PodSecurityLevel
from pratique.pods.containers import is_pod

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pratique.controllers.pod_security.configuration import PodSecuritySettings
    from pratique.controllers.pod_security.standards import LabeledPolicy

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
