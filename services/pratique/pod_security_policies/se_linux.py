"""SELinux: the labels that containers run with.

Source: ``pkg/security/podsecuritypolicy/selinux`` of 1.24.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.field_errors import FieldError, FieldPath, invalid, required

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pratique.pod_security_policies.security_contexts import SELinuxOptions
    from pratique.pod_security_policies.specs import SELinuxRule

_MUST_RUN_AS = "MustRunAs"
_RULES = (_MUST_RUN_AS, "RunAsAny")


def misfit(rule: SELinuxRule) -> str:
    """Why nobody can be judged by a rule; empty where it is in order."""
    if rule.rule not in _RULES:
        return f"Unrecognized SELinuxContext strategy type {rule.rule}"
    if rule.rule == _MUST_RUN_AS and rule.se_linux_options is None:
        return "MustRunAs requires SELinuxOptions"
    return ""


def default(rule: SELinuxRule) -> SELinuxOptions | None:
    """The labels of Pods that name none; None where they stay without."""
    return rule.se_linux_options if rule.rule == _MUST_RUN_AS else None


def faults(rule: SELinuxRule, path: FieldPath, labels: SELinuxOptions | None) -> Iterator[FieldError]:
    """What is wrong with the labels at ``path``."""
    wanted = default(rule)
    if wanted is None:
        return
    if labels is None:
        yield required(path)
        return
    for name in ("level", "role", "type", "user"):
        found, right = getattr(labels, name) or "", getattr(wanted, name) or ""
        if found != right and not (name == "level" and _same_level(found, right)):
            yield invalid(path / name, found, f"must be {right}")


def _same_level(first: str, second: str) -> bool:
    """Tell whether two levels, ``s0:c1,c2``, name the same categories in whatever order."""
    sensitivity, colon, categories = first.partition(":")
    other_sensitivity, other_colon, other_categories = second.partition(":")
    return (
        bool(colon and other_colon)
        and sensitivity == other_sensitivity
        and sorted(categories.split(",")) == sorted(other_categories.split(","))
    )
