"""The invariants: what must be so of every history, whatever was done meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chaos.evidence import RECOVERY_SECONDS
from chaos.growths import growth, survivors
from chaos.histories import SILENCE, Answered, Failed
from chaos.schedules import DOOR

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from chaos.evidence import Case, Evidence

_FAILURES = (500, 503, 504)
"""The codes of what failed, of an answer or within it."""
GRACE_SECONDS = 1.0
"""Between an answer at the last moment and its line in the history, on a machine whose other programs wait as well."""


def _each_has_one_answer(evidence: Evidence) -> Iterator[str]:
    """Each request has one answer or one failure; an answer has the request's uid."""
    for case in evidence.cases:
        asked = case.asked
        if len(case.ends) != 1:
            yield f"request {asked.number} has {len(case.ends)} answers"
        elif case.response is not None and case.response.get("uid") != asked.uid:
            yield f"request {asked.number} was answered with another uid"


def _in_time(evidence: Evidence) -> Iterator[str]:
    """It comes before the request's time is over; excused are those whom something kept from speaking to clients."""
    for case in evidence.cases:
        if case.end is None or any(strike.target == DOOR for strike in evidence.during(case)):
            continue
        asked, took = case.asked, case.ended - case.asked.at
        if took <= asked.timeout + GRACE_SECONDS + evidence.waited(case):
            continue
        if isinstance(case.end, Failed) and case.end.reason == SILENCE:
            yield f"nobody answered request {asked.number}, and nothing was in the way"
        else:
            yield f"request {asked.number} took {took:.2f} s of {asked.timeout:g} s"


def _nothing_is_let_through(evidence: Evidence) -> Iterator[str]:
    """Nothing is allowed that the oracle denies."""
    for case in evidence.cases:
        if case.allowed and not any(right.allowed for right in evidence.rights(case)):
            yield f"request {case.asked.number} was allowed; the oracle: {evidence.rights(case)[0].message}"


def _patches_are_right(evidence: Evidence) -> Iterator[str]:
    """The patch, applied to the object, makes the oracle's object."""
    for case in evidence.cases:
        allowable = case.allowed and any(right.allowed for right in evidence.rights(case))
        if allowable and not evidence.is_right(case):
            yield f"request {case.asked.number} was patched into something else"


def _soon_all_is_right(evidence: Evidence) -> Iterator[str]:
    """From five seconds after the last nemesis on, every answer is right."""
    for case in evidence.cases:
        due = case.asked.at >= evidence.calm_from and not evidence.was_busy(case)
        if due and not evidence.is_right(case):
            late = case.asked.at - evidence.calm_from + RECOVERY_SECONDS
            yield f"request {case.asked.number}, {late:.1f} s after the last nemesis: {_said(case)}"


def _nothing_grows(evidence: Evidence) -> Iterator[str]:
    """Nothing grows in a process that lived through it, and none ends otherwise than it was told."""
    yield from (strike.complaint for strike in evidence.strikes if strike.complaint)
    for first, last in survivors(evidence.counts):
        yield from growth(first, last)


def _failures_say_so(evidence: Evidence) -> Iterator[str]:
    """What is denied though the oracle allows it says that something failed; nobody is told that he asked wrongly."""
    for case in evidence.cases:
        if isinstance(case.end, Answered) and case.end.code not in (200, *_FAILURES):
            yield f"request {case.asked.number}: {_said(case)}"
        elif case.response is not None and not case.allowed:
            fits = any(not right.allowed for right in evidence.rights(case))
            if not fits and (case.response.get("status") or {}).get("code") not in _FAILURES:
                yield f"request {case.asked.number}: {_said(case)}"


def _said(case: Case) -> str:
    match case.end:
        case Answered(code=code, body=body):
            return f"HTTP {code}, {body[:500]}"
        case Failed(reason=reason):
            return reason
        case _:
            return "nothing"


INVARIANTS: tuple[tuple[str, Callable[[Evidence], Iterator[str]]], ...] = (
    ("a", _each_has_one_answer),
    ("b", _in_time),
    ("c", _nothing_is_let_through),
    ("d", _patches_are_right),
    ("e", _soon_all_is_right),
    ("f", _nothing_grows),
    ("g", _failures_say_so),
)
"""By their letters in docs/chaos.md; each gives a text for every time that it did not hold."""
