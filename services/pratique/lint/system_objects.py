"""Practices about webhooks that stand in the way of the cluster itself."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from pratique.admission.reviews import Operation, UserInfo
from pratique.lint.rules import Violation, LintRule, Severity
from pratique.lint.scopes import SampleRequest, first_fitting, first_reached

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pratique.lint.rules import ConfiguredWebhook, LintContext

_SYSTEM_NAMESPACE = "kube-system"
_KUBELET = UserInfo("system:node:sample", groups=("system:nodes", "system:authenticated"))
_BY_KUBELET = functools.partial(SampleRequest, user=_KUBELET)

SYSTEM_OBJECTS = (
    SampleRequest(resource="pods", kind="Pod", namespace=_SYSTEM_NAMESPACE),
    SampleRequest(group="apps", resource="replicasets", kind="ReplicaSet", namespace=_SYSTEM_NAMESPACE),
    SampleRequest(group="apps", resource="deployments", kind="Deployment", namespace=_SYSTEM_NAMESPACE),
    SampleRequest(group="apps", resource="daemonsets", kind="DaemonSet", namespace=_SYSTEM_NAMESPACE),
    SampleRequest(resource="configmaps", kind="ConfigMap", operation=Operation.UPDATE, namespace=_SYSTEM_NAMESPACE),
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
    SampleRequest(group="authentication.k8s.io", resource="tokenreviews", kind="TokenReview"),
    SampleRequest(group="authorization.k8s.io", resource="subjectaccessreviews", kind="SubjectAccessReview"),
)
EVENT_REQUESTS = (
    SampleRequest(resource="events", kind="Event", namespace="default"),
    SampleRequest(group="events.k8s.io", resource="events", kind="Event", namespace="default"),
)
POD_STATUS_UPDATES = (
    SampleRequest(
        resource="pods", subresource="status", kind="Pod", operation=Operation.UPDATE, namespace="default"
    ),
)
_MIRROR_PODS = (
    _BY_KUBELET(
        resource="pods",
        kind="Pod",
        namespace=_SYSTEM_NAMESPACE,
        annotations={"kubernetes.io/config.mirror": "sample", "kubernetes.io/config.source": "file"},
    ),
)


def _interception_check(
    samples: Sequence[SampleRequest], consequence: str, concerns: Callable[[ConfiguredWebhook], bool]
) -> Callable[[LintContext], Iterator[Violation]]:
    """Make the check that no webhook that is concerned is called for any of the requests."""

    def check(context: LintContext) -> Iterator[Violation]:
        for hook in context.hooks:
            if concerns(hook) and (sample := first_reached(hook, samples, context)):
                yield hook.violation(f"is called for {sample}: {consequence}", "rules")

    return check


def _find_access_review_webhooks(context: LintContext) -> Iterator[Violation]:
    for hook in context.hooks:
        if _can_break(hook) and (sample := first_fitting(hook, _ACCESS_REVIEWS, context.cluster)):
            text = f"fits {sample}: an API server that asks webhooks about it may lock everybody out"
            yield hook.violation(text, "rules")


def _can_break(hook: ConfiguredWebhook) -> bool:
    return hook.mutates or hook.fails_closed


KUBE_SYSTEM = LintRule(
    rule="intercepts-kube-system",
    severity=Severity.WARNING,
    explanation="What runs in kube-system keeps the cluster up, and must not depend on a webhook.",
    fix="Exclude kube-system by namespaceSelector, or its Pods by objectSelector.",
    check=_interception_check(SYSTEM_OBJECTS, "what keeps the cluster up depends on it", _can_break),
)
LEASES = LintRule(
    rule="intercepts-node-leases",
    severity=Severity.ERROR,
    explanation="A node whose Lease is not renewed in time is taken for dead.",
    fix="Take leases out of the rules, or exclude kube-node-lease by namespaceSelector.",
    check=_interception_check(
        LEASE_UPDATES, "a node whose Lease comes late or changed is taken for dead", lambda _: True
    ),
)
NODES = LintRule(
    rule="intercepts-nodes",
    severity=Severity.WARNING,
    explanation="A kubelet whose Node is refused can neither join the cluster nor report.",
    fix="Take nodes out of the rules, leave out system:nodes by matchConditions, or set failurePolicy to Ignore.",
    check=_interception_check(
        NODE_REQUESTS, "while it is down, no node can join or report", lambda hook: hook.fails_closed
    ),
)
ACCESS_REVIEWS = LintRule(
    rule="intercepts-access-reviews",
    severity=Severity.ERROR,
    explanation="TokenReviews and SubjectAccessReviews only ask; where they fail or change, nobody gets in.",
    fix="Take the groups authentication.k8s.io and authorization.k8s.io out of the rules.",
    check=_find_access_review_webhooks,
)
EVENTS = LintRule(
    rule="intercepts-events",
    severity=Severity.WARNING,
    explanation="Events are many, and a webhook that causes Events calls itself by them.",
    fix="Take events out of the rules.",
    check=_interception_check(EVENT_REQUESTS, "each Event that it causes calls it again", _can_break),
)
POD_STATUS = LintRule(
    rule="intercepts-pod-status",
    severity=Severity.WARNING,
    explanation="When nodes fail, the status of many Pods changes at once, and traffic moves only as fast as that.",
    fix="Take pods/status out of the rules.",
    check=_interception_check(
        POD_STATUS_UPDATES, "when a node fails, every Pod of it waits for this webhook", _can_break
    ),
)
MIRROR_PODS = LintRule(
    rule="mutates-mirror-pods",
    severity=Severity.INFO,
    explanation="A mirror Pod shows a static Pod, which does not change with it.",
    fix="Leave out by matchConditions what has the annotation kubernetes.io/config.mirror, or exclude its namespace.",
    check=_interception_check(
        _MIRROR_PODS, "the static Pod behind it does not change with it", lambda hook: hook.mutates
    ),
)
