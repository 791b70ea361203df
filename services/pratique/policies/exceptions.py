"""Exceptions at work: whether a PolicyException exempts a request from a policy, a webhook or a controller.

Whoever can make a request chooses its object, so a part of an exception that cannot be decided for certain does not
match: labels must be selected on the old object as well as on the new one, and only what is in a namespace can match
the namespace's name or labels. All this is narrower than what webhooks do, where a selector decides who is protected.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Self

import msgspec

from pratique.admission.reviews import Review
from pratique.admission.rules import RuleSet, compile_rules
from pratique.apimachinery.json_values import JSON, member
from pratique.apimachinery.requests import Operation, UserInfo
from pratique.apimachinery.selectors import LabelSelector, Selector, compile_selector, labels_of
from pratique.apimachinery.statuses import go_quoted
from pratique.configuration.policy_exceptions import PolicyException, PolicyExceptionSpec, Subject
from pratique.configuration.policy_references import PolicyReferenceKind, PolicyTarget


class Exemption(msgspec.Struct, frozen=True):
    """A compiled exception."""

    told: str
    """What steps and audit annotations say of it."""
    ends_at: float
    namespaces: NamespaceScope
    object_selector: Selector | None
    subjects: tuple[Subject, ...]
    rules: tuple[tuple[RuleSet, frozenset[str]], ...]
    """Each rule, and the object names that it is for; no names mean all."""

    @classmethod
    def compile(cls, exception: PolicyException) -> Self:
        """Compile a valid exception."""
        spec = exception.spec
        return cls(
            f"exempted by PolicyException {go_quoted(exception.name)} until {spec.until}: {spec.reason}",
            exception.ends_at,
            NamespaceScope.compile(spec.namespaces, spec.namespace_selector),
            _compile_selector(spec.object_selector),
            spec.subjects,
            _compile_rules(spec),
        )

    def applies(self, review: Review, now: float) -> bool:
        """Return whether the request is exempted at a time, in seconds since 1970."""
        return (
            now < self.ends_at
            and self.namespaces.includes(review)
            and (not self.subjects or any(_is_subject(subject, review.user) for subject in self.subjects))
            and (not self.rules or any(_matches(rules, found, review) for rules, found in self.rules))
            and (self.object_selector is None or _selects_all(self.object_selector, review))
        )


class NamespaceScope(msgspec.Struct, frozen=True):
    """Namespaces by their names and labels: an object must be in one that all parts select."""

    names: frozenset[str] = frozenset()
    """Empty means that names do not matter."""
    selector: Selector | None = None
    """None means that labels do not matter."""

    @classmethod
    def compile(cls, names: Iterable[str], selector: LabelSelector | None) -> Self:
        """Compile valid names and a valid selector."""
        return cls(frozenset(names), _compile_selector(selector))

    def includes(self, review: Review) -> bool:
        """Return whether the object of a request is in one of the namespaces."""
        if not self.names and self.selector is None:
            return True
        if not is_inside_namespace(review) or (self.names and review.namespace not in self.names):
            return False
        if self.selector is None:
            return True
        namespace = review.cluster.get("", "namespaces", review.namespace)
        labels = member(namespace, "metadata", "labels")
        return namespace is not None and self.selector.matches(labels if isinstance(labels, dict) else {})


def is_inside_namespace(review: Review) -> bool:
    """Return whether the object of a request is in a namespace.

    A Namespace is not in itself: who may change it could choose the labels.
    """
    is_namespace = (review.resource.group, review.resource.resource) == ("", "namespaces")
    return bool(review.namespace) and not is_namespace


def _compile_selector(selector: LabelSelector | None) -> Selector | None:
    return None if selector is None else compile_selector(selector)


def _compile_rules(spec: PolicyExceptionSpec) -> tuple[tuple[RuleSet, frozenset[str]], ...]:
    return tuple((compile_rules((rule,)), frozenset(rule.resource_names)) for rule in spec.resource_rules)


def _matches(rules: RuleSet, found: frozenset[str], review: Review) -> bool:
    return (not found or review.name in found) and rules.matches(review)


def _is_subject(subject: Subject, user: UserInfo) -> bool:
    match subject.kind:
        case "Group":
            return subject.name in user.groups
        case "ServiceAccount":
            return user.username == f"system:serviceaccount:{subject.namespace}:{subject.name}"
        case _:
            return user.username == subject.name


_OBJECT_SUBRESOURCES = ("", "ephemeralcontainers", "resize", "status")
"""The subresources whose requests carry the object itself. What others carry, such as a Binding or an Eviction, has
labels of its own, which say nothing about the object."""


def _selects_all(selector: Selector, review: Review) -> bool:
    """Return whether a selector selects both the object and the old object, as far as the operation has them."""
    if review.subresource not in _OBJECT_SUBRESOURCES:
        return False
    objects: list[JSON] = {
        Operation.CREATE: [review.object],
        Operation.UPDATE: [review.object, review.old_object],
        Operation.DELETE: [review.old_object],
    }.get(review.operation, [None])
    return all(
        (labels := labels_of(candidate)) is not None and selector.matches(labels) for candidate in objects
    )


class Exemptions:
    """All exceptions, by what they exempt from."""

    def __init__(self, exceptions: Iterable[PolicyException] = ()) -> None:
        """Compile valid exceptions."""
        self._by_target: dict[PolicyTarget, list[Exemption]] = {}
        for exception in exceptions:
            exemption = Exemption.compile(exception)
            for policy in exception.spec.policies:
                self._by_target.setdefault(PolicyTarget.of(policy), []).append(exemption)

    def of_policy(self, kind: PolicyReferenceKind, policy: str, binding: str) -> tuple[Exemption, ...]:
        """Return the exemptions from a policy by one binding: those for all of its bindings, too."""
        return (*self._of(kind, policy), *self._of(kind, policy, binding))

    def of_webhook(
        self, kind: PolicyReferenceKind, configuration: str, webhook: str
    ) -> tuple[Exemption, ...]:
        """Return the exemptions from a webhook."""
        return self._of(kind, configuration, webhook)

    def of_controller(self, name: str) -> tuple[Exemption, ...]:
        """Return the exemptions from an admission controller."""
        return self._of(PolicyReferenceKind.CONTROLLER, name)

    def _of(self, kind: PolicyReferenceKind, name: str, part: str = "") -> tuple[Exemption, ...]:
        return tuple(self._by_target.get(PolicyTarget(kind, name, part), ()))


NO_EXEMPTIONS = Exemptions()
"""Without any exception."""


def find_exemption(
    exemptions: Sequence[Exemption], review: Review, clock: Callable[[], float] = time.time
) -> str:
    """Return what to say of the first exemption that applies to a request; empty if none does."""
    if not exemptions:
        return ""
    now = clock()
    return next((exemption.told for exemption in exemptions if exemption.applies(review, now)), "")


def exemption_annotation(told: str, *names: str) -> Mapping[str, str]:
    """Return the audit annotation of an exempted request, with a key that the names tell apart."""
    return {".".join(("exception", *names)): told}
