"""Rules about the requests that a webhook is called for.

Which kinds and versions its rules name, and which requests of Kubernetes' own components reach it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from pratique.admission.reviews import Review
from pratique.admission.rules import Rule, compile_rules
from pratique.apimachinery.selectors import EVERYTHING, LabelSelector, compile_selector, labels_of
from pratique.cluster.api_resources import VIRTUAL_RESOURCES, types_of_definition
from pratique.cluster.store import Cluster
from pratique.lint.rules import (
    ADMISSION_GROUP,
    ADMISSION_RESOURCES,
    ConfiguredWebhook,
    LintContext,
    LintRule,
    Severity,
    Violation,
)
from pratique.lint.sample_requests import (
    ACCESS_REVIEW_REQUESTS,
    EVENT_REQUESTS,
    LEASE_UPDATES,
    MIRROR_POD_REQUESTS,
    NODE_REQUESTS,
    POD_STATUS_UPDATES,
    SYSTEM_OBJECTS,
    SampleRequest,
)


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
            if context.is_reached(hook, version.cached_review)
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
    name="dodgeable-selector",
    severity=Severity.WARNING,
    explanation="Validation with an objectSelector is opt-in: users can bypass it with a label.",
    fix="Select by namespaceSelector, or by matchConditions on fields that users cannot set.",
    check=_find_dodgeable_selectors,
)


_ADMISSION_CONFIGURATIONS = frozenset((ADMISSION_GROUP, resource) for resource in ADMISSION_RESOURCES)
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
    name="wildcard-rules",
    severity=Severity.WARNING,
    explanation="A wildcard makes the API server call the webhook for system components and future kinds, too.",
    fix="Name the operations, groups and resources that the webhook checks.",
    check=_find_wildcards,
)


def _find_exact_match_policies(context: LintContext) -> Iterator[Violation]:
    text = "requests for the same objects in another version or group are not matched (matchPolicy is Exact)"
    for hook in context.hooks:
        if hook.webhook.match_policy == "Exact":
            yield hook.violation(text, "matchPolicy")
    for policy in context.policies:
        constraints = policy.spec.match_constraints
        if constraints is not None and constraints.match_policy == "Exact":
            yield Violation(policy, ("spec", "matchConstraints", "matchPolicy"), text)


NOT_EQUIVALENT = LintRule(
    name="no-match-policy-equivalent",
    severity=Severity.WARNING,
    explanation="With matchPolicy Exact, only the versions that the rules name are matched.",
    fix="Set matchPolicy to Equivalent.",
    check=_find_exact_match_policies,
)


def _find_unreviewed_kinds(context: LintContext) -> Iterator[Violation]:
    for hook in context.hooks:
        unasked = VIRTUAL_RESOURCES if hook.owner.is_static else VIRTUAL_RESOURCES | _ADMISSION_CONFIGURATIONS
        for index, rule in enumerate(hook.webhook.rules):
            if named := _named_resources(rule, unasked):
                yield hook.violation(f"no webhook is ever called for {named}", "rules", index, "resources")
    for policy in context.policies:
        constraints = policy.spec.match_constraints
        unasked = VIRTUAL_RESOURCES if policy.is_static else VIRTUAL_RESOURCES | _ADMISSION_POLICIES
        for index, rule in enumerate(constraints.resource_rules if constraints else ()):
            if named := _named_resources(rule, unasked):
                path = ("spec", "matchConstraints", "resourceRules", index, "resources")
                yield Violation(policy, path, f"no policy ever applies to {named}")


def _named_resources(rule: Rule, resources: frozenset[tuple[str, str]]) -> str:
    """List those of the given resources that a rule names without a wildcard."""
    written = {entry.partition("/")[0] for entry in rule.resources}
    pairs = sorted((group, resource) for group in set(rule.api_groups) for resource in written)
    return ", ".join(f"{resource}.{group}" for group, resource in pairs if (group, resource) in resources)


READ_ONLY = LintRule(
    name="read-only-kinds",
    severity=Severity.WARNING,
    explanation="Access reviews, and the configurations of admission itself, are not sent to admission.",
    fix="Remove them from the rules.",
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
    name="webhook-for-custom-resources",
    severity=Severity.INFO,
    explanation="A CustomResourceDefinition validates and defaults its fields without a webhook.",
    fix="Write validation rules and defaults into the schema of the CustomResourceDefinition.",
    check=_find_custom_resource_webhooks,
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
        if _can_break(hook) and (sample := first_fitting(hook, ACCESS_REVIEW_REQUESTS, context.cluster)):
            text = f"matches {sample}: an API server that calls webhooks for it may lock everybody out"
            yield hook.violation(text, "rules")


def _can_break(hook: ConfiguredWebhook) -> bool:
    return hook.mutates or hook.fails_closed


KUBE_SYSTEM = LintRule(
    name="intercepts-kube-system",
    severity=Severity.WARNING,
    explanation="The Pods of kube-system keep the cluster running, and must not depend on a webhook.",
    fix="Exclude kube-system by namespaceSelector, or its Pods by objectSelector.",
    check=_interception_check(
        SYSTEM_OBJECTS, "the components that keep the cluster running depend on it", _can_break
    ),
)
LEASES = LintRule(
    name="intercepts-node-leases",
    severity=Severity.ERROR,
    explanation="A node whose Lease is not renewed in time counts as dead.",
    fix="Remove leases from the rules, or exclude kube-node-lease by namespaceSelector.",
    check=_interception_check(
        LEASE_UPDATES, "a node whose Lease is late or changed counts as dead", lambda _: True
    ),
)
NODES = LintRule(
    name="intercepts-nodes",
    severity=Severity.WARNING,
    explanation="A kubelet whose Node is denied can neither join the cluster nor report its status.",
    fix="Remove nodes from the rules, exclude system:nodes by matchConditions, or set failurePolicy to Ignore.",
    check=_interception_check(
        NODE_REQUESTS, "while it is down, no node can join or report", lambda hook: hook.fails_closed
    ),
)
ACCESS_REVIEWS = LintRule(
    name="intercepts-access-reviews",
    severity=Severity.ERROR,
    explanation="If TokenReviews and SubjectAccessReviews fail or are changed, nobody can log in.",
    fix="Remove the groups authentication.k8s.io and authorization.k8s.io from the rules.",
    check=_find_access_review_webhooks,
)
EVENTS = LintRule(
    name="intercepts-events",
    severity=Severity.WARNING,
    explanation="There are many Events, and a webhook that causes Events triggers itself.",
    fix="Remove events from the rules.",
    check=_interception_check(EVENT_REQUESTS, "each Event that it causes triggers it again", _can_break),
)
POD_STATUS = LintRule(
    name="intercepts-pod-status",
    severity=Severity.WARNING,
    explanation="When nodes fail, the status of many Pods changes at once, and traffic moves only after that.",
    fix="Remove pods/status from the rules.",
    check=_interception_check(
        POD_STATUS_UPDATES, "when a node fails, every Pod of it waits for this webhook", _can_break
    ),
)
MIRROR_PODS = LintRule(
    name="mutates-mirror-pods",
    severity=Severity.INFO,
    explanation="A mirror Pod represents a static Pod, which does not change with it.",
    fix="Exclude objects with the annotation kubernetes.io/config.mirror by matchConditions, or their namespace.",
    check=_interception_check(
        MIRROR_POD_REQUESTS, "the static Pod behind it does not change with it", lambda hook: hook.mutates
    ),
)
