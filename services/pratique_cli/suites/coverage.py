"""Coverage: which policies, validations, bindings and webhooks the cases use."""

from __future__ import annotations

import collections
import os
from collections.abc import Iterable, Iterator
from typing import TypeAlias

import msgspec

from pratique.admission.results import OutcomeStatus as StepOutcome
from pratique.apimachinery.field_errors import Step as PathStep
from pratique.apimachinery.source_documents import SourceDocument
from pratique.configuration.admissionregistration import PolicyConfiguration, PolicySpec, WebhookConfiguration
from pratique.configuration.loading import Configurations
from pratique_cli.terminal import Palette, printable
from pratique_frontdoor.chain.decisions import Decision, Step

_EFFECTS = {
    StepOutcome.DENIED: "denied",
    StepOutcome.FAILED: "denied",
    StepOutcome.MUTATED: "mutated",
    StepOutcome.WARNED: "warned",
}
_AUDITED = "audited"
_POLICIES = ("MutatingAdmissionPolicy", "ValidatingAdmissionPolicy")

VALIDATION = "validation"
"""The kind of an entry for one validation of a policy."""

CoverageKey: TypeAlias = tuple[str, ...]
"""The key of an entry within one configuration: its controller and names, and the index of a validation."""


class CoverageEntry(msgspec.Struct):
    """A policy, validation, binding or webhook, and how often cases used it."""

    kind: str
    """The kind of its document, or ``validation`` or ``webhook``."""
    name: str
    source: SourceDocument | None
    """Its document."""
    path: tuple[PathStep, ...] = ()
    """Its path in that document."""
    expression: str = ""
    """The expression of a validation."""
    matched: int = 0
    """Reviews that it matched, or for a validation, that its policy matched."""
    denied: int = 0
    """Reviews that it denied."""
    mutated: int = 0
    """Reviews whose object it changed."""
    warned: int = 0
    """Reviews that it warned about."""
    audited: int = 0
    """Reviews for which it only wrote audit annotations."""

    @property
    def acted(self) -> int:
        """How often it had an effect. An entry without effects is untested."""
        return self.denied + self.mutated + self.warned + self.audited

    def count(self, effects: set[str]) -> None:
        """Count a matching review. ``audited`` counts only if there is no other effect."""
        self.matched += 1
        for effect in effects - {_AUDITED} or effects:
            setattr(self, effect, getattr(self, effect) + 1)

    @property
    def line(self) -> int:
        """The line on which it begins; 0 if it is not in a file."""
        return 0 if self.source is None else self.source.position(self.path).line


class Coverage:
    """Counts how the cases use configurations."""

    def __init__(self) -> None:
        """Start without entries."""
        self._entries: dict[CoverageKey, CoverageEntry] = {}
        self._known: dict[int, tuple[Configurations, dict[CoverageKey, CoverageEntry]]] = {}

    @property
    def entries(self) -> list[CoverageEntry]:
        """All entries: policies with their validations, bindings, webhooks."""
        return list(self._entries.values())

    @property
    def percent(self) -> float:
        """The percentage of entries with effects; 100 without entries."""
        entries = self.entries
        return 100 * sum(entry.acted > 0 for entry in entries) / len(entries) if entries else 100.0

    def add(self, configurations: Configurations) -> None:
        """Add the entries of a configuration. Entries of the same file are shared between configurations."""
        if id(configurations) in self._known:
            return
        shared = {
            key: self._entries.setdefault((_file(entry), entry.kind, *key), entry)
            for key, entry in _entries(configurations)
        }
        self._known[id(configurations)] = configurations, shared

    def count(self, configurations: Configurations, decision: Decision) -> None:
        """Count the entries that a decision used; its configuration must have been added."""
        _, known = self._known[id(configurations)]
        used = _effects_by_key(decision)
        for key, entry in known.items():
            if key in used:
                entry.count(used[key])
            elif entry.kind == VALIDATION and key[:-1] in used:
                entry.count(set())


def _file(entry: CoverageEntry) -> str:
    return os.path.realpath(entry.source.file) if entry.source else ""


def _effects_by_key(decision: Decision) -> dict[CoverageKey, set[str]]:
    """The effects of each entry that took part in a decision."""
    used: dict[CoverageKey, set[str]] = collections.defaultdict(set)
    for step in decision.steps:
        if step.outcome is not StepOutcome.SKIPPED:
            effect = _EFFECTS.get(step.outcome, _AUDITED if step.unmet else "")
            for key in _keys(step):
                used[key] |= {effect} if effect else set()
    return used


