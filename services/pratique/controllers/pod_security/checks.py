"""What a check is, what it finds, and what most checks share."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from pratique.controllers.pod_security.pod_shapes import CheckedPod, as_object, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pratique.apimachinery.json_values import JSONObject
    from pratique.controllers.pod_security.standards import PodSecurityLevel


@dataclasses.dataclass(frozen=True, slots=True)
class CheckResult:
    """What one check holds against a Pod. Prints as ``reason (detail)``."""

    reason: str
    """The same for all Pods that do the same."""
    detail: str
    """Which containers, volumes and values it is about."""

    def __str__(self) -> str:
        return f"{self.reason} ({self.detail})" if self.detail else self.reason


def join_reasons(findings: Iterable[CheckResult]) -> str:
    """Say in short what is wrong: ``host namespaces, hostPort``."""
    return ", ".join(finding.reason for finding in findings)


def details(findings: Iterable[CheckResult]) -> str:
    """Say at length what is wrong."""
    return ", ".join(map(str, findings))


def quoted(texts: Iterable[str]) -> str:
    """List texts in quotes, which are not escaped: ``"a", "b"``."""
    return '"' + '", "'.join(texts) + '"'


def pluralize(one: str, items: Sequence[object] | set[str], many: str = "") -> str:
    """A word in the number that goes with so many items; ``many`` where it is not just an ``s`` more."""
    return one if len(items) == 1 else many or f"{one}s"


def containers(names: Sequence[str]) -> str:
    """Name containers: ``containers "a", "b"``."""
    return f"{pluralize('container', names)} {quoted(names)}"


def setters(names: Sequence[str], *, pod: bool) -> str:
    """Name who sets something: ``pod and container "a"``. Empty where nobody does."""
    found = ["pod"] if pod else []
    if names:
        found.append(containers(names))
    return " and ".join(found)


CheckPod: TypeAlias = Callable[[CheckedPod], CheckResult | None]
"""Looks at a Pod; None where it has nothing against it. Raises MistypedError where it cannot read it."""


@dataclasses.dataclass(frozen=True, slots=True)
class VersionedCheck:
    """A check as of some release."""

    since: int
    """The first minor release of Kubernetes 1 whose standards have it so."""
    find: CheckPod
    overrides: tuple[str, ...] = ()
    """The checks of ``baseline`` that it takes the place of."""


@dataclasses.dataclass(frozen=True, slots=True)
class PodSecurityCheck:
    """One thing that Pods may not do."""

    id: str
    """Checks are reported in the order of their ids, those of ``baseline`` first."""
    level: PodSecurityLevel
    """``baseline`` or ``restricted``; what is forbidden in the former is so in the latter."""
    revisions: tuple[VersionedCheck, ...]
    """In the order of releases. Before the first there is no such check."""


def unless_windows(find: CheckPod) -> CheckPod:
    """Let Pods pass that say that they are for Windows, where validation refuses such fields."""

    def found(pod: CheckedPod) -> CheckResult | None:
        return None if pod.is_windows else find(pod)

    return found


def unless_user_namespace(find: CheckPod) -> CheckPod:
    """Let Pods pass that have user namespaces of their own."""

    def found(pod: CheckedPod) -> CheckResult | None:
        return None if pod.has_own_users else find(pod)

    return found


ALLOWED_PROFILE_TYPES = frozenset({"RuntimeDefault", "Localhost"})
"""The types that any Pod may have."""


@dataclasses.dataclass(frozen=True, slots=True)
class ForbiddenTypes:
    """Who sets a type that is not allowed, and which types these are."""

    setters: str
    values: list[str]


def profile_type(security: JSONObject, field: str) -> str | None:
    """The type of the profile that a ``securityContext`` has in a field; None where it has no profile."""
    profile = security.get(field)
    return None if profile is None else text(as_object(profile, field), "type")


def forbidden_types(pod: CheckedPod, field: str) -> ForbiddenTypes:
    """Find the types that are not allowed."""
    own = profile_type(pod.security, field)
    is_bad = own is not None and own not in ALLOWED_PROFILE_TYPES
    values = {own} if own is not None and is_bad else set()
    bad = []
    for each in pod.containers:
        found = profile_type(each.security, field)
        if found is not None and found not in ALLOWED_PROFILE_TYPES:
            bad.append(each.name)
            values.add(found)
    return ForbiddenTypes(setters(bad, pod=is_bad), sorted(values))
