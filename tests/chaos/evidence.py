"""Evidence: a history sorted by requests, with the oracle's verdict on each."""

from __future__ import annotations

import base64
import collections
import dataclasses
import functools
import json
from collections.abc import Sequence
from typing import Any

import jsonpatch

from chaos.chains import FIRST
from chaos.histories import Answered, Asked, Began, Counted, Event, Failed, Struck, Waited
from chaos.oracles import Oracle, Right
from chaos.schedules import SWAP
from chaos.workloads import Request, Workload

RECOVERY_SECONDS = 5.0
"""After the last nemesis; channels wait for 2 s at most before they connect again."""
SWAP_SECONDS = 10.0
"""How long after a swap a service may still have the configuration before: 1 s until a change is noticed, 5 s in which
it may be frozen, and the rest to read it on a busy machine."""
BUSY_SHARE = 0.25
"""Of a request's time: where front door, mutator and clients waited longer for a processor, it may run out."""
WAIT_SECONDS = 0.25
"""How often the wait for a processor is recorded."""


@dataclasses.dataclass
class Case:
    """A request, and its answers."""

    asked: Asked
    ends: list[Answered | Failed]
    """One, unless something is wrong."""

    @property
    def end(self) -> Answered | Failed | None:
        """The first thing that came of it."""
        return self.ends[0] if self.ends else None

    @property
    def ended(self) -> float:
        """When that was; never, where nothing did."""
        return float("inf") if self.end is None else self.end.at

    @functools.cached_property
    def response(self) -> Any:
        """The answer's ``response``; None where there is none."""
        if isinstance(self.end, Answered) and self.end.code == 200:
            return json.loads(self.end.body).get("response")
        return None

    @property
    def allowed(self) -> bool:
        """Whether any answer allows the request."""
        return self.response is not None and bool(self.response["allowed"])


class Evidence:
    """Everything known about a run."""

    def __init__(self, events: Sequence[Event], oracle: Oracle) -> None:
        """Sort the events."""
        [began] = [event for event in events if isinstance(event, Began)]
        self._oracle = oracle
        self._workload = Workload(began.seed)
        self.strikes = [event for event in events if isinstance(event, Struck)]
        self.counts = [event for event in events if isinstance(event, Counted)]
        self.cases = _cases(events)
        self._waits = [event for event in events if isinstance(event, Waited)]

    @functools.cached_property
    def calm_from(self) -> float:
        """When everything must be right again."""
        return max((strike.until for strike in self.strikes), default=0.0) + RECOVERY_SECONDS

    def during(self, case: Case, after: float = 0.0) -> list[Struck]:
        """The strikes on the system while a request was in flight, or so many seconds before."""
        return [
            strike
            for strike in self.strikes
            if strike.at <= case.ended and case.asked.at <= strike.until + after
        ]

    def waited(self, case: Case) -> float:
        """How long front door, mutator and clients waited for a processor while a request was under way, in seconds."""
        until = case.ended + WAIT_SECONDS
        return sum(wait.seconds for wait in self._waits if case.asked.at <= wait.at <= until)

    def was_busy(self, case: Case) -> bool:
        """Whether the machine had no time for a request."""
        return self.waited(case) > case.asked.timeout * BUSY_SHARE

    def request(self, case: Case) -> Request:
        """The requests."""
        return self._workload.request(case.asked.number)

    def rights(self, case: Case) -> list[Right]:
        """The answers that are right for a request: one, or several while configurations are swapped."""
        return self._oracle.right(self.request(case), self._configurations(case))

    def is_right(self, case: Case) -> bool:
        """Whether it was answered as the oracle would have."""
        return case.response is not None and any(self._fits(case, right) for right in self.rights(case))

    def _fits(self, case: Case, right: Right) -> bool:
        if case.allowed is not right.allowed:
            return False
        if right.allowed:
            return bool(_patched(self.request(case), case.response) == right.object)
        return bool(case.response["status"]["message"] == right.message)

    def _configurations(self, case: Case) -> set[str]:
        current = {FIRST}
        for swap in (strike for strike in self.strikes if strike.nemesis == SWAP):
            if swap.until + SWAP_SECONDS <= case.asked.at:
                current = {swap.target}
            elif swap.at <= case.ended:
                current.add(swap.target)
        return current


def _cases(events: Sequence[Event]) -> list[Case]:
    ends: dict[int, list[Answered | Failed]] = collections.defaultdict(list)
    for event in events:
        if isinstance(event, Answered | Failed):
            ends[event.number].append(event)
    return [Case(event, ends[event.number]) for event in events if isinstance(event, Asked)]


def _patched(request: Request, response: Any) -> Any:
    before = request.body["request"]["object"]
    if "patch" not in response:
        return before
    operations = json.loads(base64.b64decode(response["patch"]))
    return jsonpatch.apply_patch(before, operations)
