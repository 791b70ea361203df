"""Choices: which of several policies admits a Pod.

Source: ``plugin/pkg/admission/security/podsecuritypolicy/admission.go`` ``computeSecurityContext`` of 1.24.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pratique.edits import Edits
    from pratique.field_errors import FieldError
    from pratique.json_values import JSON
    from pratique.pod_security_policies.providers import Provider


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """A policy that admits a Pod."""

    policy: str
    """Its name."""
    edits: Edits
    """The Pod with what the policy fills in."""


@dataclasses.dataclass(frozen=True, slots=True)
class NoChoice:
    """No policy admits the Pod."""

    faults: tuple[FieldError, ...]
    """What the policies that may be used do not allow. None for those that would allow it if it were changed."""

    def __str__(self) -> str:
        """As Go prints a list of errors."""
        return f"[{' '.join(map(str, self.faults))}]"


def choose(
    pod: JSON,
    providers: Iterable[Provider],
    may_use: Callable[[str], bool],
    *,
    may_change: bool,
) -> Choice | NoChoice:
    """Find the policy that admits a Pod, of those that may be used.

    A policy that admits it as it is goes before all that have to change it; else the first counts.

    Args:
        pod: The Pod.
        providers: The policies, in the order in which they are asked.
        may_use: Tells by its name whether a policy may be used; asked no more than needed.
        may_change: Let policies change the Pod.

    Raises:
        RefusalError: a field of the Pod is of another type than it must be; 400.
    """
    changing: Choice | None = None
    refusals: list[tuple[str, list[FieldError]]] = []
    for provider in providers:
        name, edits = provider.policy.name, provider.filled(pod)
        faults = provider.faults(edits.document)
        if faults:
            refusals.append((name, faults))
        elif not edits.changed:
            if may_use(name):
                return Choice(name, edits)
        elif may_change and changing is None and may_use(name):
            changing = Choice(name, edits)
    if changing is not None:
        return changing
    return NoChoice(tuple(fault for name, faults in refusals if may_use(name) for fault in faults))
