"""Comparisons: what two outcomes of one review differ in, and who made the difference."""

from __future__ import annotations

import dataclasses
import enum
import re
from typing import TYPE_CHECKING

from pratique.apimachinery.diff import diff
from pratique.apimachinery.json_values import JSON, JSONObject, encode, member, unescape
from pratique_cli.outputs.findings import Rule
from pratique_cli.outputs.texts import Path, path_text
from pratique_cli.replays.recorded import REDACTED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pratique_cli.replays.outcomes import Outcome

_COUNTING = frozenset({"ResourceQuota", "EventRateLimit"})
"""What they decide depends on the reviews before."""
_COUNTED = "quotas and rates are counted from review to review, and a replay decides each alone"
_HIDDEN = "***"


class Kind(enum.StrEnum):
    """What differs."""

    DENIED = "denied"
    """It was admitted, and is denied now."""
    ADMITTED = "admitted"
    """It was denied, and is admitted now."""
    REASON = "reason"
    """It is denied as before, for another reason."""
    OBJECT = "object"
    """It is admitted as before, as another object."""
    WARNINGS = "warnings"
    """The user is warned of something else."""
    AUDIT = "auditAnnotations"
    """Something else is written to the audit log."""


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """One difference, and who made it."""

    kind: Kind
    rule: Rule
    """The controller, or the webhook or policy; empty where nobody is known."""
    before: JSON
    """What was: words of a refusal, warnings, values by field."""
    after: JSON
    """What is now, alike."""
    uncertain: tuple[str, ...] = ()
    """Why it may be none in truth."""


@dataclasses.dataclass(frozen=True, slots=True)
class Comparer:
    """Compares outcomes."""

    reads: Callable[[str, str], bool]
    """Tells whether a controller may read a redacted place."""

    def compare(self, before: Outcome, after: Outcome, redacted: Sequence[str]) -> list[Difference]:
        """Tell what differs; ``redacted`` are places of the review that are not what they were."""
        found = _verdicts(before, after)
        if before.allowed == after.allowed and not found:
            found = [
                *(_objects(before, after) if after.allowed else ()),
                *_warnings(before, after),
                *_annotations(before, after),
            ]
        return [dataclasses.replace(one, uncertain=tuple(self._doubts(one, redacted))) for one in found]

    def _doubts(self, difference: Difference, redacted: Sequence[str]) -> Iterator[str]:
        quoted = REDACTED.search(encode([difference.before, difference.after]).decode())
        places = [place for place in redacted if self.reads(difference.rule.controller, place)]
        if places:
            yield f"redacted: {', '.join(places)}"
        elif quoted:
            yield "redacted: what is quoted"
        if difference.rule.controller in _COUNTING:
            yield _COUNTED


def _verdicts(before: Outcome, after: Outcome) -> list[Difference]:
    was, now = before.denials(), after.denials()
    if before.allowed and not after.allowed:
        return [Difference(Kind.DENIED, rule, None, text) for rule, text in (now or _unknown(after)).items()]
    if after.allowed and not before.allowed:
        return [
            Difference(Kind.ADMITTED, rule, text, None) for rule, text in (was or _unknown(before)).items()
        ]
    found = [
        Difference(Kind.REASON, rule, was.get(rule), now.get(rule))
        for rule in dict.fromkeys([*was, *now])
        if not _same_text(was.get(rule), now.get(rule))
    ]
    if not found and (before.code != after.code or not _same_text(before.message, after.message)):
        rule = next(iter(now), Rule(""))
        found = [
            Difference(Kind.REASON, rule, f"{before.code} {before.message}", f"{after.code} {after.message}")
        ]
    return found


def _unknown(outcome: Outcome) -> dict[Rule, str]:
    return {Rule(""): outcome.message}


def _same_text(before: str | None, after: str | None) -> bool:
    """Tell whether texts are the same, as far as what was redacted in the first lets anybody tell."""
    if before is None or after is None or before == after:
        return before == after
    if not REDACTED.search(before):
        return False
    literal = map(re.escape, REDACTED.split(before))
    return re.fullmatch(".+?".join(literal), after, re.DOTALL) is not None


