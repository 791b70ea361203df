"""Templates: the Pods that a workload is going to make. What is wrong with them is told, and nothing is refused.

Source: ``k8s.io/pod-security-admission/admission/admission.go`` ``ValidatePodController`` and
``DefaultPodSpecExtractor``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.answers import Answer, allow
from pratique.json_values import JSON, JSONObject, member
from pratique.pod_security.exemptions import BY_RUNTIME_CLASS
from pratique.pod_security.levels import Level
from pratique.pod_security.pod_shapes import MistypedError, as_object, read_pod
from pratique.pod_security.pods import not_found
from pratique.pod_security.verdicts import cannot_tell, judge
from pratique.statuses import go_quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pratique.pod_security.configurations import Standards
    from pratique.pod_security.policies import Labelled
    from pratique.reviews import Review

_IN_SPEC = ("spec", "template")

WORKLOADS: Mapping[tuple[str, str], tuple[str, tuple[str, ...]]] = {
    ("", "replicationcontrollers"): ("ReplicationController", _IN_SPEC),
    ("", "podtemplates"): ("PodTemplate", ("template",)),
    ("apps", "replicasets"): ("ReplicaSet", _IN_SPEC),
    ("apps", "deployments"): ("Deployment", _IN_SPEC),
    ("apps", "statefulsets"): ("StatefulSet", _IN_SPEC),
    ("apps", "daemonsets"): ("DaemonSet", _IN_SPEC),
    ("batch", "jobs"): ("Job", _IN_SPEC),
    ("batch", "cronjobs"): ("CronJob", ("spec", "jobTemplate", *_IN_SPEC)),
}
"""By group and resource, the kind of the workload, and where it has its template."""


def validate_workload(standards: Standards, review: Review) -> Answer:
    """Tell what its namespace has against the Pods that a workload is going to make."""
    if review.subresource:
        return allow()
    exempt = standards.exempt.answer_to(review)
    if exempt is not None:
        return exempt
    name = review.namespace
    namespace = review.cluster.get("", "namespaces", name)
    if namespace is None:
        return cannot_tell(f"failed to lookup namespace {go_quoted(name)}: {not_found(name)}")
    labelled = standards.policies.of(namespace)
    policy = labelled.policy
    if policy.warn.level is policy.audit.level is Level.PRIVILEGED and not labelled.errors:
        return allow()
    try:
        return _judged(standards, labelled, review)
    except MistypedError as error:
        return cannot_tell(f"failed to decode object: {error}")


def _judged(standards: Standards, labelled: Labelled, review: Review) -> Answer:
    workload = review.object
    kind, path = WORKLOADS[review.resource.group, review.resource.resource]
    if not isinstance(workload, dict) or workload.get("kind", kind) != kind:
        return cannot_tell(f"failed to decode object: unexpected type {_go_type(workload)}")
    template = _template(workload, path)
    if template is None:
        return allow()
    pod = read_pod(template, is_template=True)
    if standards.exempt.has_runtime_class(pod.spec):
        return BY_RUNTIME_CLASS
    return judge(labelled, pod, review, enforce=False)


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
