"""Findings: what a check holds against a Pod, and the words that they are put in.

Source: ``k8s.io/pod-security-admission/policy/{checks,helpers}.go``.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """What one check holds against a Pod. Prints as ``reason (detail)``."""

    reason: str
    """The same for all Pods that do the same."""
    detail: str
    """Which containers, volumes and values it is about."""

    def __str__(self) -> str:
        return f"{self.reason} ({self.detail})" if self.detail else self.reason


def reasons(findings: Iterable[Finding]) -> str:
    """Say in short what is wrong: ``host namespaces, hostPort``."""
    return ", ".join(finding.reason for finding in findings)


def details(findings: Iterable[Finding]) -> str:
    """Say at length what is wrong."""
    return ", ".join(map(str, findings))


def quoted(texts: Iterable[str]) -> str:
    """List texts in quotes, which are not escaped: ``"a", "b"``."""
    return '"' + '", "'.join(texts) + '"'


def plural(one: str, items: Sequence[object] | set[str], many: str = "") -> str:
    """A word in the number that goes with so many items; ``many`` where it is not just an ``s`` more."""
    return one if len(items) == 1 else many or f"{one}s"


def containers(names: Sequence[str]) -> str:
    """Name containers: ``containers "a", "b"``."""
    return f"{plural('container', names)} {quoted(names)}"


def setters(names: Sequence[str], *, pod: bool) -> str:
    """Name who sets something: ``pod and container "a"``. Empty where nobody does."""
    found = ["pod"] if pod else []
    if names:
        found.append(containers(names))
    return " and ".join(found)
