"""Practices about webhooks that come after one another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.practices.definitions import Breach, Practice, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pratique.practices.subjects import Hook, Subject


def _not_reinvoked(subject: Subject) -> Iterator[Breach]:
    wanted = [subject.wanted(hook.webhook.rules) for hook in subject.mutating]
    for index, hook in enumerate(subject.mutating):
        if hook.webhook.reinvocation_policy == "IfNeeded":
            continue
        later = (
            other
            for other, asked in zip(subject.mutating[index + 1 :], wanted[index + 1 :], strict=True)
            if asked & wanted[index]
        )
        if (other := next(later, None)) is not None:
            yield hook.breach(
                f"does not see what {other} changes after it",
                "reinvocationPolicy",
            )


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
