"""Exemptions: whom, where and what nothing is held against.

Source: ``k8s.io/pod-security-admission/admission/admission.go`` ``exempt…`` and ``response.go``.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pratique.answers import Allow, allow
from pratique.pod_security.policies import PREFIX

if TYPE_CHECKING:
    from pratique.json_values import JSONObject
    from pratique.reviews import Review


def _because(reason: str) -> Allow:
    return allow(audit_annotations={f"{PREFIX}exempt": reason})


_BY_NAMESPACE = _because("namespace")
_BY_USER = _because("user")

BY_RUNTIME_CLASS = _because("runtimeClass")
"""The answer to a Pod of an exempt runtime class."""


@dataclasses.dataclass(frozen=True, slots=True)
class Exempt:
    """The names of what is exempt."""

    usernames: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()
    runtime_classes: frozenset[str] = frozenset()

    def answer_to(self, review: Review) -> Allow | None:
        """The answer to a request of an exempt user or in an exempt namespace; None to all others."""
        if review.namespace in self.namespaces:
            return _BY_NAMESPACE
        return _BY_USER if review.user.username in self.usernames else None

    def has_runtime_class(self, spec: JSONObject) -> bool:
        """Tell whether a Pod runs in an exempt way."""
        name = spec.get("runtimeClassName")
        return isinstance(name, str) and name in self.runtime_classes
