"""Outcomes: what of a decision can be compared with another one.

Times, endpoints and uids are no part of it, and what names were given at random is written as ``#####``.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_values import JSON, JSONObject, member
from pratique.apimachinery.patches import PatchError, apply_patch
from pratique_cli.outputs.findings import StepOrigin

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_GENERATED = re.compile(r"(.*-)[bcdfghjklmnpqrstvwxz2456789]{5}")
"""A name that was generated: ``k8s.io/apimachinery/pkg/util/rand`` writes its end with these."""
_RANDOM_SUFFIX = "#####"
_WEBHOOK_ANNOTATIONS = ("mutation.webhook.admission.k8s.io/", "patch.webhook.admission.k8s.io/")
"""Annotations by which the API server tells which webhooks it called and what they changed: steps tell the same."""
_DENYING_OUTCOMES = frozenset({"denied", "failed"})


@dataclasses.dataclass(frozen=True, slots=True)
class ReplayedStep:
    """One step, as far as it counts."""

    rule: StepOrigin
    """Which controller, webhook or policy."""
    outcome: str
    """How it ended."""
    reason: str
    """Why."""
    patch: list[JSONObject]
    """What it did to the object."""

    @property
    def denies(self) -> bool:
        """True where the request is denied for it."""
        return self.outcome in _DENYING_OUTCOMES


@dataclasses.dataclass(frozen=True, slots=True)
class ReplayedDecision:
    """What was decided."""

    allowed: bool
    code: int
    """Of the refusal; 0 where there is none."""
    message: str
    """Of the refusal."""
    object: JSON
    """As the chain left it."""
    warnings: list[str]
    audit_annotations: dict[str, str]
    steps: tuple[ReplayedStep, ...]
    """What was not skipped, in order."""

    def denials(self) -> dict[StepOrigin, str]:
        """Who denied the request, and why, in the order of the chain."""
        found: dict[StepOrigin, str] = {}
        for step in self.steps:
            if step.denies:
                found.setdefault(step.rule, step.reason or self.message)
        return found

    def patches(self) -> dict[StepOrigin, list[JSONObject]]:
        """Who changed the object, and how."""
        found: dict[StepOrigin, list[JSONObject]] = {}
        for step in self.steps:
            if step.patch:
                found.setdefault(step.rule, []).extend(step.patch)
        return found


def replayed_decision(decision: JSONObject, received: JSON) -> ReplayedDecision:
    """Read a decision document; ``received`` is the object as it came.

    Raises:
        InputError: its patch cannot be applied to that object.
        KeyError, TypeError, AttributeError: it is no decision document.
    """
    status = decision.get("status") or {}
    final = _patched(decision.get("patch") or [], received)
    names = dict(_generated_names(final, received))
    return ReplayedDecision(
        allowed=decision["allowed"] is True,
        code=int(status.get("code", 0)),
        message=_without_random_names(str(status.get("message", "")), names),
        object=_without_random_names(final, names),
        warnings=[_without_random_names(str(each), names) for each in decision.get("warnings") or []],
        audit_annotations=_without_random_names(_without_webhook_annotations(decision.get("auditAnnotations") or {}), names),
        steps=tuple(_replayed_step(step, names) for step in decision["steps"] if step["outcome"] != "skipped"),
    )


def _without_webhook_annotations(annotations: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in annotations.items() if not key.startswith(_WEBHOOK_ANNOTATIONS)}


def _patched(patch: list[JSONObject], received: JSON) -> JSON:
    if not patch or received is None:
        return received
    try:
        return apply_patch(received, patch)
    except PatchError as error:
        raise InputError(f"decision.patch: does not apply to the review's object: {error}") from None


def _replayed_step(step: JSONObject, names: Mapping[str, str]) -> ReplayedStep:
    controller, name = str(step["controller"]), str(step["name"])
    rule = StepOrigin(controller, "" if name == controller else name, str(step.get("configuration", "")))
    reason = _without_random_names(str(step.get("reason", "")), names)
    return ReplayedStep(rule, str(step["outcome"]), reason, _without_random_names(step.get("patch") or [], names))


def _generated_names(final: JSON, received: JSON) -> Iterator[tuple[str, str]]:
    """Names of volumes that the chain added and chose at random, and what is written in their place."""
    for path in (("spec",), ("spec", "template", "spec")):
        there = {member(one, "name") for one in member(received, *path, "volumes") or []}
        for volume in member(final, *path, "volumes") or []:
            name = member(volume, "name")
            found = _GENERATED.fullmatch(name) if isinstance(name, str) and name not in there else None
            if found:
                yield found[0], found[1] + _RANDOM_SUFFIX


def _without_random_names(value: JSON, names: Mapping[str, str]) -> JSON:
    if not names:
        return value
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, list):
        return [_without_random_names(each, names) for each in value]
    if isinstance(value, dict):
        return {name: _without_random_names(each, names) for name, each in value.items()}
    return value
