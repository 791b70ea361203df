"""Practices about time: every webhook makes requests wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.practices.definitions import Breach, Practice, Severity
from pratique.statuses import qualified_resource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pratique.practices.subjects import Hook, Subject

LONGEST = 10
"""Seconds: what the API server fills in where a v1 configuration says nothing."""
REQUEST_BUDGET = 34
"""Seconds that one request to create, update or delete may take as a whole, whatever the client asks for:
``k8s.io/apiserver/pkg/endpoints/handlers/rest.go`` ``requestTimeoutUpperBound``."""


def _too_long(subject: Subject) -> Iterator[Breach]:
    for hook in subject.hooks:
        seconds = hook.webhook.timeout_seconds or 0
        if seconds > LONGEST:
            yield hook.breach(
                f"a request may wait {seconds} s for this webhook alone, more than {LONGEST} s",
                "timeoutSeconds",
            )


TOO_LONG = Practice(
    rule="timeout-too-long",
    severity=Severity.WARNING,
    explanation="While a webhook does not answer, every request that it matches waits until its timeout.",
    fix=f"Set timeoutSeconds to a few seconds, {LONGEST} at the most.",
    check=_too_long,
)


def _over_budget(subject: Subject) -> Iterator[Breach]:
    """Find the one kind of request that may wait longest, and the webhook at which its time is up."""
    waiting: dict[int, list[Hook]] = {}
    for hook in subject.mutating:
        for request in subject.wanted(hook.webhook.rules):
            waiting.setdefault(request, []).append(hook)
    if not waiting:
        return
    longest = max(sorted(waiting), key=lambda request: _seconds(waiting[request]))
    hooks = waiting[longest]
    if len(hooks) == 1 or (total := _seconds(hooks)) <= REQUEST_BUDGET:
        return
    last = next(hook for count, hook in enumerate(hooks, 1) if _seconds(hooks[:count]) > REQUEST_BUDGET)
    operation, kind = subject.requests[longest]
    named = qualified_resource(kind.resource.group, kind.resource.resource)
    named += "/" + kind.subresource if kind.subresource else ""
    yield last.breach(
        f"{operation} of {named} may wait for {len(hooks)} mutating webhooks one after another, {total} s in all;"
        f" the API server gives up after {REQUEST_BUDGET} s",
        "timeoutSeconds",
    )


def _seconds(hooks: list[Hook]) -> int:
    return sum(hook.webhook.timeout_seconds or 0 for hook in hooks)


OVER_BUDGET = Practice(
    rule="mutating-timeouts-over-budget",
    severity=Severity.WARNING,
    explanation="Mutating webhooks are called one after another, and together have no more time than the request.",
    fix="Shorten the timeouts, narrow the rules, or make one webhook of several.",
    check=_over_budget,
)
