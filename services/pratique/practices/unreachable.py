"""Practices about what is configured and can do nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.practices.constants import always_true, constant_conditions
from pratique.practices.definitions import Breach, Practice, Severity
from pratique.statuses import go_quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pratique.configurations.policies import BindingSpec, Configured, PolicySpec
    from pratique.practices.subjects import Subject


def _families(
    subject: Subject,
) -> Iterator[tuple[Sequence[Configured[PolicySpec]], Sequence[Configured[BindingSpec]]]]:
    all_of_them = subject.configurations
    yield all_of_them.mutating_policies, all_of_them.mutating_bindings
    yield all_of_them.validating_policies, all_of_them.validating_bindings


def _unbound(subject: Subject) -> Iterator[Breach]:
    for policies, bindings in _families(subject):
        bound = {binding.spec.policy_name for binding in bindings}
        for policy in policies:
            if policy.name not in bound:
                yield Breach(policy, ("metadata", "name"), "no binding here names it: it does nothing")


UNBOUND = Practice(
    rule="policy-unbound",
    severity=Severity.WARNING,
    explanation="A policy does nothing until a binding names it.",
    fix="Write a binding whose policyName is the name of the policy.",
    check=_unbound,
)


def _without_policy(subject: Subject) -> Iterator[Breach]:
    for policies, bindings in _families(subject):
        there = {policy.name for policy in policies}
        for binding in bindings:
            wanted = binding.spec.policy_name
            if wanted not in there:
                text = f"there is no policy {go_quoted(wanted)} here: it does nothing"
                yield Breach(binding, ("spec", "policyName"), text)


WITHOUT_POLICY = Practice(
    rule="binding-without-policy",
    severity=Severity.WARNING,
    explanation="A binding does nothing until there is a policy of the name that it gives, and of its kind.",
    fix="Correct policyName, or add the policy.",
    check=_without_policy,
)


def _constants(subject: Subject) -> Iterator[Breach]:
    for owner, path, value in constant_conditions(subject):
        if value:
            yield Breach(owner, path, "is true of every request: it narrows nothing")
    for policy in subject.policies:
        for index in always_true(policy):
            path = ("spec", "validations", index, "expression")
            yield Breach(policy, path, "is true of every request: it refuses nothing")


CONSTANTS = Practice(
    rule="cel-cannot-match",
    severity=Severity.WARNING,
    explanation="A condition or validation that comes out the same whatever the request does nothing, or too much.",
    fix="Write an expression that depends on the request, or take it out.",
    check=_constants,
)
