"""Number the pairs of a policy and a binding, so that replicas can share the evaluation of one review's policies.

Numbers follow the order of evaluation: policies in their order, the bindings of each in theirs. They depend on nothing
but the configuration, so processes with the same configuration number alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias, TypeVar

import msgspec

from pratique.configuration.admissionregistration import (
    PolicyBindingSpec,
    PolicyConfiguration,
    PolicySpec,
    ValidatingAdmissionPolicyBindingSpec,
    ValidatingAdmissionPolicySpec,
)

Span: TypeAlias = tuple[int, int]
"""The numbers to evaluate: from the first up to, but not including, the second."""

ConfiguredPolicy: TypeAlias = PolicyConfiguration[ValidatingAdmissionPolicySpec]
ConfiguredBinding: TypeAlias = PolicyConfiguration[ValidatingAdmissionPolicyBindingSpec]

B = TypeVar("B", bound=PolicyBindingSpec)
P = TypeVar("P", bound=PolicySpec)


class PolicySpan(msgspec.Struct, frozen=True):
    """What has one number: a policy with the bindings by which it is evaluated."""

    policy: ConfiguredPolicy
    bindings: tuple[ConfiguredBinding, ...]
    """One binding; all bindings of a policy with ``auditAnnotations``, because their values are merged."""


def policy_spans(
    policies: Iterable[ConfiguredPolicy], bindings: Iterable[ConfiguredBinding]
) -> list[PolicySpan]:
    """Find what has which number: the entry at index ``n`` has number ``n``."""
    return [
        PolicySpan(policy, part) for policy, parts in divide_policies(policies, bindings) for part in parts
    ]


def divide_policies(
    policies: Iterable[ConfiguredPolicy], bindings: Iterable[ConfiguredBinding]
) -> Iterator[tuple[ConfiguredPolicy, tuple[tuple[ConfiguredBinding, ...], ...]]]:
    """Give each bound policy, in the order of evaluation, with its bindings divided as they are numbered."""
    known = list(bindings)
    for policy in policies:
        bound = bindings_of(policy, known)
        if bound:
            yield policy, (bound,) if policy.spec.audit_annotations else tuple((item,) for item in bound)


def bindings_of(
    policy: PolicyConfiguration[P], bindings: Iterable[PolicyConfiguration[B]]
) -> tuple[PolicyConfiguration[B], ...]:
    """Select the bindings that bind ``policy``.

    Static policies and bindings bind only each other, as in the API server, which loads them separately.
    """
    return tuple(
        binding
        for binding in bindings
        if binding.spec.policy_name == policy.name and binding.is_static == policy.is_static
    )
