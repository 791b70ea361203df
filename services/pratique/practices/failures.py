"""Practices about what webhooks and policies do where they fail, and about what they say of themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.practices.definitions import Breach, Practice, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pratique.practices.subjects import Subject


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
