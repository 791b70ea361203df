"""Rules about timeouts, call order, and failures of webhooks and policies."""

from __future__ import annotations

from collections.abc import Iterator

from pratique.apimachinery.json_values import JSONObject, member
from pratique.apimachinery.statuses import qualified_resource
from pratique.lint.outage_simulation import known_workloads
from pratique.lint.rules import ConfiguredWebhook, LintContext, LintRule, Severity, Violation

_REPLICATED_KINDS = frozenset({"Deployment", "StatefulSet"})


def _find_single_replicas(context: LintContext) -> Iterator[Violation]:
    for hook in context.hooks:
        workloads = known_workloads(hook.backend, context.cluster) if hook.backend is not None else []
        if len(workloads) == 1 and workloads[0]["kind"] in _REPLICATED_KINDS and _replicas(workloads[0]) == 1:
            named = f'{workloads[0]["kind"]} "{workloads[0]["metadata"]["name"]}"'
            yield hook.violation(f"is served by a single Pod of {named}", "clientConfig")


def _replicas(workload: JSONObject) -> object:
    """The desired number of Pods; the API server defaults it to 1."""
    replicas = member(workload, "spec", "replicas")
    return 1 if replicas is None else replicas


SINGLE = LintRule(
    name="single-backend",
    severity=Severity.INFO,
    explanation="While the only Pod behind a webhook restarts or moves, the webhook does not answer.",
    fix="Run several replicas behind the Service, on several nodes.",
    check=_find_single_replicas,
)


LONGEST = 10
"""Seconds: the API server's default for ``timeoutSeconds`` in v1."""
REQUEST_BUDGET = 34
"""Seconds that one request to create, update or delete may take in total, whatever timeout the client sets:
``k8s.io/apiserver/pkg/endpoints/handlers/rest.go`` ``requestTimeoutUpperBound``."""


def _find_long_timeouts(context: LintContext) -> Iterator[Violation]:
    for hook in context.hooks:
        seconds = hook.webhook.timeout_seconds or 0
        if seconds > LONGEST:
            yield hook.violation(
                f"a request may wait {seconds} s for this webhook alone, more than {LONGEST} s",
                "timeoutSeconds",
            )


TOO_LONG = LintRule(
    name="timeout-too-long",
    severity=Severity.WARNING,
    explanation="While a webhook does not answer, every request that it matches waits until its timeout.",
    fix=f"Set timeoutSeconds to a few seconds, at most {LONGEST}.",
    check=_find_long_timeouts,
)


def _find_timeouts_over_budget(context: LintContext) -> Iterator[Violation]:
    """Find the kind of request that may wait longest, and the webhook at which its time runs out."""
    waiting: dict[int, list[ConfiguredWebhook]] = {}
    for hook in context.mutating:
        for request in context.matching_requests(hook.webhook.rules):
            waiting.setdefault(request, []).append(hook)
    if not waiting:
        return
    longest = max(sorted(waiting), key=lambda request: _total_timeout(waiting[request]))
    hooks = waiting[longest]
    if len(hooks) == 1 or (total := _total_timeout(hooks)) <= REQUEST_BUDGET:
        return
    last = next(hook for count, hook in enumerate(hooks, 1) if _total_timeout(hooks[:count]) > REQUEST_BUDGET)
    operation, kind = context.requests[longest]
    named = qualified_resource(kind.resource.group, kind.resource.resource)
    named += "/" + kind.subresource if kind.subresource else ""
    yield last.violation(
        f"{operation} of {named} may wait for {len(hooks)} mutating webhooks one after another, {total} s in all;"
        f" the API server gives up after {REQUEST_BUDGET} s",
        "timeoutSeconds",
    )


def _total_timeout(hooks: list[ConfiguredWebhook]) -> int:
    return sum(hook.webhook.timeout_seconds or 0 for hook in hooks)


OVER_BUDGET = LintRule(
    name="mutating-timeouts-over-budget",
    severity=Severity.WARNING,
    explanation="Mutating webhooks are called one after another, and share the time limit of the request.",
    fix="Shorten the timeouts, narrow the rules, or combine several webhooks.",
    check=_find_timeouts_over_budget,
)


def _find_missing_reinvocations(context: LintContext) -> Iterator[Violation]:
    hooks, found = context.mutating, []
    nearest: dict[int, int] = {}
    """For each kind of request, the first webhook, of those visited so far, that is called for it."""
    for index in range(len(hooks) - 1, -1, -1):
        matching_requests = context.matching_requests(hooks[index].webhook.rules)
        later = [nearest[request] for request in matching_requests if request in nearest]
        nearest.update(dict.fromkeys(matching_requests, index))
        if later and hooks[index].webhook.reinvocation_policy != "IfNeeded":
            text = f"does not see what {hooks[min(later)]} changes after it"
            found.append(hooks[index].violation(text, "reinvocationPolicy"))
    yield from reversed(found)


