"""Rules about rollouts: that there is something that they roll out, and that shadows and canaries work."""

from __future__ import annotations

from collections.abc import Iterator

from pratique.apimachinery.statuses import go_quoted
from pratique.configuration.policy_references import PolicyReference, PolicyReferenceKind
from pratique.configuration.policy_rollouts import RolloutMode
from pratique.lint.exceptions import missing_policy
from pratique.lint.rules import LintContext, LintRule, Severity, Violation

_WITHOUT_SIDE_EFFECTS = ("None", "NoneOnDryRun")


def _find_unknown(context: LintContext) -> Iterator[Violation]:
    for rollout in context.configurations.rollouts:
        for index, policy in enumerate(rollout.spec.policies):
            if missing := missing_policy(policy, context):
                yield Violation(rollout, ("spec", "policies", index), f"{missing}: it rolls out nothing")


WITHOUT_POLICY = LintRule(
    name="rollout-without-policy",
    severity=Severity.WARNING,
    explanation="If a rollout names a policy wrongly, the policy that it was meant for is enforced for everybody.",
    fix="Correct the name, or remove the rollout.",
    check=_find_unknown,
)


def _find_side_effects(context: LintContext) -> Iterator[Violation]:
    for rollout in context.configurations.rollouts:
        if rollout.mode is RolloutMode.ENFORCE:
            continue
        for index, policy in enumerate(rollout.spec.policies):
            effects = _side_effects(policy, context)
            if effects not in _WITHOUT_SIDE_EFFECTS:
                text = f"webhook {go_quoted(policy.webhook)} has sideEffects: {effects}, so it is not called in shadow"
                yield Violation(rollout, ("spec", "policies", index), text)


def _side_effects(policy: PolicyReference, context: LintContext) -> str | None:
    """Return the side effects that a webhook says it has; ``None`` in quotes for what is no webhook here."""
    kind, found = PolicyReferenceKind(policy.kind), context.configurations
    configurations = {
        PolicyReferenceKind.MUTATING_WEBHOOK: found.mutating,
        PolicyReferenceKind.VALIDATING_WEBHOOK: found.validating,
    }.get(kind, ())
    hooks = (
        hook
        for configuration in configurations
        for hook in configuration.webhooks
        if (configuration.name, hook.name) == (policy.name, policy.webhook)
    )
    return next((hook.side_effects for hook in hooks), "None")


SIDE_EFFECTS = LintRule(
    name="rollout-with-side-effects",
    severity=Severity.WARNING,
    explanation="A webhook that may have side effects even in a dry run cannot be called without them, so it is not.",
    fix="Give the webhook sideEffects None or NoneOnDryRun, if that is true of it.",
    check=_find_side_effects,
)
