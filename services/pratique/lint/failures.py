"""Rules about time, order and what happens when a webhook or policy fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.apimachinery.json_values import member
from pratique.apimachinery.statuses import qualified_resource
from pratique.lint.outage_simulation import known_workloads
from pratique.lint.rules import Breach, Practice, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pratique.apimachinery.json_values import JSONObject
    from pratique.lint.rules import Hook, Subject

_SCALED = frozenset({"Deployment", "StatefulSet"})


def _single(subject: Subject) -> Iterator[Breach]:
    for hook in subject.hooks:
        workloads = known_workloads(hook.backend, subject.cluster) if hook.backend is not None else []
        if len(workloads) == 1 and workloads[0]["kind"] in _SCALED and _replicas(workloads[0]) == 1:
            named = f'{workloads[0]["kind"]} "{workloads[0]["metadata"]["name"]}"'
            yield hook.breach(f"is answered by the one Pod of {named}", "clientConfig")


def _replicas(workload: JSONObject) -> object:
    """How many Pods are wanted, as the API server fills it in."""
    wanted = member(workload, "spec", "replicas")
    return 1 if wanted is None else wanted


SINGLE = Practice(
    rule="single-backend",
    severity=Severity.INFO,
    explanation="While the only Pod behind a webhook restarts or moves, nobody answers for it.",
    fix="Run several replicas behind the Service, on several nodes.",
    check=_single,
)


LONGEST = 10
"""Seconds: what the API server fills in where a v1 configuration says nothing."""
REQUEST_BUDGET = 34
"""Seconds that one request to create, update or delete may take as a whole, whatever the client asks for:
``k8s.io/apiserver/pkg/endpoints/handlers/rest.go`` ``requestTimeoutUpperBound``."""


def _too_long(subject: Subject) -> Iterator[Breach]:
    for hook in subject.hooks:
        seconds = hook.webhook.timeout_seconds or 0
        if seconds > LONGEST:
            yield hook.breach(
                f"a request may wait {seconds} s for this webhook alone, more than {LONGEST} s",
                "timeoutSeconds",
            )


TOO_LONG = Practice(
    rule="timeout-too-long",
    severity=Severity.WARNING,
    explanation="While a webhook does not answer, every request that it matches waits until its timeout.",
    fix=f"Set timeoutSeconds to a few seconds, {LONGEST} at the most.",
    check=_too_long,
)


def _over_budget(subject: Subject) -> Iterator[Breach]:
    """Find the one kind of request that may wait longest, and the webhook at which its time is up."""
    waiting: dict[int, list[Hook]] = {}
    for hook in subject.mutating:
        for request in subject.wanted(hook.webhook.rules):
            waiting.setdefault(request, []).append(hook)
    if not waiting:
        return
    longest = max(sorted(waiting), key=lambda request: _seconds(waiting[request]))
    hooks = waiting[longest]
    if len(hooks) == 1 or (total := _seconds(hooks)) <= REQUEST_BUDGET:
        return
    last = next(hook for count, hook in enumerate(hooks, 1) if _seconds(hooks[:count]) > REQUEST_BUDGET)
    operation, kind = subject.requests[longest]
    named = qualified_resource(kind.resource.group, kind.resource.resource)
    named += "/" + kind.subresource if kind.subresource else ""
    yield last.breach(
        f"{operation} of {named} may wait for {len(hooks)} mutating webhooks one after another, {total} s in all;"
        f" the API server gives up after {REQUEST_BUDGET} s",
        "timeoutSeconds",
    )


def _seconds(hooks: list[Hook]) -> int:
    return sum(hook.webhook.timeout_seconds or 0 for hook in hooks)


OVER_BUDGET = Practice(
    rule="mutating-timeouts-over-budget",
    severity=Severity.WARNING,
    explanation="Mutating webhooks are called one after another, and together have no more time than the request.",
    fix="Shorten the timeouts, narrow the rules, or make one webhook of several.",
    check=_over_budget,
)


def _not_reinvoked(subject: Subject) -> Iterator[Breach]:
    hooks, found = subject.mutating, []
    nearest: dict[int, int] = {}
    """For each kind of request, the first of the webhooks looked at so far that is asked about it."""
    for index in range(len(hooks) - 1, -1, -1):
        wanted = subject.wanted(hooks[index].webhook.rules)
        later = [nearest[request] for request in wanted if request in nearest]
        nearest.update(dict.fromkeys(wanted, index))
        if later and hooks[index].webhook.reinvocation_policy != "IfNeeded":
            text = f"does not see what {hooks[min(later)]} changes after it"
            found.append(hooks[index].breach(text, "reinvocationPolicy"))
    yield from reversed(found)


NOT_REINVOKED = Practice(
    rule="no-reinvocation",
    severity=Severity.INFO,
    explanation="A mutating webhook must not rely on being the last: others change the same objects after it.",
    fix="Make the webhook idempotent, and set reinvocationPolicy to IfNeeded.",
    check=_not_reinvoked,
)


def _scattered(subject: Subject) -> Iterator[Breach]:
    first: dict[tuple[str, str], Hook] = {}
    for hook in subject.mutating:
        if hook.service is None:
            continue
        before = first.setdefault((hook.service.namespace, hook.service.name), hook)
        if before.owner.name != hook.owner.name:
            text = f"its Service is that of {before}, too"
            yield hook.breach(text, "clientConfig")


SCATTERED = Practice(
    rule="scattered-webhooks",
    severity=Severity.INFO,
    explanation="Webhooks of one server in one configuration are called in the order that is written there.",
    fix="Put the webhooks of one server into one MutatingWebhookConfiguration.",
    check=_scattered,
)


def _fails_open(subject: Subject) -> Iterator[Breach]:
    for hook in subject.validating:
        if not hook.fails_closed:
            yield hook.breach("lets everything through while it does not answer", "failurePolicy")
    for policy in subject.configurations.validating_policies:
        if policy.spec.fails_open:
            yield Breach(policy, ("spec", "failurePolicy"), "lets through what it cannot evaluate")


FAIL_OPEN = Practice(
    rule="fail-open-security",
    severity=Severity.INFO,
    explanation="What enforces a rule and fails open can be got around by making it fail.",
    fix="Set failurePolicy to Fail where the rule is one of security.",
    check=_fails_open,
)


def _mutating_closed(subject: Subject) -> Iterator[Breach]:
    for hook in subject.mutating:
        if hook.fails_closed:
            text = "while it does not answer, requests that need no change are refused, too"
            yield hook.breach(text, "failurePolicy")


MUTATING_CLOSED = Practice(
    rule="mutating-fails-closed",
    severity=Severity.INFO,
    explanation="A mutating webhook that fails open, with validation behind it, refuses only what is really wrong.",
    fix="Set failurePolicy to Ignore, and validate the final state.",
    check=_mutating_closed,
)


def _unverified(subject: Subject) -> Iterator[Breach]:
    verified: frozenset[int] = frozenset()
    for hook in subject.validating:
        verified |= subject.wanted(hook.webhook.rules)
    for policy in subject.configurations.validating_policies:
        constraints = policy.spec.match_constraints
        verified |= subject.wanted(constraints.resource_rules if constraints else ())
    for hook in subject.mutating:
        wanted = subject.wanted(hook.webhook.rules)
        if wanted and not wanted & verified:
            yield hook.breach("nothing here validates what it changes", "rules")


UNVERIFIED = Practice(
    rule="unverified-mutation",
    severity=Severity.INFO,
    explanation="A later webhook or controller may undo a change, which only validation sees.",
    fix="Validate the final state by a ValidatingAdmissionPolicy or a validating webhook for the same requests.",
    check=_unverified,
)


def _side_effects(subject: Subject) -> Iterator[Breach]:
    for hook in subject.hooks:
        if hook.webhook.side_effects in {"Unknown", "Some"}:
            text = f"sideEffects is {hook.webhook.side_effects}: requests with dryRun are refused"
            yield hook.breach(text, "sideEffects")


SIDE_EFFECTS = Practice(
    rule="side-effects-undeclared",
    severity=Severity.WARNING,
    explanation="Dry runs of what a webhook with side effects matches are refused.",
    fix="Set sideEffects to None, or to NoneOnDryRun where the webhook does nothing on a dry run.",
    check=_side_effects,
)


def _review_versions(subject: Subject) -> Iterator[Breach]:
    for hook in subject.hooks:
        versions = hook.webhook.admission_review_versions
        if "v1" not in versions:
            text = f"understands AdmissionReview in {', '.join(versions)} only"
            yield hook.breach(text, "admissionReviewVersions")


REVIEW_VERSIONS = Practice(
    rule="admission-review-versions",
    severity=Severity.WARNING,
    explanation="The only version of AdmissionReview that is not deprecated is v1.",
    fix="Teach the webhook v1, and put it first in admissionReviewVersions.",
    check=_review_versions,
)
