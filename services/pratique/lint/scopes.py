"""Rules about the requests that a webhook is called for.

Which kinds and versions its rules name, and which requests of Kubernetes' own components reach it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from pratique.admission.reviews import Review
from pratique.admission.rules import Rule, compile_rules
from pratique.apimachinery.json_values import Document, JSONObject
from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource
from pratique.apimachinery.requests import Operation, UserInfo
from pratique.apimachinery.selectors import EVERYTHING, LabelSelector, compile_selector, labels_of
from pratique.apimachinery.statuses import qualified_resource
from pratique.cluster.api_resources import VIRTUAL_RESOURCES, ApiResources, types_of_definition
from pratique.cluster.store import Cluster
from pratique.lint.rules import ConfiguredWebhook, LintContext, LintRule, Severity, Violation

_NAME = "sample"
_CONTROLLER_MANAGER = UserInfo("system:kube-controller-manager", groups=("system:authenticated",))


@dataclasses.dataclass(frozen=True, kw_only=True)
class SampleRequest:
    """A typical request of a system component."""

    group: str = ""
    version: str = "v1"
    resource: str
    subresource: str = ""
    kind: str
    operation: Operation = Operation.CREATE
    namespace: str = ""
    """Empty for cluster-scoped resources."""
    user: UserInfo = _CONTROLLER_MANAGER
    annotations: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __str__(self) -> str:
        named = qualified_resource(self.group, self.resource)
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.operation} of {named}{'/' * bool(self.subresource)}{self.subresource}{where}"

    @functools.cached_property
    def made(self) -> Review:
        """The review of this request, always the same object, so that its result can be cached."""
        return self.review()

    def versions(self, resources: ApiResources) -> Iterator[SampleRequest]:
        """Yield the request in each group and version in which a current API server accepts it."""
        requested = GroupVersionResource(self.group, self.version, self.resource)
        for equivalent in resources.equivalents(requested, self.subresource):
            known = resources.for_resource(equivalent, self.subresource)
            if known is not None and known.served and known.removed_in is None:
                yield dataclasses.replace(self, group=equivalent.group, version=equivalent.version)

    def review(self) -> Review:
        """Make the review of this request."""
        document = Document.from_data(self._object())
        return Review(
            uid=_NAME,
            operation=self.operation,
            kind=GroupVersionKind(self.group, self.version, self.kind),
            resource=GroupVersionResource(self.group, self.version, self.resource),
            subresource=self.subresource,
            name=_NAME,
            namespace=self.namespace,
            user=self.user,
            object_document=document,
            old_object_document=Document.from_data(self._object() if self.operation == "UPDATE" else None),
        )

    def _object(self) -> JSONObject:
        return {
            "apiVersion": f"{self.group}/{self.version}".lstrip("/"),
            "kind": self.kind,
            "metadata": {
                "name": _NAME,
                "namespace": self.namespace,
                "annotations": dict(self.annotations),
            },
        }


def first_reached(
    hook: ConfiguredWebhook, samples: Iterable[SampleRequest], context: LintContext
) -> SampleRequest | None:
    """The first request that a webhook would be called for; None if it is called for none.

    The chain decides, with its enabled controllers. Whatever the match policy, a client may use any served version.
    """
    return next(
        (
            version
            for sample in samples
            for version in context.versions(sample)
            if context.is_reached(hook, version.made)
        ),
        None,
    )


def first_fitting(
    hook: ConfiguredWebhook, samples: Iterable[SampleRequest], cluster: Cluster
) -> SampleRequest | None:
    """The first request that matches a webhook's criteria, even if the API server never sends it to admission."""
    return next((sample for sample in samples if _fits(hook, sample, cluster)), None)


def _fits(hook: ConfiguredWebhook, sample: SampleRequest, cluster: Cluster) -> bool:
    review, webhook = sample.review(), hook.webhook
    rules = compile_rules(webhook.rules)
    # Whatever the match policy, a client may use any version.
    versions = cluster.resources.equivalents(review.resource, review.subresource)
    if not rules.first_wanted(review.operation, versions, review.subresource, review.namespace):
        return False
    spaces = compile_selector(webhook.namespace_selector or EVERYTHING)
    if review.namespace and not spaces.matches(
        labels_of(cluster.get("", "namespaces", review.namespace)) or {}
    ):
        return False
    objects = compile_selector(webhook.object_selector or EVERYTHING)
    return objects.matches_object(review.object, review.old_object) and _conditions_hold(hook, review)


