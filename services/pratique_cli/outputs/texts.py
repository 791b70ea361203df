"""``-o text``: decisions for a person, on a terminal or in a log."""

from __future__ import annotations

import dataclasses
import difflib
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from pratique.admission.results import OutcomeStatus as StepOutcome
from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import JSON, JSONObject, encode, member, unescape
from pratique.apimachinery.patches import apply_patch
from pratique.apimachinery.requests import Operation
from pratique.apimachinery.source_documents import display_path
from pratique.apimachinery.statuses import Status
from pratique_cli.encoding import dump_yaml
from pratique_cli.outputs import ReviewCounts, ReviewedDocument, UndecidedDocument
from pratique_cli.reviews.expansions import Expansion, places, template_position
from pratique_cli.terminal import Palette, printable
from pratique_frontdoor import blame as blame_module
from pratique_frontdoor.blame.changes import Blame, blame_of, message_fields
from pratique_frontdoor.blame.fields import ABSENT, Absent
from pratique_frontdoor.chain.decisions import Decision, Step
from pratique_frontdoor.chain.message_fields import Cause

if TYPE_CHECKING:
    from typing import TextIO


def subject(review: Review) -> str:
    """Name the reviewed object: ``Deployment shop/web``, ``DELETE Pod shop/web``, ``Pod/status shop/web``."""
    kind = review.kind.kind + (f"/{review.subresource}" if review.subresource else "")
    name = review.name or member(review.object, "metadata", "name") or _generated_name(review)
    operation = "" if review.operation is Operation.CREATE else f"{review.operation.value} "
    # The namespace of a request for a Namespace is the Namespace itself.
    placed = review.namespace and review.resource.resource != "namespaces"
    return f"{operation}{kind} {review.namespace}/{name}" if placed else f"{operation}{kind} {name}"


def _generated_name(review: Review) -> str:
    prefix = member(review.object, "metadata", "generateName")
    return f"{prefix}…" if prefix else "without a name"


Path: TypeAlias = tuple[str | int, ...]
"""The path of a value: members by name, items by index."""

_PLAIN = re.compile(r"[A-Za-z0-9_$-]+")


@dataclasses.dataclass(frozen=True, slots=True)
class FieldChange:
    """A change to a field. Values are JSON text, or None if there is no value."""

    sign: str
    """``+`` added, ``-`` removed, ``~`` replaced."""
    path: str
    """The path of the field, such as ``spec.containers[0].image``."""
    before: str | None = None
    """The old value."""
    after: str | None = None
    """The new value."""


class ChangeTracker:
    """Follows an object through the steps of a review, and lists what each step changes."""

    def __init__(self, received: JSON) -> None:
        """Start with the object as received, which is not modified."""
        self._object = received

    @property
    def is_secret(self) -> bool:
        """Whether to hide values, as ``kubectl diff`` does."""
        return is_secret(self._object)

    def tell(self, operations: Iterable[JSONObject]) -> list[FieldChange]:
        """Apply JSON Patch operations, and list what they change; ``test`` changes nothing."""
        return [change for operation in operations for change in self._apply(operation)]

    def _apply(self, operation: JSONObject) -> list[FieldChange]:
        changes = self._changes(operation)
        self._object = apply_patch(self._object, (operation,))
        return changes

    def _changes(self, operation: JSONObject) -> list[FieldChange]:
        path = self._path(operation["path"])
        before = member(self._object, *path)
        match operation["op"]:
            case "remove":
                return [_removal(path, before)]
            case "replace":
                return [_replacement(path, before, operation.get("value"))]
            case "add":
                return [self._added(path, before, operation.get("value"))]
            case "copy":
                return [self._added(path, before, self._source(operation)[1])]
            case "move":
                source, value = self._source(operation)
                return [_removal(source, value), self._added(path, before, value)]
            case _:
                return []

    def _source(self, operation: JSONObject) -> tuple[Path, JSON]:
        path = self._path(operation["from"])
        return path, member(self._object, *path)

    def _added(self, path: Path, before: JSON, value: JSON) -> FieldChange:
        into_array = isinstance(member(self._object, *path[:-1]), list)
        return _replacement(path, None if into_array else before, value)

    def _path(self, pointer: str) -> Path:
        """Split a JSON Pointer, with array indexes as numbers; ``-`` becomes the index of the new item."""
        path: Path = ()
        for token in pointer.split("/")[1:]:
            parent = member(self._object, *path)
            path += (_index(token, len(parent)) if isinstance(parent, list) else unescape(token),)
        return path


def _index(step: str, length: int) -> int:
    if step == "-":
        return length
    # The API server's library counts negative indexes from the end.
    return int(step) % (length or 1) if step.startswith("-") else int(step)


