"""Pods: those that are made, and those that get other containers or images.

Source: ``k8s.io/pod-security-admission/admission/admission.go`` ``ValidatePod``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique import statuses
from pratique.answers import Answer, allow
from pratique.pod_security.exemptions import BY_RUNTIME_CLASS
from pratique.pod_security.pod_shapes import MistypedError, as_object, objects, read_pod, text
from pratique.pod_security.verdicts import NOTHING_FORBIDDEN, cannot_judge, judge, undecodable
from pratique.pods import is_pod
from pratique.reviews import Operation, Review
from pratique.statuses import go_quoted

if TYPE_CHECKING:
    from pratique.json_values import JSON, JSONObject
    from pratique.pod_security.configurations import Standards
    from pratique.pod_security.policies import Labelled

_IGNORED_SUBRESOURCES = frozenset(
    {"exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"}
)
"""All others bring a Pod."""


def validate_pod(standards: Standards, review: Review) -> Answer:
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
        return cannot_judge(review, status, not_found(name))
    labelled = standards.policies.of(namespace)
    if labelled.policy.is_fully_privileged and not labelled.errors:
        return NOTHING_FORBIDDEN
    return _judged(standards, labelled, review)


def not_found(namespace: str) -> str:
    """Say that there is no such Namespace."""
    return statuses.not_found("", "namespaces", namespace).message


def _judged(standards: Standards, labelled: Labelled, review: Review) -> Answer:
    updating = review.operation is Operation.UPDATE
    wrong = _not_a_pod(review.object)
    if not wrong and updating:
        old = _not_a_pod(review.old_object)
        wrong = f"old {old}" if old else ""
    if wrong:
        return undecodable(review, wrong)
    try:
        if updating and not _is_significant(review.object, review.old_object):
            return allow()
        pod = read_pod(review.object)
        if standards.exempt.has_runtime_class(pod.spec):
            return BY_RUNTIME_CLASS
        return judge(labelled, pod, review, enforce=True)
    except MistypedError as error:
        return undecodable(review, "object", str(error))


def _not_a_pod(document: JSON) -> str:
    """What cannot be decoded; empty where the document is a Pod."""
    if not isinstance(document, dict):
        return "object"
    return "" if is_pod(document) else "pod"


def _is_significant(pod: JSONObject, old: JSONObject) -> bool:
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