def _conditions_hold(hook: ConfiguredWebhook, review: Review) -> bool:
    """Whether no match condition is false; the failure policy decides about those that fail to evaluate."""
    conditions = hook.webhook.match_conditions
    if not conditions:
        return True
    from pratique.cel.environments import MATCH_CONDITION_ENVIRONMENT  # noqa: PLC0415
    from pratique.cel.errors import OutOfBudgetError  # noqa: PLC0415
    from pratique.cel.expressions import (  # noqa: PLC0415
        CompiledCondition,
        compile_expression,
        condition_errors,
        evaluate_conditions,
        first_false_condition,
    )
    from pratique.cel.policy_compiler import AdmissionActivation  # noqa: PLC0415 - brings CEL

    compiled = [
        CompiledCondition(
            condition.name,
            compile_expression(condition.expression.strip(), MATCH_CONDITION_ENVIRONMENT, "bool"),
        )
        for condition in conditions
    ]
    try:
        found = evaluate_conditions(compiled, AdmissionActivation(review, review.authorizer))
    except OutOfBudgetError:
        return hook.fails_closed
    return first_false_condition(found) is None and (hook.fails_closed or not condition_errors(found))


_OPT_OUT_TEXT = "users can set the labels of an object so that it is not checked"


def _find_dodgeable_selectors(context: LintContext) -> Iterator[Violation]:
    for hook in context.validating:
        if _is_selective(hook.webhook.object_selector):
            yield hook.violation(_OPT_OUT_TEXT, "objectSelector")
    for policy in context.configurations.validating_policies:
        constraints = policy.spec.match_constraints
        if constraints and _is_selective(constraints.object_selector):
            yield Violation(policy, ("spec", "matchConstraints", "objectSelector"), _OPT_OUT_TEXT)
    for binding in context.configurations.validating_bindings:
        resources = binding.spec.match_resources
        if resources and _is_selective(resources.object_selector):
            yield Violation(binding, ("spec", "matchResources", "objectSelector"), _OPT_OUT_TEXT)


def _is_selective(selector: LabelSelector | None) -> bool:
    return selector is not None and not selector.is_empty


DODGEABLE = LintRule(
    rule="dodgeable-selector",
    severity=Severity.WARNING,
    explanation="What validates by objectSelector is opt-in: users can get around it by a label.",
    fix="Select by namespaceSelector, or by matchConditions on what users cannot set.",
    check=_find_dodgeable_selectors,
)


_ADMISSION_CONFIGURATIONS = frozenset(
    ("admissionregistration.k8s.io", resource)
    for resource in (
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
        "mutatingwebhookconfigurations",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "validatingwebhookconfigurations",
    )
)
"""Resources that only static webhooks are called for, so that a broken webhook can be repaired:
``k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules/rules.go``."""
_ADMISSION_POLICIES = frozenset(pair for pair in _ADMISSION_CONFIGURATIONS if "webhook" not in pair[1])
"""Resources that only static policies check: ``k8s.io/apiserver/pkg/admission/plugin/policy/generic/plugin.go``."""


def _find_wildcards(context: LintContext) -> Iterator[Violation]:
    for hook in context.hooks:
        for index, rule in enumerate(hook.webhook.rules):
            fields = [
                field
                for field, entries in (
                    ("operations", rule.operations),
                    ("apiGroups", rule.api_groups),
                    ("resources", [entry.partition("/")[0] for entry in rule.resources]),
                )
                if "*" in entries
            ]
            if fields:
                yield hook.violation(
                    f"rule {index + 1} has the wildcard * in {', '.join(fields)}",
                    "rules",
                    index,
                    fields[0],
                )


WILDCARDS = LintRule(
    rule="wildcard-rules",
    severity=Severity.WARNING,
    explanation="A wildcard has the webhook called for what it was not made for: system components, and kinds to come.",
    fix="Name the operations, groups and resources that the webhook looks at.",
    check=_find_wildcards,
)


