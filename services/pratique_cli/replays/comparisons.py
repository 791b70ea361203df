"""Comparing two decisions on one review, and finding the steps behind the differences."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from pratique.apimachinery.diff import diff
from pratique.apimachinery.go_formats import is_index
from pratique.apimachinery.json_values import JSON, JSONObject, encode, member, unescape
from pratique_cli.outputs.changes import ObjectPath, path_text
from pratique_cli.outputs.findings import StepOrigin
from pratique_cli.replays.recorded_reviews import REDACTED, ReplayedDecision
from pratique_frontdoor.recording.redaction import MASK

_COUNTING_CONTROLLERS = frozenset({"ResourceQuota", "EventRateLimit"})
"""Controllers whose decisions depend on earlier reviews."""
_COUNTING_REASON = (
    "quotas and rates accumulate from review to review, but a replay decides each review independently"
)


class DifferenceKind(enum.StrEnum):
    """The kind of a difference."""

    DENIED = "denied"
    """Admitted before, denied now."""
    ADMITTED = "admitted"
    """Denied before, admitted now."""
    REASON = "reason"
    """Denied as before, for another reason."""
    OBJECT = "object"
    """Admitted as before, with another object."""
    WARNINGS = "warnings"
    """The warnings differ."""
    AUDIT = "auditAnnotations"
    """The audit annotations differ."""


class Difference(msgspec.Struct, frozen=True):
    """A difference, and the step behind it."""

    kind: DifferenceKind
    origin: StepOrigin
    """The controller, webhook or policy behind it; empty if unknown."""
    before: JSON
    """Before: the message of a denial, warnings, or values by field."""
    after: JSON
    """The same, now."""
    uncertain: tuple[str, ...] = ()
    """Reasons why it may not be a real difference."""


class DecisionComparer(msgspec.Struct, frozen=True):
    """Compares decisions."""

    reads: Callable[[str, str], bool]
    """Whether a controller may read a redacted field."""

    def compare(
        self,
        before: ReplayedDecision,
        after: ReplayedDecision,
        redacted: Sequence[str],
        *,
        in_secret: bool = False,
    ) -> list[Difference]:
        """List the differences; ``redacted`` names the redacted fields of the review.

        ``in_secret``: the review is one of Secrets, of which no new values are shown.
        """
        found = _decision_differences(before, after)
        if before.allowed == after.allowed and not found:
            found = [
                *(_object_differences(before, after, in_secret=in_secret) if after.allowed else ()),
                *_warning_differences(before, after),
                *_annotation_differences(before, after),
            ]
        return [
            msgspec.structs.replace(difference, uncertain=tuple(self._doubts(difference, redacted)))
            for difference in found
        ]

    def _doubts(self, difference: Difference, redacted: Sequence[str]) -> Iterator[str]:
        quoted = REDACTED.search(encode([difference.before, difference.after]).decode())
        places = [place for place in redacted if self.reads(difference.origin.controller, place)]
        if places:
            yield f"redacted: {', '.join(places)}"
        elif quoted:
            yield "redacted: what is quoted"
        if difference.origin.controller in _COUNTING_CONTROLLERS:
            yield _COUNTING_REASON


def _decision_differences(before: ReplayedDecision, after: ReplayedDecision) -> list[Difference]:
    was, now = before.denials(), after.denials()
    if before.allowed and not after.allowed:
        return [
            Difference(DifferenceKind.DENIED, origin, None, text)
            for origin, text in (now or _unattributed_denial(after)).items()
        ]
    if after.allowed and not before.allowed:
        return [
            Difference(DifferenceKind.ADMITTED, origin, text, None)
            for origin, text in (was or _unattributed_denial(before)).items()
        ]
    found = [
        Difference(DifferenceKind.REASON, origin, was.get(origin), now.get(origin))
        for origin in dict.fromkeys([*was, *now])
        if not _same_text(was.get(origin), now.get(origin))
    ]
    if not found and (before.code != after.code or not _same_text(before.message, after.message)):
        origin = next(iter(now), StepOrigin(""))
        found = [
            Difference(
                DifferenceKind.REASON,
                origin,
                f"{before.code} {before.message}",
                f"{after.code} {after.message}",
            )
        ]
    return found


def _unattributed_denial(outcome: ReplayedDecision) -> dict[StepOrigin, str]:
    return {StepOrigin(""): outcome.message}


def _same_text(before: str | None, after: str | None) -> bool:
    """Whether two texts are the same, ignoring the redacted parts of the first."""
    if before is None or after is None or before == after:
        return before == after
    if not REDACTED.search(before):
        return False
    literal = map(re.escape, REDACTED.split(before))
    return re.fullmatch(".+?".join(literal), after, re.DOTALL) is not None


def _object_differences(
    before: ReplayedDecision, after: ReplayedDecision, *, in_secret: bool
) -> list[Difference]:
    """List the differing fields, grouped by the step that changed them."""
    was, now = before.patches(), after.patches()
    changed = [origin for origin in dict.fromkeys([*was, *now]) if was.get(origin) != now.get(origin)]
    by_origin: dict[StepOrigin, tuple[JSONObject, JSONObject]] = {}
    for operation in diff(before.object, after.object):
        origin = _changing_step(operation["path"], changed, was, now)
        old, new = by_origin.setdefault(origin, ({}, {}))
        path = _path(operation["path"])
        field = path_text(path)
        removed = None if operation["op"] == "add" else member(before.object, *path)
        added = operation.get("value")
        old[field], new[field] = (_masked(removed), _masked(added)) if in_secret else (removed, added)
    return [Difference(DifferenceKind.OBJECT, origin, *values) for origin, values in by_origin.items()]


def _masked(value: JSON) -> JSON:
    """Hide a value of a Secret, unless it was redacted when it was recorded."""
    is_redacted = isinstance(value, str) and REDACTED.fullmatch(value)
    return value if value is None or is_redacted else MASK


def _changing_step(
    pointer: str,
    changed: Sequence[StepOrigin],
    was: Mapping[StepOrigin, list[JSONObject]],
    now: Mapping[StepOrigin, list[JSONObject]],
) -> StepOrigin:
    for origin in changed:
        if any(
            _overlap(pointer, operation["path"]) for operation in (*was.get(origin, ()), *now.get(origin, ()))
        ):
            return origin
    return changed[0] if changed else StepOrigin("")


def _overlap(first: str, second: str) -> bool:
    shorter, longer = sorted((first.split("/"), second.split("/")), key=len)
    return longer[: len(shorter)] == shorter


def _path(pointer: str) -> ObjectPath:
    return tuple(int(step) if is_index(step) else unescape(step) for step in pointer.split("/")[1:])


def _warning_differences(before: ReplayedDecision, after: ReplayedDecision) -> Iterator[Difference]:
    gone = _texts_not_in(before.warnings, after.warnings)
    new = [
        text_ for text_ in after.warnings if not any(_same_text(other, text_) for other in before.warnings)
    ]
    by_origin: dict[StepOrigin, tuple[list[str], list[str]]] = {}
    for place, (texts, outcome) in enumerate(((gone, before), (new, after))):
        for text in texts:
            by_origin.setdefault(_warning_step(text, outcome), ([], []))[place].append(text)
    for origin, (old, added) in by_origin.items():
        yield Difference(DifferenceKind.WARNINGS, origin, old, added)


def _texts_not_in(texts: Iterable[str], others: Sequence[str]) -> list[str]:
    return [text for text in texts if not any(_same_text(text, other) for other in others)]


def _warning_step(text: str, outcome: ReplayedDecision) -> StepOrigin:
    """The step that a warning comes from: the one that it names, or the only one that warned."""
    warned = [step.origin for step in outcome.steps if step.outcome == "warned"]
    for origins in ([origin for origin in warned if origin.name and origin.name in text], warned):
        if len(set(origins)) == 1:
            return origins[0]
    return StepOrigin("")


def _annotation_differences(before: ReplayedDecision, after: ReplayedDecision) -> Iterator[Difference]:
    was, now = before.audit_annotations, after.audit_annotations
    by_origin: dict[StepOrigin, tuple[JSONObject, JSONObject]] = {}
    for key in sorted({*was, *now}):
        if not _same_text(was.get(key), now.get(key)):
            origin = _annotating_step(key, before) if key in was else _annotating_step(key, after)
            old, new = by_origin.setdefault(origin, ({}, {}))
            old[key], new[key] = was.get(key), now.get(key)
    for origin, values in by_origin.items():
        yield Difference(DifferenceKind.AUDIT, origin, *values)


def _annotating_step(key: str, outcome: ReplayedDecision) -> StepOrigin:
    """The step whose name starts the key or, for lists of failed validations, appears in the value."""
    origins = [step.origin for step in outcome.steps if step.origin.name]
    beginning = (origin for origin in origins if key.startswith(f"{origin.name}/"))
    listed = (origin for origin in origins if f'"{origin.name}"' in outcome.audit_annotations.get(key, ""))
    return next(beginning, None) or next(listed, StepOrigin(""))
