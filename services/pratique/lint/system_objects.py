"""Practices about webhooks that stand in the way of the cluster itself."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from pratique.admission.reviews import Operation, UserInfo
from pratique.lint.rules import Breach, Practice, Severity
from pratique.lint.scopes import Sample, first_named, first_reached

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pratique.lint.rules import Hook, Subject

_SYSTEM = "kube-system"
_KUBELET = UserInfo("system:node:sample", groups=("system:nodes", "system:authenticated"))
_BY_KUBELET = functools.partial(Sample, user=_KUBELET)

SYSTEM_OBJECTS = (
    Sample(resource="pods", kind="Pod", namespace=_SYSTEM),
    Sample(group="apps", resource="replicasets", kind="ReplicaSet", namespace=_SYSTEM),
    Sample(group="apps", resource="deployments", kind="Deployment", namespace=_SYSTEM),
    Sample(group="apps", resource="daemonsets", kind="DaemonSet", namespace=_SYSTEM),
    Sample(resource="configmaps", kind="ConfigMap", operation=Operation.UPDATE, namespace=_SYSTEM),
)
LEASE_UPDATES = (
    _BY_KUBELET(
        group="coordination.k8s.io",
        resource="leases",
        kind="Lease",
        operation=Operation.UPDATE,
        namespace="kube-node-lease",
    ),
)
NODE_REQUESTS = (
    _BY_KUBELET(resource="nodes", kind="Node"),
    _BY_KUBELET(resource="nodes", subresource="status", kind="Node", operation=Operation.UPDATE),
    _BY_KUBELET(resource="nodes", kind="Node", operation=Operation.UPDATE),
)
_ACCESS_REVIEWS = (
    Sample(group="authentication.k8s.io", resource="tokenreviews", kind="TokenReview"),
    Sample(group="authorization.k8s.io", resource="subjectaccessreviews", kind="SubjectAccessReview"),
)
EVENT_REQUESTS = (
    Sample(resource="events", kind="Event", namespace="default"),
    Sample(group="events.k8s.io", resource="events", kind="Event", namespace="default"),
)
POD_STATUS_UPDATES = (
    Sample(
        resource="pods", subresource="status", kind="Pod", operation=Operation.UPDATE, namespace="default"
    ),
)
_MIRROR_PODS = (
    _BY_KUBELET(
        resource="pods",
        kind="Pod",
        namespace=_SYSTEM,
        annotations={"kubernetes.io/config.mirror": "sample", "kubernetes.io/config.source": "file"},
    ),
)


def _reaching(
    samples: Sequence[Sample], consequence: str, concerns: Callable[[Hook], bool]
) -> Callable[[Subject], Iterator[Breach]]:
    """Make the check that no webhook that is concerned is called for any of the requests."""

    def check(subject: Subject) -> Iterator[Breach]:
        for hook in subject.hooks:
            if concerns(hook) and (sample := first_reached(hook, samples, subject)):
                yield hook.breach(f"is called for {sample}: {consequence}", "rules")

    return check


def _access_reviews(subject: Subject) -> Iterator[Breach]:
    for hook in subject.hooks:
        if _may_break(hook) and (sample := first_named(hook, _ACCESS_REVIEWS, subject.cluster)):
            text = f"fits {sample}: an API server that asks webhooks about it may lock everybody out"
            yield hook.breach(text, "rules")


def _may_break(hook: Hook) -> bool:
    return hook.mutates or hook.fails_closed


KUBE_SYSTEM = Practice(
    rule="intercepts-kube-system",
    severity=Severity.WARNING,
    explanation="What runs in kube-system keeps the cluster up, and must not depend on a webhook.",
    fix="Exclude kube-system by namespaceSelector, or its Pods by objectSelector.",
    check=_reaching(SYSTEM_OBJECTS, "what keeps the cluster up depends on it", _may_break),
)
LEASES = Practice(
    rule="intercepts-node-leases",
    severity=Severity.ERROR,
    explanation="A node whose Lease is not renewed in time is taken for dead.",
    fix="Take leases out of the rules, or exclude kube-node-lease by namespaceSelector.",
    check=_reaching(
        LEASE_UPDATES, "a node whose Lease comes late or changed is taken for dead", lambda _: True
    ),
)
NODES = Practice(
    rule="intercepts-nodes",
    severity=Severity.WARNING,
    explanation="A kubelet whose Node is refused can neither join the cluster nor report.",
    fix="Take nodes out of the rules, leave out system:nodes by matchConditions, or set failurePolicy to Ignore.",
    check=_reaching(
        NODE_REQUESTS, "while it is down, no node can join or report", lambda hook: hook.fails_closed
    ),
)
ACCESS_REVIEWS = Practice(
    rule="intercepts-access-reviews",
    severity=Severity.ERROR,
    explanation="TokenReviews and SubjectAccessReviews only ask; where they fail or change, nobody gets in.",
    fix="Take the groups authentication.k8s.io and authorization.k8s.io out of the rules.",
    check=_access_reviews,
)
EVENTS = Practice(
    rule="intercepts-events",
    severity=Severity.WARNING,
    explanation="Events are many, and a webhook that causes Events calls itself by them.",
    fix="Take events out of the rules.",
    check=_reaching(EVENT_REQUESTS, "each Event that it causes calls it again", _may_break),
)
POD_STATUS = Practice(
    rule="intercepts-pod-status",
    severity=Severity.WARNING,
    explanation="When nodes fail, the status of many Pods changes at once, and traffic moves only as fast as that.",
    fix="Take pods/status out of the rules.",
    check=_reaching(
        POD_STATUS_UPDATES, "when a node fails, every Pod of it waits for this webhook", _may_break
    ),
)
MIRROR_PODS = Practice(
    rule="mutates-mirror-pods",
    severity=Severity.INFO,
    explanation="A mirror Pod shows a static Pod, which does not change with it.",
    fix="Leave out by matchConditions what has the annotation kubernetes.io/config.mirror, or exclude its namespace.",
    check=_reaching(
        _MIRROR_PODS, "the static Pod behind it does not change with it", lambda hook: hook.mutates
    ),
)
