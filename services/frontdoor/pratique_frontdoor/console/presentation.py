"""Decisions as pages show them: the chain in columns, the object before and after, and who set each field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from pratique.admission.controllers import Phase
from pratique.admission.results import OutcomeStatus
from pratique.apimachinery.diff import opcodes
from pratique.apimachinery.json_values import JSON, JSONObject, encode
from pratique.apimachinery.patterns import pattern
from pratique_frontdoor.blame.changes import Path, blame_of
from pratique_frontdoor.chain.decisions import OBJECT_VALIDATION, Decision, Step
from pratique_frontdoor.chain.message_fields import Cause, causes
from pratique_frontdoor.console.playground import DecidedReview

SYMBOLS: Mapping[OutcomeStatus, str] = {
    OutcomeStatus.ALLOWED: "✓",
    OutcomeStatus.MUTATED: "✎",
    OutcomeStatus.UNCHANGED: "=",
    OutcomeStatus.DENIED: "✕",
    OutcomeStatus.WARNED: "!",
    OutcomeStatus.SKIPPED: "–",  # noqa: RUF001 - a dash, which readers cannot take for a minus
    OutcomeStatus.FAILED: "✕",
    OutcomeStatus.FAILED_OPEN: "!",
}
"""The sign of each outcome, beside its word, so that nobody needs to see colours."""

_PLAIN = pattern(r"[A-Za-z][\w./-]*(?: [\w./-]+)*")
"""Text that YAML reads as itself, unless it is one of the words below."""
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


class ObjectLine(msgspec.Struct, frozen=True):
    """A line of an object, written as YAML."""

    path: Path
    text: str


class BlamedLine(msgspec.Struct, frozen=True):
    """A line of the final object, and who set it."""

    text: str
    setter: str
    """The step that set it last; empty if it is as received."""
    number: int
    """The step's number among those that set something, from 1; 0 if it is as received."""


class DiffLine(msgspec.Struct, frozen=True):
    """A line of the comparison of an object before and after."""

    sign: str
    """``+``, ``-`` or a space."""
    text: str


class ChainBox(msgspec.Struct, frozen=True):
    """A step of the chain."""

    step: Step
    symbol: str
    milliseconds: str
    """How long it took; empty for what is not timed by itself."""
    patch: str
    """Its operations as JSON, one a line; empty without any."""
    patch_size: str
    """How many operations and bytes the patch has, such as ``2 changes, 184 B``; empty without any."""

    @property
    def title(self) -> str:
        """The webhook, policy or controller."""
        return self.step.name or self.step.controller


class ChainColumn(msgspec.Struct, frozen=True):
    """The steps of one phase and round."""

    title: str
    hint: str
    """How its steps run."""
    boxes: Sequence[ChainBox]
    skipped: Sequence[ChainBox]


class ShownDecision(msgspec.Struct, frozen=True):
    """Everything that a page shows of a decision."""

    decided: DecidedReview
    causes: Sequence[Cause]
    columns: Sequence[ChainColumn]
    diff: Sequence[DiffLine]
    blame: Sequence[BlamedLine]
    setters: Sequence[str]
    """The steps that set fields, by their numbers."""
    milliseconds: str
    """How long the phases took; empty if it is not known, as in a recording."""


def show(decided: DecidedReview) -> ShownDecision:
    """Prepare a decision for a page."""
    decision = decided.decision
    before, after = decided.review.object_document.data, decision.object_document.data
    setters, blame = _blame(decision, before)
    seconds = sum(decision.phase_seconds.values())
    return ShownDecision(
        decided=decided,
        causes=list(causes(decision, decision.status)) if decision.status else [],
        columns=list(_columns(decision.steps)),
        diff=list(_diff(before, after)),
        blame=blame,
        setters=setters,
        milliseconds=f"{seconds * 1000:.1f}" if decision.phase_seconds else "",
    )