def _removal(path: Path, before: JSON) -> FieldChange:
    return FieldChange("-", path_text(path), before=_value_text(before))


def _replacement(path: Path, before: JSON, after: JSON) -> FieldChange:
    if before is None:
        return FieldChange("+", path_text(path), after=_value_text(after))
    return FieldChange("~", path_text(path), before=_value_text(before), after=_value_text(after))


def is_secret(value: JSON) -> bool:
    """Whether an object is a core Secret."""
    return (member(value, "apiVersion"), member(value, "kind")) == ("v1", "Secret")


def path_text(path: Path) -> str:
    """Format a path as Kubernetes does: ``metadata.labels[example.com/app]``, ``spec.containers[0]``."""
    text = ""
    for step in path:
        if isinstance(step, int) or not _PLAIN.fullmatch(step):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text or "the whole object"


def _value_text(value: JSON) -> str:
    return encode(value).decode()


_CONTEXT = 3
"""Lines of context around each change, as in diff and kubectl."""


def difference(before: JSON, after: JSON) -> Iterator[str]:
    """Compare two objects as sorted YAML, as a unified diff without its two header lines."""
    if is_secret(before) and is_secret(after):
        before, after = _masked(before, after)
    lines = difflib.unified_diff(_lines(before), _lines(after), n=_CONTEXT, lineterm="")
    return itertools.islice(lines, 2, None)  # the first two lines name files


def _lines(value: JSON) -> list[str]:
    return dump_yaml(value, sort=True).splitlines() if value is not None else []


def _masked(before: JSONObject, after: JSONObject) -> tuple[JSONObject, JSONObject]:
    """Hide the values of a Secret, but show which of them change."""
    masked_before, masked_after = dict(before), dict(after)
    for field in ("data", "stringData"):
        old, new = _entries(before, field), _entries(after, field)
        changed = {key for key in old.keys() & new.keys() if old[key] != new[key]}
        _mask(masked_before, field, changed, " (before)")
        _mask(masked_after, field, changed, " (after)")
    return masked_before, masked_after


def _mask(secret: JSONObject, field: str, changed: set[str], remark: str) -> None:
    entries = _entries(secret, field)
    if entries:
        secret[field] = {key: "***" + remark * (key in changed) for key in entries}


def _entries(secret: JSONObject, field: str) -> JSONObject:
    entries = secret.get(field)
    return entries if isinstance(entries, dict) else {}


_OUTCOME_STYLES: dict[StepOutcome, tuple[str, tuple[str, ...]]] = {
    StepOutcome.ALLOWED: ("✓", ("green",)),
    StepOutcome.MUTATED: ("~", ("cyan",)),
    StepOutcome.UNCHANGED: ("·", ("dim",)),
    StepOutcome.DENIED: ("✗", ("red", "bold")),
    StepOutcome.WARNED: ("!", ("yellow",)),
    StepOutcome.SKIPPED: ("·", ("dim",)),
    StepOutcome.FAILED: ("✗", ("red", "bold")),
    StepOutcome.FAILED_OPEN: ("!", ("yellow",)),
}
_SIGNS = {"+": "green", "-": "red", "~": "cyan"}
_INDENT = " " * 4
_DETAIL = " " * 10


