"""How the kinds of Pratique's own in ``--config`` name the policies, webhooks and controllers that they are about."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Self

import msgspec

from pratique.apimachinery.field_errors import (
    ROOT,
    FieldError,
    FieldPath,
    forbidden,
    invalid,
    not_supported,
    required,
)

API_VERSION = "policy.pratique/v1alpha1"
"""The only version of these kinds."""


class PolicyReferenceKind(enum.StrEnum):
    """What can be named."""

    VALIDATING_POLICY = "ValidatingAdmissionPolicy"
    MUTATING_POLICY = "MutatingAdmissionPolicy"
    VALIDATING_WEBHOOK = "ValidatingWebhookConfiguration"
    MUTATING_WEBHOOK = "MutatingWebhookConfiguration"
    CONTROLLER = "AdmissionController"

    @property
    def is_policy(self) -> bool:
        """Whether policies of this kind have bindings."""
        return self in (PolicyReferenceKind.VALIDATING_POLICY, PolicyReferenceKind.MUTATING_POLICY)

    @property
    def is_webhook(self) -> bool:
        """Whether webhooks are named by their configuration and their own name."""
        return self in (PolicyReferenceKind.VALIDATING_WEBHOOK, PolicyReferenceKind.MUTATING_WEBHOOK)


class PolicyReference(msgspec.Struct, frozen=True, omit_defaults=True):
    """Names a policy, a webhook or an admission controller."""

    kind: str = ""
    """One of :class:`PolicyReferenceKind`."""
    name: str = ""
    """The name of the policy, webhook configuration or admission controller."""
    binding: str = ""
    """For a policy, the only binding that is meant; empty means all of its bindings."""
    webhook: str = ""
    """For a webhook configuration, the name of the webhook."""


class PolicyTarget(NamedTuple):
    """What a valid reference names: a policy by a binding, a webhook, or a controller."""

    kind: PolicyReferenceKind
    name: str
    part: str = ""
    """The binding or webhook; empty for a controller, and for all bindings of a policy."""

    @classmethod
    def of(cls, reference: PolicyReference) -> Self:
        """Return what a valid reference names."""
        return cls(
            PolicyReferenceKind(reference.kind), reference.name, reference.webhook or reference.binding
        )

    def overlaps(self, other: PolicyTarget) -> bool:
        """Return whether something is named by both."""
        return self[:2] == other[:2] and (self.part == other.part or not self.part or not other.part)


def find_overlaps(
    owners: Iterable[tuple[str, Sequence[PolicyReference]]],
) -> Iterator[tuple[int, FieldError]]:
    """Find what two objects of a kind name, or one names twice, so that both would decide about it.

    Args:
        owners: What messages call each object, and its references.

    Yields:
        The index of the later object, and the error of its field ``spec.policies``.
    """
    seen: list[tuple[PolicyTarget, str]] = []
    for place, (told, references) in enumerate(owners):
        for index, reference in enumerate(references):
            target = PolicyTarget.of(reference)
            other = next((owner for known, owner in seen if known.overlaps(target)), None)
            if other is not None:
                path = ROOT / "spec" / "policies" / index / "name"
                yield place, invalid(path, reference.name, f"{other} names it already")
            seen.append((target, told))


_DISPATCHERS = {
    "MutatingAdmissionPolicy": PolicyReferenceKind.MUTATING_POLICY,
    "MutatingAdmissionWebhook": PolicyReferenceKind.MUTATING_WEBHOOK,
    "ValidatingAdmissionPolicy": PolicyReferenceKind.VALIDATING_POLICY,
    "ValidatingAdmissionWebhook": PolicyReferenceKind.VALIDATING_WEBHOOK,
}
"""The controllers that run all policies or webhooks, and the kind to name instead."""


def validate_policy_references(
    references: tuple[PolicyReference, ...], path: FieldPath, *, concerns: str
) -> list[FieldError]:
    """Validate references, of which there must be one.

    Args:
        references: The references.
        path: Their field.
        concerns: What they do to what they name, such as ``exempts from``.
    """
    errors = [] if references else [required(path)]
    for index, reference in enumerate(references):
        errors += _validate_reference(reference, path / index, concerns)
    return errors


def _validate_reference(reference: PolicyReference, path: FieldPath, concerns: str) -> list[FieldError]:
    if reference.kind not in list(PolicyReferenceKind):
        return [not_supported(path / "kind", reference.kind, PolicyReferenceKind)]
    kind = PolicyReferenceKind(reference.kind)
    errors = [] if reference.name else [required(path / "name")]
    if kind is PolicyReferenceKind.CONTROLLER and reference.name in _DISPATCHERS:
        instead = f"{concerns} all it runs; name them one by one, by kind {_DISPATCHERS[reference.name]}"
        errors.append(invalid(path / "name", reference.name, instead))
    if kind.is_webhook and not reference.webhook:
        errors.append(required(path / "webhook", "name the webhook of the configuration"))
    if reference.webhook and not kind.is_webhook:
        errors.append(forbidden(path / "webhook", "only webhook configurations have webhooks"))
    if reference.binding and not kind.is_policy:
        errors.append(forbidden(path / "binding", "only policies have bindings"))
    return errors