def _keys(step: Step) -> Iterator[CoverageKey]:
    if step.controller in _POLICIES:
        yield step.controller, step.name
        yield f"{step.controller}Binding", step.configuration
        yield from ((step.controller, step.name, str(index)) for index in step.unmet)
    else:
        yield step.controller, step.configuration, step.name


def _entries(configurations: Configurations) -> Iterator[tuple[CoverageKey, CoverageEntry]]:
    yield from _policies(configurations.mutating_policies)
    yield from _policies(configurations.validating_policies)
    for binding in (*configurations.mutating_bindings, *configurations.validating_bindings):
        yield (
            (binding.kind.value, binding.name),
            CoverageEntry(binding.kind.value, binding.name, binding.source),
        )
    for controller, webhook_configurations in (
        ("MutatingAdmissionWebhook", configurations.mutating),
        ("ValidatingAdmissionWebhook", configurations.validating),
    ):
        for configuration in webhook_configurations:
            yield from _webhooks(controller, configuration)


def _policies(
    policies: Iterable[PolicyConfiguration[PolicySpec]],
) -> Iterator[tuple[CoverageKey, CoverageEntry]]:
    for policy in policies:
        kind = policy.kind.value
        yield (kind, policy.name), CoverageEntry(kind, policy.name, policy.source)
        for index, validation in enumerate(getattr(policy.spec, "validations", ())):
            path = ("spec", "validations", index)
            name = f"{policy.name} validations[{index}]"
            yield (
                (kind, policy.name, str(index)),
                CoverageEntry(VALIDATION, name, policy.source, path, " ".join(validation.expression.split())),
            )


def _webhooks(
    controller: str, configuration: WebhookConfiguration
) -> Iterator[tuple[CoverageKey, CoverageEntry]]:
    for index, webhook in enumerate(configuration.webhooks):
        name = f"{configuration.name}/{webhook.name}"
        key = (controller, configuration.name, webhook.name)
        yield key, CoverageEntry("webhook", name, configuration.source, ("webhooks", index))


_COLUMNS = ("matched", "denied", "mutated", "warned", "audited")


def coverage_lines(coverage: Coverage, palette: Palette) -> Iterator[str]:
    """Write a table of the entries, then the unused ones."""
    entries = coverage.entries
    columns = [
        name for name in _COLUMNS if name == "matched" or any(getattr(entry, name) for entry in entries)
    ]
    names = [printable(_name(entry)) for entry in entries]
    figures = sum(len(name) + 2 for name in columns)
    width = min(max(map(len, names)), max(palette.width - figures, 20))
    head = "coverage".ljust(width) + "".join(f"  {name}" for name in columns)
    yield palette.paint(head, "bold")
    for entry, name in zip(entries, names, strict=True):
        cells = "".join(f"  {getattr(entry, column) or '':>{len(column)}}" for column in columns)
        yield f"{palette.cut(name, width).ljust(width)}{_coloured(entry, cells, palette)}".rstrip()
    yield from _unused_lines("never matched", [entry for entry in entries if not entry.matched], palette)
    idle = [entry for entry in entries if entry.matched and not entry.acted]
    yield from _unused_lines("matched, but never did anything", idle, palette)
    acted = sum(entry.acted > 0 for entry in entries)
    yield f"{acted} of {len(entries)} did something ({coverage.percent:.1f} %)"


def _name(entry: CoverageEntry) -> str:
    if entry.kind == VALIDATION:
        index = entry.name.rpartition(" ")[2]
        return f"  {index} {entry.expression}"
    return f"{entry.kind} {entry.name}"


def _coloured(entry: CoverageEntry, cells: str, palette: Palette) -> str:
    return cells if entry.acted else palette.paint(cells, "yellow")


def _unused_lines(what: str, entries: list[CoverageEntry], palette: Palette) -> Iterator[str]:
    if not entries:
        return
    yield palette.paint(f"{what}:", "yellow")
    for entry in entries:
        where = "" if entry.source is None else f"  ({entry.source.file}:{entry.line})"
        yield printable(f"  {entry.kind} {entry.name}{where}")