class StepWriter:
    """Writes steps; skipped ones are folded into one line unless ``verbose``."""

    def __init__(self, palette: Palette, *, verbose: bool) -> None:
        """Write with the colours and marks of ``palette``."""
        self._palette = palette
        self._verbose = verbose

    def lines(self, steps: Sequence[Step], tracker: ChangeTracker) -> Iterator[str]:
        """Write the steps in order; ``tracker`` follows the object through them."""
        display_path = [step for step in steps if self._verbose or step.outcome is not StepOutcome.SKIPPED]
        width = max((len(step_name(step)) for step in display_path), default=0)
        for step in display_path:
            yield self._line(step, width)
            yield from self._details(step, tracker)
        folded = [step for step in steps if step not in display_path]
        if folded:
            yield self._folded(folded)

    def _line(self, step: Step, width: int) -> str:
        mark, styles = _OUTCOME_STYLES[step.outcome]
        name = self._palette.mark(mark)
        phase = self._palette.paint(f"{step.phase.value:<8}", "dim")
        outcome = self._palette.paint(step.outcome.value, *styles)
        line = f"{_INDENT}{self._palette.paint(name, *styles)} {phase}  {step_name(step):<{width}}  {outcome}"
        return line + self._palette.paint(self._remarks(step), "dim")

    def _remarks(self, step: Step) -> str:
        if step.outcome is StepOutcome.SKIPPED:
            return f"  {printable(step.reason)}"
        remarks = ["reinvoked"] if step.round else []
        if self._verbose:
            remarks.append(f"{step.duration_seconds * 1000:.1f} ms")
            remarks += [step.endpoint] if step.endpoint else []
        return f"  ({', '.join(map(printable, remarks))})" if remarks else ""

    def _details(self, step: Step, tracker: ChangeTracker) -> Iterator[str]:
        if step.reason and step.outcome is not StepOutcome.SKIPPED:
            styles = _OUTCOME_STYLES[step.outcome][1]
            yield _DETAIL + self._palette.paint(printable(step.reason), *styles)
        secret = tracker.is_secret
        for change in tracker.tell(step.patch):
            yield self.change(change, secret=secret)

    def change(self, change: FieldChange, *, secret: bool) -> str:
        """Write one change; ``secret`` hides the values."""
        values = "" if secret else self._values(change)
        room = self._palette.width - len(_DETAIL) - 2
        path = printable(change.path)
        value = self._palette.cut(printable(values), max(room - len(path), 24))
        return f"{_DETAIL}{self._palette.paint(change.sign, _SIGNS[change.sign])} {path}{value}"

    def _values(self, change: FieldChange) -> str:
        if change.before is not None and change.after is not None:
            half = max((self._palette.width - len(_DETAIL) - len(change.path)) // 2, 12)
            return f": {self._palette.cut(change.before, half)} {self._palette.mark('→')} {change.after}"
        return f": {change.before if change.after is None else change.after}"

    def _folded(self, steps: Sequence[Step]) -> str:
        names = ", ".join(dict.fromkeys(step_name(step) for step in steps))
        head, tail = f"{self._palette.mark('·')} {len(steps)} skipped: ", " (-v says why)"
        text = head + self._palette.cut(names, self._palette.width - len(_INDENT + head + tail)) + tail
        return _INDENT + self._palette.paint(text, "dim")


def step_name(step: Step) -> str:
    """Name a step: its controller, and possibly its webhook or policy with its configuration or binding."""
    name = step.controller if step.name in ("", step.controller) else f"{step.controller} {step.name}"
    if step.configuration:
        name += f" ({step.configuration})"
    return printable(name)


_CHANGE_SIGNS = {"add": "+", "remove": "-", "replace": "~"}


def blame_lines(review: Review, decision: Decision, writer: StepWriter, palette: Palette) -> Iterator[str]:
    """List the step behind each change and each denied field; nothing if there are neither."""
    blame = blame_of(decision, review.object_document.data)
    secret = is_secret(review.object_document.data)
    if blame.changes:
        yield _INDENT + palette.paint("who changed it:", "bold")
    for change in blame.changes:
        yield writer.change(_blamed_change(change), secret=secret)
        yield f"{_DETAIL}  {palette.paint(_changed_by_text(change, decision), 'dim')}"
    if blame.denials:
        yield _INDENT + palette.paint("what is denied:", "bold")
    for denial in blame.denials:
        sentence = f"{path_text(denial.path)} {_last_change_text(denial, decision)}"
        yield f"{_DETAIL}{palette.paint(palette.mark('✗'), 'red')} {printable(sentence)}"


def blame_sentence(cause: Cause, decision: Decision, blame: Blame) -> str:
    """Say which step last changed the fields of a cause; empty if unknown."""
    fields = message_fields(cause.field, cause.text, decision.object_document.data)
    paths = {field.path for field in fields}
    parts = [
        f"{path_text(denial.path)} {_last_change_text(denial, decision)}"
        for denial in blame.denials
        if denial.step == cause.step and denial.path in paths
    ]
    return f"{'; '.join(parts)}." if parts else ""


def _last_change_text(denial: blame_module.BlamedDenial, decision: Decision) -> str:
    if denial.last_changed_by is None:
        return "is as it was received"
    return f"was last changed by {_step_text(denial.last_changed_by, decision)}"


def _changed_by_text(change: blame_module.Change, decision: Decision) -> str:
    text = "by nobody who is known" if change.step is None else f"by {_step_text(change.step, decision)}"
    if change.earlier:
        text += f", after {', '.join(_step_text(step, decision) for step in change.earlier)}"
    return text


def _step_text(index: int, decision: Decision) -> str:
    step = decision.steps[index]
    return step_name(step) + (" when reinvoked" if step.round else "")


def _blamed_change(change: blame_module.Change) -> FieldChange:
    before, after = _blamed_value_text(change.before), _blamed_value_text(change.after)
    return FieldChange(_CHANGE_SIGNS[change.kind], path_text(change.path), before, after)


def _blamed_value_text(value: JSON | Absent) -> str | None:
    return None if value is ABSENT else encode(value).decode()


_POD_INDENT = " " * 4
_DIFFERENCE_STYLES = {"+": "green", "-": "red", "@": "cyan"}


class TextOutput:
    """Writes each decision as a headline, its steps, its warnings and a diff."""

    def __init__(
        self, stream: TextIO, palette: Palette, *, verbose: bool = False, blame: bool = False
    ) -> None:
        """Write to ``stream``.

        ``verbose`` shows each skipped step, times and endpoints; ``blame`` shows which step changed what.
        """
        self._stream = stream
        self._palette = palette
        self._steps = StepWriter(palette, verbose=verbose)
        self._verbose = verbose
        self._blame = blame

    def write(self, reviewed: ReviewedDocument) -> None:
        """Write one decision and an empty line."""
        lines = [self._headline(reviewed.review, reviewed.decision, reviewed.place)]
        lines += self._body(reviewed.review, reviewed.decision)
        for expansion in reviewed.expanded:
            lines += (f"{_POD_INDENT}{line}" if line else "" for line in self._pod(reviewed, expansion))
        self._stream.write("\n".join([*lines, "", ""]))
        self._stream.flush()

    def _body(self, review: Review, decision: Decision) -> Iterator[str]:
        yield from self._refusal(decision)
        yield from self._steps.lines(decision.steps, ChangeTracker(review.object_document.data))
        if self._blame:
            from pratique_cli.outputs.texts import blame_lines  # noqa: PLC0415 - only with --blame

            yield from blame_lines(review, decision, self._steps, self._palette)
        yield from self._warnings(decision)
        if decision.patch and (decision.allowed or self._verbose):
            yield from self._difference(review, decision)

    def _pod(self, reviewed: ReviewedDocument, expansion: Expansion) -> Iterator[str]:
        """Write the decision on a Pod of the workload, in full if it is denied or with ``verbose``."""
        document, decision = reviewed.document, expansion.decision
        headline_place = f"{display_path(document.file)}:{template_position(reviewed, expansion).line}"
        yield self._headline(expansion.review, decision, headline_place)
        if decision.allowed and not self._verbose:
            yield from self._warnings(decision)
            return
        yield from self._body(expansion.review, decision)
        for place in places(reviewed, expansion):
            where = f"{display_path(document.file)}:{place.position.line}"
            yield f"    {self._palette.mark('→')} {printable(f'{where}  {place.field}')}"

    def _headline(self, review: Review, decision: Decision, where: str) -> str:
        paint, mark = self._palette.paint, self._palette.mark
        if decision.allowed:
            verdict = paint(f"{mark('✓')} admitted", "green", "bold")
        else:
            verdict = paint(f"{mark('✗')} denied  ", "red", "bold")
        named = paint(printable(subject(review)), "bold")
        code = paint(_code(decision.status), "red")
        place = paint(f"({printable(where)})", "dim")
        return "  ".join(part for part in (verdict, named, code, place) if part)

    def _refusal(self, decision: Decision) -> list[str]:
        """Write the reason of a denial, unless a step gives it."""
        status = decision.status
        if status is None or any(step.reason == status.message for step in decision.steps):
            return []
        return [f"    {self._palette.paint(printable(status.message), 'red')}"]

    def _warnings(self, decision: Decision) -> list[str]:
        return [
            self._palette.paint(f"    {self._palette.mark('!')} warning: {printable(text)}", "yellow")
            for text in decision.warnings
        ]

    def _difference(self, review: Review, decision: Decision) -> Iterator[str]:
        yield ""
        first = True
        for line in difference(review.object, decision.object_document.data):
            if not line.startswith("@@"):
                yield "    " + self._palette.paint(printable(line), *filter(None, [_style(line)]))
            elif not first:
                yield "    " + self._palette.paint(self._palette.mark("…"), "dim")
            first = False

    def write_problem(self, problem: UndecidedDocument) -> None:
        """Write nothing: standard error reports it."""

    def finish(self, counts: ReviewCounts) -> None:
        """Write the counts."""
        paint = self._palette.paint
        parts = [f"{counts.admitted + counts.denied} reviewed", f"{counts.admitted} admitted"]
        parts.append(paint(f"{counts.denied} denied", *(("red", "bold") if counts.denied else ())))
        if counts.pods_denied:
            parts.append(paint(f"{counts.pods_denied} denied of the Pods they would make", "red", "bold"))
        if counts.undecided:
            parts.append(paint(f"{counts.undecided} undecided", "red", "bold"))
        if counts.unreadable:
            parts.append(paint(f"{counts.unreadable} unreadable", "red", "bold"))
        self._stream.write(", ".join(parts) + "\n")
        self._stream.flush()


def _style(line: str) -> str | None:
    return _DIFFERENCE_STYLES.get(line[:1])


def _code(status: Status | None) -> str:
    return f"{status.code} {status.reason}".strip() if status else ""
