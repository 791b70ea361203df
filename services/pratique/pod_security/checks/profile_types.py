"""The types of security profiles, AppArmor's and seccomp's, in a Pod and its containers."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pratique.pod_security.findings import setters
from pratique.pod_security.pod_shapes import as_object, text

if TYPE_CHECKING:
    from pratique.json_values import JSONObject
    from pratique.pod_security.pod_shapes import PodShape

ALLOWED = frozenset({"RuntimeDefault", "Localhost"})
"""The types that any Pod may have."""


@dataclasses.dataclass(frozen=True, slots=True)
class Forbidden:
    """Who sets a type that is not allowed, and which types these are."""

    setters: str
    values: list[str]


def profile_type(security: JSONObject, field: str) -> str | None:
    """The type of the profile that a ``securityContext`` has in a field; None where it has no profile."""
    profile = security.get(field)
    return None if profile is None else text(as_object(profile, field), "type")


def forbidden_types(pod: PodShape, field: str) -> Forbidden:
    """Find the types that are not allowed."""
    own = profile_type(pod.security, field)
    is_bad = own is not None and own not in ALLOWED
    values = {own} if own is not None and is_bad else set()
    bad = []
    for each in pod.containers:
        found = profile_type(each.security, field)
        if found is not None and found not in ALLOWED:
            bad.append(each.name)
            values.add(found)
    return Forbidden(setters(bad, pod=is_bad), sorted(values))
