"""Practices about webhooks that come after one another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.practices.definitions import Breach, Practice, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pratique.practices.subjects import Hook, Subject


def _not_reinvoked(subject: Subject) -> Iterator[Breach]:
    hooks, found = subject.mutating, []
    nearest: dict[int, int] = {}
    """For each kind of request, the first of the webhooks looked at so far that is asked about it."""
    for index in range(len(hooks) - 1, -1, -1):
        wanted = subject.wanted(hooks[index].webhook.rules)
        later = [nearest[request] for request in wanted if request in nearest]
        nearest.update(dict.fromkeys(wanted, index))
        if later and hooks[index].webhook.reinvocation_policy != "IfNeeded":
            text = f"does not see what {hooks[min(later)]} changes after it"
            found.append(hooks[index].breach(text, "reinvocationPolicy"))
    yield from reversed(found)


NOT_REINVOKED = Practice(
    rule="no-reinvocation",
    severity=Severity.INFO,
    explanation="A mutating webhook must not rely on being the last: others change the same objects after it.",
    fix="Make the webhook idempotent, and set reinvocationPolicy to IfNeeded.",
    check=_not_reinvoked,
)


def _scattered(subject: Subject) -> Iterator[Breach]:
    first: dict[tuple[str, str], Hook] = {}
    for hook in subject.mutating:
        if hook.service is None:
            continue
        before = first.setdefault((hook.service.namespace, hook.service.name), hook)
        if before.owner.name != hook.owner.name:
            text = f"its Service is that of {before}, too"
            yield hook.breach(text, "clientConfig")


SCATTERED = Practice(
    rule="scattered-webhooks",
    severity=Severity.INFO,
    explanation="Webhooks of one server in one configuration are called in the order that is written there.",
    fix="Put the webhooks of one server into one MutatingWebhookConfiguration.",
    check=_scattered,
)
