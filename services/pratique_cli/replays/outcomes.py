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
from pratique_cli.outputs.findings import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_GENERATED = re.compile(r"(.*-)[bcdfghjklmnpqrstvwxz2456789]{5}")
"""A name that was generated: ``k8s.io/apimachinery/pkg/util/rand`` writes its end with these."""
_SOMETHING = "#####"
_TRACES = ("mutation.webhook.admission.k8s.io/", "patch.webhook.admission.k8s.io/")
"""Annotations by which the API server tells which webhooks it called and what they changed: steps tell the same."""
_DENYING = frozenset({"denied", "failed"})


@dataclasses.dataclass(frozen=True, slots=True)
class Told:
    """One step, as far as it counts."""

    rule: Rule
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
        return self.outcome in _DENYING


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
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
    steps: tuple[Told, ...]
    """What was not skipped, in order."""

    def denials(self) -> dict[Rule, str]:
        """Who denied the request, and why, in the order of the chain."""
        found: dict[Rule, str] = {}
        for step in self.steps:
            if step.denies:
                found.setdefault(step.rule, step.reason or self.message)
        return found

    def patches(self) -> dict[Rule, list[JSONObject]]:
        """Who changed the object, and how."""
        found: dict[Rule, list[JSONObject]] = {}
        for step in self.steps:
            if step.patch:
                found.setdefault(step.rule, []).extend(step.patch)
        return found


def outcome_of(decision: JSONObject, received: JSON) -> Outcome:
    """Read a decision document; ``received`` is the object as it came.

    Raises:
        InputError: its patch cannot be applied to that object.
        KeyError, TypeError, AttributeError: it is no decision document.
    """
    status = decision.get("status") or {}
    final = _applied(decision.get("patch") or [], received)
    names = dict(_generated_names(final, received))
    return Outcome(
        allowed=decision["allowed"] is True,
        code=int(status.get("code", 0)),
        message=_lasting(str(status.get("message", "")), names),
        object=_lasting(final, names),
        warnings=[_lasting(str(each), names) for each in decision.get("warnings") or []],
        audit_annotations=_lasting(_told_nowhere_else(decision.get("auditAnnotations") or {}), names),
        steps=tuple(_told(step, names) for step in decision["steps"] if step["outcome"] != "skipped"),
    )


def _told_nowhere_else(annotations: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in annotations.items() if not key.startswith(_TRACES)}


def _applied(patch: list[JSONObject], received: JSON) -> JSON:
    if not patch or received is None:
        return received
    try:
        return apply_patch(received, patch)
    except PatchError as error:
        raise InputError(f"decision.patch: does not apply to the review's object: {error}") from None


def _told(step: JSONObject, names: Mapping[str, str]) -> Told:
    controller, name = str(step["controller"]), str(step["name"])
    rule = Rule(controller, "" if name == controller else name, str(step.get("configuration", "")))
    reason = _lasting(str(step.get("reason", "")), names)
    return Told(rule, str(step["outcome"]), reason, _lasting(step.get("patch") or [], names))


def _generated_names(final: JSON, received: JSON) -> Iterator[tuple[str, str]]:
    """Names of volumes that the chain added and chose at random, and what is written in their place."""
    for path in (("spec",), ("spec", "template", "spec")):
        there = {member(one, "name") for one in member(received, *path, "volumes") or []}
        for volume in member(final, *path, "volumes") or []:
            name = member(volume, "name")
            found = _GENERATED.fullmatch(name) if isinstance(name, str) and name not in there else None
            if found:
                yield found[0], found[1] + _SOMETHING


def _lasting(value: JSON, names: Mapping[str, str]) -> JSON:
    if not names:
        return value
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, list):
        return [_lasting(each, names) for each in value]
    if isinstance(value, dict):
        return {name: _lasting(each, names) for name, each in value.items()}
    return value
