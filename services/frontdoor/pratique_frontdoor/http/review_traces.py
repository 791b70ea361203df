"""Traces of reviews: a span for each request for a decision, with one child span for each step.

Attributes are bounded, and never come from the object: names and endpoints of controllers, webhooks, policies and
configurations, which the operator sets; phases, results and codes; the operation, and the resource if it is a known
one. Names, namespaces, users and uids are the client's and are left out, and so are reasons, which quote the object.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from opentelemetry.trace import SpanKind, StatusCode

from pratique.admission.controllers import Phase
from pratique.admission.results import OutcomeStatus
from pratique.admission.reviews import Review
from pratique.cluster.api_resources import built_in_resources
from pratique.telemetry.tracing import set_trace_metadata

if TYPE_CHECKING:
    from opentelemetry.util.types import AttributeValue

    from pratique.telemetry.tracers import Tracing
    from pratique_frontdoor.chain.decisions import Decision, Step

_CONTEXT = {b"traceparent": "traceparent", b"tracestate": "tracestate"}
_FAILED = frozenset({OutcomeStatus.FAILED, OutcomeStatus.FAILED_OPEN})
_NANOSECONDS = 1_000_000_000
_FAILURE = 500


class ReviewTrace:
    """The trace of one request. A review waits only for its start."""

    def __init__(self, tracing: Tracing, path: str, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Start the span, within the trace of the headers, and propagate it in all calls from here."""
        self._tracing = tracing
        started = time.time_ns()
        self._offset = started - time.perf_counter_ns()
        given = {_CONTEXT[name]: value.decode("latin-1") for name, value in headers if name in _CONTEXT}
        attributes = {"http.request.method": "POST", "http.route": path}
        self._span = tracing.start(
            f"POST {path}", tracing.parent(given), SpanKind.SERVER, started, attributes
        )
        self._decided: tuple[Review, Decision] | None = None
        set_trace_metadata(tracing.metadata_for(self._span))

    def set_decision(self, review: Review, decision: Decision) -> None:
        """Remember the review and its decision."""
        self._decided = review, decision

    def end(self, code: int, ended: int) -> None:
        """End the span with the response code, after the response; ``ended`` is by ``time.perf_counter_ns``."""
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
        for step, (started, ended) in zip(steps, _step_times(steps), strict=True):
            name = f"{step.controller}/{step.phase.value}"
            attributes = _step_attributes(step)
            span = self._tracing.start(name, parent, SpanKind.INTERNAL, started + self._offset, attributes)
            if step.outcome in _FAILED:
                span.set_status(StatusCode.ERROR)
            span.end(ended + self._offset)


def _step_times(steps: Sequence[Step]) -> list[tuple[int, int]]:
    """Return when each step began and ended, by ``time.perf_counter_ns``.

    A step ended when it was recorded; one that never ran, when the next one began. Steps of one call to the mutator are
    recorded together but ran one after another; steps of the validating phase ran concurrently.
    """
    times: list[tuple[int, int]] = []
    next_begun, endpoint = max((step.ended_at for step in steps), default=0) or time.perf_counter_ns(), ""
    for step in reversed(steps):
        ended = step.ended_at or next_begun
        if step.phase is Phase.MUTATE and times and step.endpoint == endpoint:
            ended = min(ended, next_begun)
        started = ended - round(step.duration_seconds * _NANOSECONDS)
        times.append((started, ended))
        next_begun, endpoint = started, step.endpoint
    return times[::-1]


def _review_attributes(review: Review, decision: Decision) -> Mapping[str, AttributeValue]:
    resource = review.request_resource or review.resource
    known = built_in_resources().for_resource(resource) is not None
    return {
        "pratique.operation": review.operation.value,
        "pratique.resource": ".".join(filter(None, (resource.resource, resource.group)))
        if known
        else "other",
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
        "pratique.endpoint": step.endpoint,
    }
    numbers = {"pratique.round": step.round, "pratique.code": step.code}
    return dict(itertools.chain(((key, text) for key, text in named.items() if text), numbers.items()))
