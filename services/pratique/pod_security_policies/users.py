"""Users: as whom containers run.

Source: ``pkg/security/podsecuritypolicy/user`` of 1.24.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.field_errors import FieldError, FieldPath, invalid, required
from pratique.pod_security_policies import go_values

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pratique.pod_security_policies.security_contexts import ContainerContext
    from pratique.pod_security_policies.specs import RangedRule

_MUST_RUN_AS = "MustRunAs"
NON_ROOT = "MustRunAsNonRoot"
_RULES = (_MUST_RUN_AS, NON_ROOT, "RunAsAny")


def misfit(rule: RangedRule) -> str:
    """Why nobody can be judged by a rule; empty where it is in order."""
    if rule.rule not in _RULES:
        return f"Unrecognized RunAsUser strategy type {rule.rule}"
    if rule.rule == _MUST_RUN_AS and not rule.ranges:
        return "MustRunAsRange requires at least one range"
    return ""


def default(rule: RangedRule) -> int | None:
    """The user of containers that name none; None where they stay without."""
    return rule.ranges[0].min if rule.rule == _MUST_RUN_AS else None


def faults(rule: RangedRule, path: FieldPath, context: ContainerContext) -> Iterator[FieldError]:
    """What is wrong with the user of a container, whose security context is at ``path``."""
    if rule.rule == _MUST_RUN_AS:
        yield from _outside(rule, path / "runAsUser", context.run_as_user)
    elif rule.rule == NON_ROOT:
        yield from _root(path, context)


def _outside(rule: RangedRule, path: FieldPath, user: int | None) -> Iterator[FieldError]:
    if user is None:
        yield required(path)
    elif not any(user in each for each in rule.ranges):
        yield invalid(path, user, f"must be in the ranges: {go_values.ranges(rule.ranges)}")


def _root(path: FieldPath, context: ContainerContext) -> Iterator[FieldError]:
    """The image's user may be root where nobody says that it must not be."""
    if context.run_as_non_root is None and context.run_as_user is None:
        yield required(path / "runAsNonRoot", "must be true")
    elif context.run_as_non_root is False:
        yield invalid(path / "runAsNonRoot", False, "must be true")
    elif context.run_as_user == 0:
        yield invalid(path / "runAsUser", 0, "running with the root UID is forbidden")
