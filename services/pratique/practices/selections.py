"""Practices about selectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.practices.definitions import Breach, Practice, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pratique.practices.subjects import Subject
    from pratique.selectors import LabelSelector

_TEXT = "whoever writes an object can set its labels so that it is not looked at"


def _dodgeable(subject: Subject) -> Iterator[Breach]:
    for hook in subject.validating:
        if _selects(hook.webhook.object_selector):
            yield hook.breach(_TEXT, "objectSelector")
    for policy in subject.configurations.validating_policies:
        constraints = policy.spec.match_constraints
        if constraints and _selects(constraints.object_selector):
            yield Breach(policy, ("spec", "matchConstraints", "objectSelector"), _TEXT)
    for binding in subject.configurations.validating_bindings:
        resources = binding.spec.match_resources
        if resources and _selects(resources.object_selector):
            yield Breach(binding, ("spec", "matchResources", "objectSelector"), _TEXT)


def _selects(selector: LabelSelector | None) -> bool:
    return selector is not None and not selector.is_empty


DODGEABLE = Practice(
    rule="dodgeable-selector",
    severity=Severity.WARNING,
    explanation="What validates by objectSelector is opt-in: users can get around it by a label.",
    fix="Select by namespaceSelector, or by matchConditions on what users cannot set.",
    check=_dodgeable,
)
