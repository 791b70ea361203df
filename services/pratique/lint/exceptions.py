"""Rules about exceptions: that they end, and that there is something that they exempt from."""

from __future__ import annotations

from collections.abc import Iterator

from pratique.apimachinery.statuses import go_quoted
from pratique.configuration.policy_references import PolicyReference, PolicyReferenceKind
from pratique.lint.rules import LintContext, LintRule, Severity, Violation

_SOON_DAYS = 14
"""Two weeks: enough to fix what is exempted, or to ask for more time."""
_DAY = 86_400  # seconds
_END = ("spec", "until")


def _find_ended(context: LintContext) -> Iterator[Violation]:
    for exception in context.configurations.exceptions:
        if exception.ends_at <= context.now:
            yield Violation(exception, _END, f"ended at {exception.spec.until}: it exempts from nothing")


ENDED = LintRule(
    name="exception-ended",
    severity=Severity.WARNING,
    explanation="An exception that has ended has no effect, and hides that its policy applies again.",
    fix="Remove it, or agree on a later end.",
    check=_find_ended,
)


def _find_ending(context: LintContext) -> Iterator[Violation]:
    for exception in context.configurations.exceptions:
        seconds = exception.ends_at - context.now
        if 0 < seconds <= _SOON_DAYS * _DAY:
            days = int(seconds // _DAY)
            left = "less than a day" if not days else "1 day" if days == 1 else f"{days} days"
            yield Violation(exception, _END, f"ends in {left}: its policies apply again after that")


ENDS_SOON = LintRule(
    name="exception-ends-soon",
    severity=Severity.WARNING,
    explanation="When an exception ends, requests that it exempted are denied or changed without further notice.",
    fix="Change what is exempted so that its policies admit it, or agree on a later end.",
    check=_find_ending,
)


def _find_unknown(context: LintContext) -> Iterator[Violation]:
    for exception in context.configurations.exceptions:
        for index, policy in enumerate(exception.spec.policies):
            if missing := missing_policy(policy, context):
                text = f"{missing}: it exempts from nothing"
                yield Violation(exception, ("spec", "policies", index), text)


def missing_policy(policy: PolicyReference, context: LintContext) -> str:
    """Say what is not there that a reference names; empty if all is."""
    kind, found = PolicyReferenceKind(policy.kind), context.configurations
    if kind is PolicyReferenceKind.CONTROLLER:
        known = context.runs(policy.name)
        return "" if known else f"no admission controller {go_quoted(policy.name)} is enabled"
    if kind.is_webhook:
        configurations = found.mutating if kind is PolicyReferenceKind.MUTATING_WEBHOOK else found.validating
        hooks = {(one.name, hook.name) for one in configurations for hook in one.webhooks}
        known = (policy.name, policy.webhook) in hooks
        return (
            ""
            if known
            else f"there is no webhook {go_quoted(policy.webhook)} in {kind} {go_quoted(policy.name)}"
        )
    mutates = kind is PolicyReferenceKind.MUTATING_POLICY
    policies = found.mutating_policies if mutates else found.validating_policies
    if policy.name not in {one.name for one in policies}:
        return f"there is no {kind} {go_quoted(policy.name)} here"
    bindings = found.mutating_bindings if mutates else found.validating_bindings
    bound = {one.name for one in bindings if one.spec.policy_name == policy.name}
    if policy.binding and policy.binding not in bound:
        return f"no binding {go_quoted(policy.binding)} binds {kind} {go_quoted(policy.name)}"
    return ""


WITHOUT_POLICY = LintRule(
    name="exception-without-policy",
    severity=Severity.WARNING,
    explanation="An exception from something that does not exist exempts from it as soon as it comes to exist.",
    fix="Correct the name, or remove the exception.",
    check=_find_unknown,
)
