"""What of a configuration the cases have used, and what not."""

from __future__ import annotations

import collections
import dataclasses
import os
from collections.abc import Iterable, Iterator
from typing import TypeAlias

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
"""The kind of an entry that is one expression of a policy."""

CoverageKey: TypeAlias = tuple[str, ...]
"""What an entry is known by within one configuration: its controller and names; of a validation the index last."""


@dataclasses.dataclass(slots=True)
class CoverageEntry:
    """One thing that cases can put to use: a policy, one of its validations, a binding or a webhook."""

    kind: str
    """The kind of its document, ``validation`` or ``webhook``."""
    name: str
    source: SourceDocument | None
    """Where it was written."""
    path: tuple[PathStep, ...] = ()
    """Where it stands in that document."""
    expression: str = ""
    """Of a validation."""
    matched: int = 0
    """Reviews that it had to do with; of a validation, those that its policy had to do with."""
    denied: int = 0
    """Reviews that it refused."""
    mutated: int = 0
    """Reviews whose object it changed."""
    warned: int = 0
    """Reviews that it warned about."""
    audited: int = 0
    """Reviews for which it only wrote to the audit log."""

    @property
    def acted(self) -> int:
        """How often something came of it. What never acts might as well not be there, as far as the cases tell."""
        return self.denied + self.mutated + self.warned + self.audited

    def count(self, effects: set[str]) -> None:
        """Count a review that it had to do with. What somebody notices counts before what only the log tells."""
        self.matched += 1
        for effect in effects - {_AUDITED} or effects:
            setattr(self, effect, getattr(self, effect) + 1)

    @property
    def line(self) -> int:
        """The line that it begins on; 0 where it stands in no file."""
        return 0 if self.source is None else self.source.position(self.path).line


class Coverage:
    """What the cases have put to use so far."""

    def __init__(self) -> None:
        """Begin with nothing to be used."""
        self._entries: dict[CoverageKey, CoverageEntry] = {}
        self._known: dict[int, tuple[Configurations, dict[CoverageKey, CoverageEntry]]] = {}

    @property
    def entries(self) -> list[CoverageEntry]:
        """All that could be put to use: policies with their validations, bindings, webhooks."""
        return list(self._entries.values())

    @property
    def percent(self) -> float:
        """How much of it has acted, of 100; 100 where there is nothing."""
        entries = self.entries
        return 100 * sum(entry.acted > 0 for entry in entries) / len(entries) if entries else 100.0

    def add(self, configurations: Configurations) -> None:
        """Expect what is configured to be used. What another configuration has of the same file is the same."""
        if id(configurations) in self._known:
            return
        shared = {
            key: self._entries.setdefault((_file(entry), entry.kind, *key), entry)
            for key, entry in _entries(configurations)
        }
        self._known[id(configurations)] = configurations, shared

    def count(self, configurations: Configurations, decision: Decision) -> None:
        """Count what a decision has put to use of the configuration that it was made by, which has been added."""
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
    """What came of what had to do with a review."""
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
    for each in (*configurations.mutating_bindings, *configurations.validating_bindings):
        yield (each.kind.value, each.name), CoverageEntry(each.kind.value, each.name, each.source)
    for controller, hooks in (
        ("MutatingAdmissionWebhook", configurations.mutating),
        ("ValidatingAdmissionWebhook", configurations.validating),
    ):
        for one in hooks:
            yield from _webhooks(controller, one)


def _policies(
    policies: Iterable[PolicyConfiguration[PolicySpec]],
) -> Iterator[tuple[CoverageKey, CoverageEntry]]:
    for each in policies:
        kind = each.kind.value
        yield (kind, each.name), CoverageEntry(kind, each.name, each.source)
        for index, validation in enumerate(getattr(each.spec, "validations", ())):
            path = ("spec", "validations", index)
            name = f"{each.name} validations[{index}]"
            yield (
                (kind, each.name, str(index)),
                CoverageEntry(VALIDATION, name, each.source, path, " ".join(validation.expression.split())),
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
    """Write a table, and below it what was never used."""
    entries = coverage.entries
    columns = [name for name in _COLUMNS if name == "matched" or any(getattr(each, name) for each in entries)]
    names = [printable(_name(each)) for each in entries]
    figures = sum(len(name) + 2 for name in columns)
    width = min(max(map(len, names)), max(palette.width - figures, 20))
    head = "coverage".ljust(width) + "".join(f"  {name}" for name in columns)
    yield palette.paint(head, "bold")
    for entry, name in zip(entries, names, strict=True):
        cells = "".join(f"  {getattr(entry, column) or '':>{len(column)}}" for column in columns)
        yield f"{palette.cut(name, width).ljust(width)}{_coloured(entry, cells, palette)}".rstrip()
    yield from _unused_lines("never matched", [each for each in entries if not each.matched], palette)
    idle = [each for each in entries if each.matched and not each.acted]
    yield from _unused_lines("matched, but never did anything", idle, palette)
    acted = sum(each.acted > 0 for each in entries)
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
