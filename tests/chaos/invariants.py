"""The invariants: what must hold for every history, whatever was done meanwhile."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from chaos.chains import JUDGED, MUTATED, ticket
from chaos.evidence import RECOVERY_SECONDS, Case, Evidence
from chaos.growths import growth, survivors
from chaos.histories import SILENCE, Answered, Failed
from chaos.schedules import DOOR

_OUTAGES = (503, 504)
"""The HTTP codes of an answer that is no decision."""
_CONTROLLER_FAILED = re.compile(r'admission controller ".+" failed: ')
"""The message for a controller that failed in a working service: its worker died, or it timed out."""
_FAILED = 500
"""Its code."""
_PHASES = {"/mutate": (MUTATED,), "/validate": (JUDGED,), "/admit": (MUTATED, JUDGED)}
GRACE_SECONDS = 1.0
"""Between an answer at the last moment and its line in the history, on a machine whose other programs wait as well."""


def _each_has_one_answer(evidence: Evidence) -> Iterator[str]:
    """Each request has one answer or one failure; an answer has the request's uid, and is of that very review."""
    for case in evidence.cases:
        asked = case.asked
        if len(case.ends) != 1:
            yield f"request {asked.number} has {len(case.ends)} answers"
        elif case.response is not None and case.response.get("uid") != asked.uid:
            yield f"request {asked.number} was answered with another uid"
        elif case.response is not None and (wrong := _foreign(evidence, case)):
            yield f"request {asked.number} was answered by a decision on another one: {wrong}"


def _foreign(evidence: Evidence, case: Case) -> str:
    """What the chaperone, which runs behind the services, says that it has seen, where that is not this review.

    The front door writes an answer's uid itself, whatever a service answered; this it cannot know.
    """
    said = case.response.get("auditAnnotations") or {}
    right = ticket(case.asked.uid, evidence.request(case).body["request"]["name"])
    for phase in _PHASES[case.asked.path]:
        seen = said.get(f"chaperone_{phase}")
        if seen != right and (seen is not None or case.allowed):
            return f"{phase}: {seen}"
    return ""


def _in_time(evidence: Evidence) -> Iterator[str]:
    """The answer comes before the request's timeout; answers that could not be sent are excused."""
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
    """No process grows over the run, and none ends unexpectedly."""
    yield from (strike.complaint for strike in evidence.strikes if strike.complaint)
    for first, last in survivors(evidence.counts):
        yield from growth(first, last)


def _failures_say_so(evidence: Evidence) -> Iterator[str]:
    """An outage is 503 or 504 and not a decision; a denial against the oracle names who failed."""
    for case in evidence.cases:
        if isinstance(case.end, Answered) and case.end.code != 200:
            if case.end.code not in _OUTAGES or not _is_failure(case.end.body):
                yield f"request {case.asked.number}: {_said(case)}"
        elif case.response is not None and not case.allowed:
            fits = any(not right.allowed for right in evidence.rights(case))
            if not fits and not _names_who_failed(case.response.get("status") or {}):
                yield f"request {case.asked.number}: {_said(case)}"


def _is_failure(body: str) -> bool:
    """Return whether a body is a Status, and nothing that could be mistaken for a decision."""
    try:
        status = json.loads(body)
    except ValueError:
        return False
    return isinstance(status, dict) and status.get("kind") == "Status" and status.get("status") == "Failure"


def _names_who_failed(status: Mapping[str, Any]) -> bool:
    return status.get("code") == _FAILED and bool(_CONTROLLER_FAILED.search(status.get("message", "")))


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
