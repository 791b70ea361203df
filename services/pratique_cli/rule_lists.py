"""The rules of good practice: which of them flags choose, and how they are listed."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable


def chosen_rules(only: Collection[str], disabled: Collection[str]) -> frozenset[str]:
    """The rules to go by: those of ``only``, or all where it is empty, without the disabled ones.

    Raises:
        click.BadParameter: there is no rule of that name.
    """
    from pratique.practices.registry import RULES  # noqa: PLC0415 - no other command needs them

    for name, rules in (("--rules", only), ("--disable-rules", disabled)):
        for rule in rules:
            if rule not in RULES:
                raise click.BadParameter(_unknown(rule, RULES), param_hint=name)
    return frozenset(only or RULES) - frozenset(disabled)


def _unknown(rule: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(rule, sorted(known), n=1)
    hint = f"did you mean {close[0]!r}?" if close else "see --list-rules"
    return f"{rule!r} is no rule; {hint}"


def describe_rules() -> str:
    """Tell of every rule how severe it is, why it is there and what to do."""
    from pratique.practices.registry import PRACTICES  # noqa: PLC0415 - no other command needs them

    return "".join(
        f"{one.rule} ({one.severity.value})\n    {one.explanation}\n    fix: {one.fix}\n" for one in PRACTICES
    )
