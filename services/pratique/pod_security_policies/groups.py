"""Groups: the primary, supplemental and file system groups that processes run with.

Source: ``pkg/security/podsecuritypolicy/group`` of 1.24.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.field_errors import FieldError, FieldPath, invalid
from pratique.pod_security_policies import go_values

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pratique.pod_security_policies.specs import RangedRule

_MUST_RUN_AS = "MustRunAs"
_MAY_RUN_AS = "MayRunAs"
_RULES = (_MUST_RUN_AS, _MAY_RUN_AS, "RunAsAny")


def misfit(what: str, rule: RangedRule) -> str:
    """Why nobody can be judged by a rule for ``what``; empty where it is in order."""
    if rule.rule not in _RULES:
        return f"Unrecognized {what} strategy type {rule.rule}"
    if rule.rule in (_MUST_RUN_AS, _MAY_RUN_AS) and not rule.ranges:
        return f"ranges must be supplied for {rule.rule}"
    return ""


def default(rule: RangedRule) -> int | None:
    """The group of those that name none; None where they stay without."""
    return rule.ranges[0].min if rule.rule == _MUST_RUN_AS else None


def faults(rule: RangedRule, path: FieldPath, groups: Sequence[int] | None) -> Iterator[FieldError]:
    """What is wrong with the groups at ``path``; None for none is printed otherwise than an empty list."""
    if rule.rule == _MUST_RUN_AS and not groups:
        detail = "unable to validate empty groups against required ranges"
        yield invalid(path, go_values.int64s(groups), detail)
    if rule.rule in (_MUST_RUN_AS, _MAY_RUN_AS):
        for group in groups or ():
            if not any(group in each for each in rule.ranges):
                detail = f"group {group} must be in the ranges: {go_values.ranges(rule.ranges)}"
                yield invalid(path, go_values.int64s(groups), detail)
