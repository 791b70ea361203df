"""Review traces: a span for each request for a decision, and one within it for each step of the decision.

What is in them is bounded, and never of the object: names of controllers, webhooks, policies and configurations, which
the operator gives; phases, outcomes, codes; the operation, and the resource where it is a known one. No names,
namespaces, users or uids, which are the client's; no reasons, which quote the object.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from opentelemetry.trace import SpanKind, StatusCode

from pratique.admission.controllers import Phase
from pratique.admission.results import OutcomeStatus as StepOutcome
from pratique.admission.reviews import Review
from pratique.cluster.api_resources import built_in_resources
from pratique.telemetry.tracing import set_trace_metadata

if TYPE_CHECKING:
    from opentelemetry.util.types import AttributeValue

    from pratique.telemetry.tracers import Tracing
    from pratique_frontdoor.chain.decisions import Decision, Step

_CONTEXT = {b"traceparent": "traceparent", b"tracestate": "tracestate"}
_FAILED = frozenset({StepOutcome.FAILED, StepOutcome.FAILED_OPEN})
_NANOSECONDS = 1_000_000_000
_FAILURE = 500


class ReviewTrace:
    """The trace of one request. All that a review waits for is its beginning."""

    def __init__(self, tracing: Tracing, path: str, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Begin, within the trace that the headers name, and let all calls made from here say so."""
        self._tracing = tracing
        begun = time.time_ns()
        self._offset = begun - time.perf_counter_ns()
        given = {_CONTEXT[name]: value.decode("latin-1") for name, value in headers if name in _CONTEXT}
        attributes = {"http.request.method": "POST", "http.route": path}
        self._span = tracing.start(f"POST {path}", tracing.parent(given), SpanKind.SERVER, begun, attributes)
        self._decided: tuple[Review, Decision] | None = None
        set_trace_metadata(tracing.metadata_for(self._span))

    def decided(self, review: Review, decision: Decision) -> None:
        """Note what came of it."""
        self._decided = review, decision

    def end(self, code: int, ended: int) -> None:
        """End with an answer, once it is on its way; ``ended`` is by ``time.perf_counter_ns``."""
        span = self._span
        if span.is_recording():
            span.set_attribute("http.response.status_code", code)
            if code >= _FAILURE:
                span.set_status(StatusCode.ERROR)
            if self._decided is not None:
                review, decision = self._decided
                span.set_attributes(_review_attributes(review, decision))
                self._add_steps(decision.steps)
        span.end(ended + self._offset)

    def _add_steps(self, steps: Sequence[Step]) -> None:
        parent = self._tracing.child_context(self._span)
        for step, (begun, ended) in zip(steps, _step_times(steps), strict=True):
            name = f"{step.controller}/{step.phase.value}"
            attributes = _step_attributes(step)
            span = self._tracing.start(name, parent, SpanKind.INTERNAL, begun + self._offset, attributes)
            if step.outcome in _FAILED:
                span.set_status(StatusCode.ERROR)
            span.end(ended + self._offset)


def _step_times(steps: Sequence[Step]) -> list[tuple[int, int]]:
    """When each began and ended, by ``time.perf_counter_ns``.

    A step ends where it was noted. Those of one call to the mutator are noted together and ran one after another; those
    of the validating phase ran side by side.
    """
    times: list[tuple[int, int]] = []
    next_begun, endpoint = 0, ""
    for step in reversed(steps):
        ended = step.ended_at
        if step.phase is Phase.MUTATE and times and step.endpoint == endpoint:
            ended = min(ended, next_begun)
        begun = ended - round(step.duration_seconds * _NANOSECONDS)
        times.append((begun, ended))
        next_begun, endpoint = begun, step.endpoint
    return times[::-1]


def _review_attributes(review: Review, decision: Decision) -> Mapping[str, AttributeValue]:
    asked = review.request_resource or review.resource
    known = built_in_resources().for_resource(asked) is not None
    return {
        "pratique.operation": review.operation.value,
        "pratique.resource": ".".join(filter(None, (asked.resource, asked.group))) if known else "other",
        "pratique.dry_run": review.dry_run,
        "pratique.allowed": decision.allowed,
        "pratique.code": decision.status.code if decision.status is not None else 200,
    }


def _step_attributes(step: Step) -> Mapping[str, AttributeValue]:
    named = {
        "pratique.controller": step.controller,
        "pratique.name": step.name,
        "pratique.configuration": step.configuration,
        "pratique.phase": step.phase.value,
        "pratique.outcome": step.outcome.value,
    }
    numbers = {"pratique.round": step.round, "pratique.code": step.code}
    return dict(itertools.chain(((key, text) for key, text in named.items() if text), numbers.items()))