def object_lines(value: JSON, path: Path = (), indent: str = "") -> Iterator[ObjectLine]:
    """Write an object as lines of YAML, each with the path of its field."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _entry((*path, name), f"{indent}{_scalar(name)}:", item, indent + "  ")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            # the first line of an item stands behind its dash, as people write lists
            first, *others = _entry((*path, index), "", item, indent + "  ")
            yield ObjectLine(first.path, f"{indent}- {first.text.lstrip()}")
            yield from others


def _entry(path: Path, head: str, value: JSON, indent: str) -> Iterator[ObjectLine]:
    if not isinstance(value, dict | list) or not value:
        yield ObjectLine(path, f"{head} {_scalar(value)}")
        return
    if head:
        yield ObjectLine(path, head)
    yield from object_lines(value, path, indent)


def _scalar(value: JSON) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return encode(value).decode()


def _diff(before: JSON, after: JSON) -> Iterator[DiffLine]:
    was, now = ([line.text for line in object_lines(value)] for value in (before, after))
    for tag, old_from, old_to, new_from, new_to in opcodes(was, now):
        if tag == "equal":
            yield from (DiffLine(" ", text) for text in was[old_from:old_to])
        else:
            yield from (DiffLine("-", text) for text in was[old_from:old_to])
            yield from (DiffLine("+", text) for text in now[new_from:new_to])


def _blame(decision: Decision, received: JSON) -> tuple[list[str], list[BlamedLine]]:
    """Number the steps that set fields, and write the final object with them."""
    changed = {change.path: change.step for change in blame_of(decision, received).changes}
    names: dict[str, int] = {}
    lines = []
    for line in object_lines(decision.object_document.data):
        owner = _owner(line.path, changed, decision)
        number = names.setdefault(owner, len(names) + 1) if owner else 0
        lines.append(BlamedLine(line.text, owner, number))
    return list(names), lines


def _owner(path: Path, changed: Mapping[Path, int | None], decision: Decision) -> str:
    for length in range(len(path), 0, -1):
        if path[:length] in changed:
            step = changed[path[:length]]
            return "unknown" if step is None else step_title(decision.steps[step])
    return ""


def step_title(step: Step) -> str:
    """Name a step by its controller, and its webhook or policy if it has one."""
    name = step.controller if step.name in {"", step.controller} else f"{step.controller}/{step.name}"
    return f"{name} (reinvoked)" if step.round else name


def _columns(steps: Sequence[Step]) -> Iterator[ChainColumn]:
    """Group neighbouring steps into columns, in the order in which they ran."""
    groups: dict[str, list[Step]] = {}
    for step in steps:
        groups.setdefault(_column(step), []).append(step)
    for title, group in groups.items():
        boxes = [_box(step) for step in group if step.outcome is not OutcomeStatus.SKIPPED]
        skipped = [_box(step) for step in group if step.outcome is OutcomeStatus.SKIPPED]
        yield ChainColumn(title, _HINTS[title], boxes, skipped)


_HINTS = {
    "Defaults": "decoded and completed as by the API server",
    "Mutating": "one after another",
    "Reinvoked": "again, because a later step changed the object",
    "Object validation": "the rules of the API server",
    "Validating": "side by side; ResourceQuota last",
}


def _column(step: Step) -> str:
    if step.controller == OBJECT_VALIDATION:
        return "Defaults" if step.name == "defaults" else "Object validation"
    if step.phase is Phase.VALIDATE:
        return "Validating"
    return "Reinvoked" if step.round else "Mutating"


def _box(step: Step) -> ChainBox:
    patch = "\n".join(_operation(operation) for operation in step.patch)
    seconds = step.duration_seconds
    milliseconds = f"{seconds * 1000:.2f}" if seconds else ""
    return ChainBox(step, SYMBOLS[step.outcome], milliseconds, patch, patch_size_text(step.patch))


def patch_size_text(patch: Sequence[JSONObject]) -> str:
    """Say how many operations a patch has, and how many bytes they are as JSON; empty without any."""
    if not patch:
        return ""
    size = len(encode(list(patch)))
    amount = f"{size} B" if size < 10_000 else f"{size / 1024:.0f} KiB"
    return f"{len(patch)} change{'s' if len(patch) > 1 else ''}, {amount}"


def _operation(operation: JSONObject) -> str:
    value = f" {msgspec.json.encode(operation['value']).decode()}" if "value" in operation else ""
    return f"{operation.get('op')} {operation.get('path')}{value}"
