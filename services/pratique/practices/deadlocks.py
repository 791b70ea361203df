"""Practices about webhooks that stand in the way of the servers of webhooks.

What a server needs to start is put to the whole chain, with the servers of all webhooks down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.practices.definitions import Breach, Practice, Severity
from pratique.practices.dependency_rings import find_rings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pratique.practices.backends import Backend
    from pratique.practices.starts import Need
    from pratique.practices.subjects import Hook, Subject

_FIX = (
    "Exclude the namespace of the webhook by namespaceSelector (key kubernetes.io/metadata.name, operator NotIn),"
    " and what has none by rules or matchConditions."
)
_SHOWN = 3
"""Requests that are named one by one: the first ones are those of the Pods, and enough to see what is meant."""


def _deadlocks(subject: Subject) -> Iterator[Breach]:
    for hook in subject.hooks:
        if hook.backend is not None and (needs := subject.refused_starts(hook, hook.backend)):
            yield hook.breach(
                f"refuses, while {hook.backend} is down, what that needs to start: {_listed(needs)}",
                "namespaceSelector",
            )


def _intercepts(subject: Subject) -> Iterator[Breach]:
    for hook in subject.hooks:
        if hook.backend is not None and (needs := subject.delayed_starts(hook, hook.backend)):
            text = f"once {hook.backend} is down, what that needs to start waits for its timeout: {_listed(needs)}"
            yield hook.breach(text, "namespaceSelector")


def _listed(needs: Sequence[Need]) -> str:
    named = [str(need) for need in needs[:_SHOWN]]
    return ", ".join(named) + (f", and {len(needs) - _SHOWN} more" if len(needs) > _SHOWN else "")


DEADLOCK = Practice(
    rule="deadlock",
    severity=Severity.ERROR,
    explanation="A webhook that must answer before its own server may start can never come back once it is down.",
    fix=_FIX,
    check=_deadlocks,
)
INTERCEPTS = Practice(
    rule="intercepts-own-namespace",
    severity=Severity.WARNING,
    explanation="A webhook that is asked about its own start delays or changes it.",
    fix=_FIX,
    check=_intercepts,
)


def _circles(subject: Subject) -> Iterator[Breach]:
    blockers = {one: _refusing(one, subject) for one in subject.backends}
    for ring in find_rings(blockers):
        ways = list(zip(ring.way, (*ring.way[1:], ring.way[0]), strict=True))
        steps = [_step(one, other, blockers[one][other][0], subject) for one, other in ways]
        text = f"once they are all down, none of {len(ring.members)} servers can start: {'; '.join(steps)}"
        if beside := [str(one) for one in ring.members if one not in ring.way]:
            text += f"; caught in it, too: {', '.join(beside)}"
        first, second = ways[0]
        yield blockers[first][second][0].breach(text, "namespaceSelector")


def _refusing(one: Backend, subject: Subject) -> dict[Backend, list[Hook]]:
    """The webhooks whose silence refuses the start of a server, by their own servers."""
    found: dict[Backend, list[Hook]] = {}
    for hook in subject.refusing(one):
        if hook.backend is not None:
            found.setdefault(hook.backend, []).append(hook)
    return found


def _step(one: Backend, other: Backend, hook: Hook, subject: Subject) -> str:
    return f"{one} waits for {other} ({hook}: {subject.refused_starts(hook, one)[0]})"


CIRCLES = Practice(
    rule="circular-dependency",
    severity=Severity.ERROR,
    explanation="Webhooks that must answer before each other's servers may start cannot all come back.",
    fix="Exclude the namespaces where webhooks run by namespaceSelector, or use a ValidatingAdmissionPolicy.",
    check=_circles,
)