def _objects(before: Outcome, after: Outcome) -> list[Difference]:
    """Tell what differs field by field, by who changed each."""
    was, now = before.patches(), after.patches()
    changed = [rule for rule in dict.fromkeys([*was, *now]) if was.get(rule) != now.get(rule)]
    by_rule: dict[Rule, tuple[JSONObject, JSONObject]] = {}
    for operation in diff(before.object, after.object):
        rule = _changer(operation["path"], changed, was, now)
        old, new = by_rule.setdefault(rule, ({}, {}))
        path = _path(operation["path"])
        field = path_text(path)
        removed = None if operation["op"] == "add" else member(before.object, *path)
        old[field], new[field] = _masked(before.object, removed, operation.get("value"))
    return [Difference(Kind.OBJECT, rule, *values) for rule, values in by_rule.items()]


def _masked(root: JSON, old: JSON, new: JSON) -> tuple[JSON, JSON]:
    """Hide what is new in a Secret: what was recorded of it is redacted already."""
    return old, _HIDDEN if new is not None and member(root, "kind") == "Secret" else new


def _changer(
    pointer: str,
    changed: Sequence[Rule],
    was: Mapping[Rule, list[JSONObject]],
    now: Mapping[Rule, list[JSONObject]],
) -> Rule:
    for rule in changed:
        if any(_meet(pointer, one["path"]) for one in (*was.get(rule, ()), *now.get(rule, ()))):
            return rule
    return changed[0] if changed else Rule("")


def _meet(first: str, second: str) -> bool:
    shorter, longer = sorted((first.split("/"), second.split("/")), key=len)
    return longer[: len(shorter)] == shorter


def _path(pointer: str) -> Path:
    return tuple(int(step) if step.isdecimal() else unescape(step) for step in pointer.split("/")[1:])


def _warnings(before: Outcome, after: Outcome) -> Iterator[Difference]:
    gone = _without(before.warnings, after.warnings)
    new = [one for one in after.warnings if not any(_same_text(other, one) for other in before.warnings)]
    by_rule: dict[Rule, tuple[list[str], list[str]]] = {}
    for place, (texts, outcome) in enumerate(((gone, before), (new, after))):
        for text in texts:
            by_rule.setdefault(_warner(text, outcome), ([], []))[place].append(text)
    for rule, (old, added) in by_rule.items():
        yield Difference(Kind.WARNINGS, rule, old, added)


def _without(texts: Iterable[str], others: Sequence[str]) -> list[str]:
    return [text for text in texts if not any(_same_text(text, other) for other in others)]


def _warner(text: str, outcome: Outcome) -> Rule:
    """The step that a warning comes from: the one that it names, or the only one that warned."""
    warned = [step.rule for step in outcome.steps if step.outcome == "warned"]
    for rules in ([rule for rule in warned if rule.name and rule.name in text], warned):
        if len(set(rules)) == 1:
            return rules[0]
    return Rule("")


def _annotations(before: Outcome, after: Outcome) -> Iterator[Difference]:
    was, now = before.audit_annotations, after.audit_annotations
    by_rule: dict[Rule, tuple[JSONObject, JSONObject]] = {}
    for key in sorted({*was, *now}):
        if not _same_text(was.get(key), now.get(key)):
            rule = _annotator(key, before) if key in was else _annotator(key, after)
            old, new = by_rule.setdefault(rule, ({}, {}))
            old[key], new[key] = was.get(key), now.get(key)
    for rule, values in by_rule.items():
        yield Difference(Kind.AUDIT, rule, *values)


def _annotator(key: str, outcome: Outcome) -> Rule:
    """The step whose name is the key's beginning, or else in the value, where validations that failed are listed."""
    rules = [step.rule for step in outcome.steps if step.rule.name]
    beginning = (rule for rule in rules if key.startswith(f"{rule.name}/"))
    listed = (rule for rule in rules if f'"{rule.name}"' in outcome.audit_annotations.get(key, ""))
    return next(beginning, None) or next(listed, Rule(""))
