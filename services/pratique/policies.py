"""Policies: controllers made of one callable each.

::

    from pratique import Answer, Review, allow, deny, member, rule, validator

    @validator("RequireTeam", rule("pods"), summary="Refuses Pods that do not say which team owns them.")
    def require_team(review: Review) -> Answer:
        team = member(review.object, "metadata", "labels", "team")
        return allow() if team else deny("label team is missing")
"""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING

from pratique.definitions import MUTATE, VALIDATE, Controller, Half, Halves, Phase
from pratique.rules import EVERYTHING, Rule

if TYPE_CHECKING:
    from collections.abc import Callable

    from pratique.definitions import NoSettings

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]*")


def validator(
    name: str, *rules: Rule, summary: str = "", default: bool = False
) -> Callable[[Half], Controller]:
    """Make a validating controller of a callable, which may be ``async``.

    Args:
        name: As in ``--enable-admission-plugins``.
        rules: The requests that it wants to see: those that match any of them. None means every request.
        summary: What it does, in one sentence; the first line of the callable's docstring where it is empty.
        default: On without being asked for.

    Raises:
        ValueError: the name cannot be written in a flag, or a rule is no Rule.
    """
    return _decorator(name, rules, Phase.VALIDATE, summary, default=default)


def mutator(
    name: str, *rules: Rule, summary: str = "", default: bool = False
) -> Callable[[Half], Controller]:
    """Make a mutating controller of a callable, which may be ``async``. It may refuse, too.

    It is asked again when a later webhook or policy has changed the object, so its second answer to its own
    result has to be ``allow()``.

    Args:
        name: As in ``--enable-admission-plugins``.
        rules: The requests that it wants to see: those that match any of them. None means every request.
        summary: What it does, in one sentence; the first line of the callable's docstring where it is empty.
        default: On without being asked for.

    Raises:
        ValueError: the name cannot be written in a flag, or a rule is no Rule.
    """
    return _decorator(name, rules, Phase.MUTATE, summary, default=default)


def _decorator(
    name: str, rules: tuple[Rule, ...], phase: Phase, summary: str, *, default: bool
) -> Callable[[Half], Controller]:
    # str() because of ``@validator`` without parentheses, which passes the callable as the name.
    if not _NAME.fullmatch(str(name)):
        raise ValueError(f'a controller needs a name of letters and digits, such as "RequireTeam": {name!r}')
    if not all(isinstance(rule, Rule) for rule in rules):
        raise ValueError(f'{name}: rules are written as rule("pods")')

    def make(half: Half) -> Controller:
        mutating = phase is Phase.MUTATE
        halves = Halves(mutate=half) if mutating else Halves(validate=half)

        def build(_: NoSettings) -> Halves:
            return halves

        return Controller(
            name=name,
            summary=summary or (inspect.getdoc(half) or name).partition("\n")[0],
            phases=MUTATE if mutating else VALIDATE,
            rules=rules or (EVERYTHING,),
            build=build,
            default=default,
        )

    return make
