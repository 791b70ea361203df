"""Practices about webhooks that stand in the way of Pods of webhooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.json_values import member
from pratique.practices.definitions import Breach, Practice, Severity
from pratique.practices.samples import Sample, first_reached, pods_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pratique.practices.subjects import Hook, Subject

_FIX = "Exclude the namespace of the webhook by namespaceSelector: key kubernetes.io/metadata.name, operator NotIn."


def _reached_in_home(hook: Hook, home: Hook, subject: Subject) -> Sample | None:
    """What ``hook`` is called for, of what makes the Pods of ``home`` run."""
    service = home.service
    if service is None:
        return None
    found = subject.cluster.get("", "services", service.name, service.namespace)
    labels = member(found, "spec", "selector") if found else None
    samples = pods_in(service.namespace, labels if isinstance(labels, dict) else None)
    return first_reached(hook, samples, subject.cluster)


def _own(subject: Subject, *, fails_closed: bool, consequence: str) -> Iterator[Breach]:
    for hook in subject.hooks:
        if hook.fails_closed is not fails_closed:
            continue
        if (sample := _reached_in_home(hook, hook, subject)) is not None:
            yield hook.breach(
                f"is called for {sample}, where it runs itself: {consequence}", "namespaceSelector"
            )


def _fails_closed(subject: Subject) -> Iterator[Breach]:
    return _own(subject, fails_closed=True, consequence="once it is down, it cannot start again")


def _intercepts(subject: Subject) -> Iterator[Breach]:
    return _own(subject, fails_closed=False, consequence="once it is down, its Pods wait for its timeout")


FAILS_CLOSED = Practice(
    rule="fails-closed-on-own-namespace",
    severity=Severity.ERROR,
    explanation="A webhook that must answer before its own Pods may be made can never come back once it is down.",
    fix=_FIX,
    check=_fails_closed,
)
INTERCEPTS = Practice(
    rule="intercepts-own-namespace",
    severity=Severity.WARNING,
    explanation="A webhook that looks at its own Pods delays or changes its own start.",
    fix=_FIX,
    check=_intercepts,
)


def _circles(subject: Subject) -> Iterator[Breach]:
    closed = [hook for hook in subject.hooks if hook.fails_closed and hook.service is not None]
    for index, hook in enumerate(closed):
        # One partner is enough to tell: there may be as many circles as pairs.
        partners = (other for other in closed[index + 1 :] if _depend(hook, other, subject))
        if (other := next(partners, None)) is not None:
            yield hook.breach(
                f"is called for the Pods of {other}, and that one for those of this: once both are down, neither"
                " can start",
                "namespaceSelector",
            )


def _depend(one: Hook, other: Hook, subject: Subject) -> bool:
    """Whether each of two webhooks of different namespaces is called for the Pods of the other."""
    if one.service is None or other.service is None or one.service.namespace == other.service.namespace:
        return False
    return bool(_reached_in_home(one, other, subject) and _reached_in_home(other, one, subject))


CIRCLES = Practice(
    rule="circular-dependency",
    severity=Severity.ERROR,
    explanation="Two webhooks that must answer before each other's Pods may be made cannot both come back.",
    fix="Exclude the namespaces where webhooks run by namespaceSelector, or use a ValidatingAdmissionPolicy.",
    check=_circles,
)