NOT_REINVOKED = LintRule(
    name="no-reinvocation",
    severity=Severity.INFO,
    explanation="A mutating webhook must not rely on being the last: others change the same objects after it.",
    fix="Make the webhook idempotent, and set reinvocationPolicy to IfNeeded.",
    check=_find_missing_reinvocations,
)


def _find_scattered_webhooks(context: LintContext) -> Iterator[Violation]:
    first: dict[tuple[str, str], ConfiguredWebhook] = {}
    for hook in context.mutating:
        if hook.service is None:
            continue
        before = first.setdefault((hook.service.namespace, hook.service.name), hook)
        if before.owner.name != hook.owner.name:
            text = f"it has the same Service as {before}"
            yield hook.violation(text, "clientConfig")


SCATTERED = LintRule(
    name="scattered-webhooks",
    severity=Severity.INFO,
    explanation="Webhooks of one server are called in a defined order only within one configuration.",
    fix="Put the webhooks of one server into one MutatingWebhookConfiguration.",
    check=_find_scattered_webhooks,
)


def _find_failing_open(context: LintContext) -> Iterator[Violation]:
    for hook in context.validating:
        if not hook.fails_closed:
            yield hook.violation("admits everything while it does not answer", "failurePolicy")
    for policy in context.configurations.validating_policies:
        if policy.spec.fails_open:
            yield Violation(policy, ("spec", "failurePolicy"), "admits requests that it cannot evaluate")


FAIL_OPEN = LintRule(
    name="fail-open-security",
    severity=Severity.INFO,
    explanation="A check that fails open can be bypassed by making it fail.",
    fix="Set failurePolicy to Fail if security depends on the check.",
    check=_find_failing_open,
)


def _find_mutating_failing_closed(context: LintContext) -> Iterator[Violation]:
    for hook in context.mutating:
        if hook.fails_closed:
            text = "while it does not answer, even requests that need no change are denied"
            yield hook.violation(text, "failurePolicy")


MUTATING_CLOSED = LintRule(
    name="mutating-fails-closed",
    severity=Severity.INFO,
    explanation="If a mutating webhook fails open and validation follows, only invalid objects are denied.",
    fix="Set failurePolicy to Ignore, and validate the final object.",
    check=_find_mutating_failing_closed,
)


def _find_unverified_mutations(context: LintContext) -> Iterator[Violation]:
    verified: frozenset[int] = frozenset()
    for hook in context.validating:
        verified |= context.matching_requests(hook.webhook.rules)
    for policy in context.configurations.validating_policies:
        constraints = policy.spec.match_constraints
        verified |= context.matching_requests(constraints.resource_rules if constraints else ())
    for hook in context.mutating:
        matching_requests = context.matching_requests(hook.webhook.rules)
        if matching_requests and not matching_requests & verified:
            yield hook.violation("nothing here validates what it changes", "rules")


UNVERIFIED = LintRule(
    name="unverified-mutation",
    severity=Severity.INFO,
    explanation="A later webhook or controller may undo a change, and only validation notices.",
    fix="Validate the final object with a ValidatingAdmissionPolicy or a validating webhook for the same requests.",
    check=_find_unverified_mutations,
)


def _find_undeclared_side_effects(context: LintContext) -> Iterator[Violation]:
    for hook in context.hooks:
        if hook.webhook.side_effects in {"Unknown", "Some"}:
            text = f"sideEffects is {hook.webhook.side_effects}: dry-run requests are denied"
            yield hook.violation(text, "sideEffects")


SIDE_EFFECTS = LintRule(
    name="side-effects-undeclared",
    severity=Severity.WARNING,
    explanation="Dry-run requests that match a webhook with side effects are denied.",
    fix="Set sideEffects to None, or to NoneOnDryRun if the webhook has no side effects on a dry run.",
    check=_find_undeclared_side_effects,
)


def _find_old_review_versions(context: LintContext) -> Iterator[Violation]:
    for hook in context.hooks:
        versions = hook.webhook.admission_review_versions
        if "v1" not in versions:
            text = f"supports AdmissionReview only in {', '.join(versions)}"
            yield hook.violation(text, "admissionReviewVersions")


REVIEW_VERSIONS = LintRule(
    name="admission-review-versions",
    severity=Severity.WARNING,
    explanation="The only version of AdmissionReview that is not deprecated is v1.",
    fix="Support v1 in the webhook, and put it first in admissionReviewVersions.",
    check=_find_old_review_versions,
)