def _find_exact_match_policies(context: LintContext) -> Iterator[Violation]:
    text = "requests for the same objects in another version or group pass by (matchPolicy is Exact)"
    for hook in context.hooks:
        if hook.webhook.match_policy == "Exact":
            yield hook.violation(text, "matchPolicy")
    for policy in context.policies:
        constraints = policy.spec.match_constraints
        if constraints is not None and constraints.match_policy == "Exact":
            yield Violation(policy, ("spec", "matchConstraints", "matchPolicy"), text)


NOT_EQUIVALENT = LintRule(
    rule="no-match-policy-equivalent",
    severity=Severity.WARNING,
    explanation="With matchPolicy Exact, only the versions that the rules name are looked at.",
    fix="Set matchPolicy to Equivalent.",
    check=_find_exact_match_policies,
)


def _find_unreviewed_kinds(context: LintContext) -> Iterator[Violation]:
    for hook in context.hooks:
        unasked = VIRTUAL_RESOURCES if hook.owner.is_static else VIRTUAL_RESOURCES | _ADMISSION_CONFIGURATIONS
        for index, rule in enumerate(hook.webhook.rules):
            if named := _named_resources(rule, unasked):
                yield hook.violation(f"no webhook is ever asked about {named}", "rules", index, "resources")
    for policy in context.policies:
        constraints = policy.spec.match_constraints
        unasked = VIRTUAL_RESOURCES if policy.is_static else VIRTUAL_RESOURCES | _ADMISSION_POLICIES
        for index, rule in enumerate(constraints.resource_rules if constraints else ()):
            if named := _named_resources(rule, unasked):
                path = ("spec", "matchConstraints", "resourceRules", index, "resources")
                yield Violation(policy, path, f"no policy is ever asked about {named}")


def _named_resources(rule: Rule, resources: frozenset[tuple[str, str]]) -> str:
    """List those of the given resources that a rule names without a wildcard."""
    written = {entry.partition("/")[0] for entry in rule.resources}
    pairs = sorted((group, resource) for group in set(rule.api_groups) for resource in written)
    return ", ".join(f"{resource}.{group}" for group, resource in pairs if (group, resource) in resources)


READ_ONLY = LintRule(
    rule="read-only-kinds",
    severity=Severity.WARNING,
    explanation="Reviews of who may do what, and the configurations of admission itself, do not come to admission.",
    fix="Take them out of the rules.",
    check=_find_unreviewed_kinds,
)


def _find_custom_resource_webhooks(context: LintContext) -> Iterator[Violation]:
    definitions = context.cluster.list("apiextensions.k8s.io", "customresourcedefinitions")
    pairs = frozenset(
        (type_.resource.group, type_.resource.resource)
        for definition in definitions
        for type_ in types_of_definition(definition)
    )
    for hook in context.hooks:
        for index, rule in enumerate(hook.webhook.rules):
            if named := _named_resources(rule, pairs):
                yield hook.violation(
                    f"{named}: a CustomResourceDefinition can validate and default by itself",
                    "rules",
                    index,
                    "resources",
                )


CUSTOM_RESOURCES = LintRule(
    rule="webhook-for-custom-resources",
    severity=Severity.INFO,
    explanation="A CustomResourceDefinition validates and defaults its fields without a webhook.",
    fix="Write validation rules and defaults into the schema of the CustomResourceDefinition.",
    check=_find_custom_resource_webhooks,
)


_SYSTEM_NAMESPACE = "kube-system"
_KUBELET = UserInfo("system:node:sample", groups=("system:nodes", "system:authenticated"))
_BY_KUBELET = functools.partial(SampleRequest, user=_KUBELET)

SYSTEM_OBJECTS = (
    SampleRequest(resource="pods", kind="Pod", namespace=_SYSTEM_NAMESPACE),
    SampleRequest(group="apps", resource="replicasets", kind="ReplicaSet", namespace=_SYSTEM_NAMESPACE),
    SampleRequest(group="apps", resource="deployments", kind="Deployment", namespace=_SYSTEM_NAMESPACE),
    SampleRequest(group="apps", resource="daemonsets", kind="DaemonSet", namespace=_SYSTEM_NAMESPACE),
    SampleRequest(
        resource="configmaps", kind="ConfigMap", operation=Operation.UPDATE, namespace=_SYSTEM_NAMESPACE
    ),
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
    """Make the check that finds webhooks, of those to which ``concerns`` applies, that are called for a sample."""

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
