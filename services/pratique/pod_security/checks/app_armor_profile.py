"""``appArmorProfile``: AppArmor's profile is the runtime's own or one of the node's, and is not turned off.

Source: ``k8s.io/pod-security-admission/policy/check_appArmorProfile.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.pod_security.checks.definitions import Check, Revision
from pratique.pod_security.checks.profile_types import forbidden_types
from pratique.pod_security.findings import Finding, plural, quoted
from pratique.pod_security.levels import Level
from pratique.pod_security.pod_shapes import text
from pratique.statuses import go_quoted

if TYPE_CHECKING:
    from pratique.pod_security.pod_shapes import PodShape

_ANNOTATION = "container.apparmor.security.beta.kubernetes.io/"


def _find(pod: PodShape) -> Finding | None:
    types = forbidden_types(pod, "appArmorProfile")
    annotations = _forbidden_annotations(pod)
    setters = [types.setters] if types.setters else []
    if annotations:
        setters.append(plural("annotation", annotations))
    if not setters:
        return None
    values = [*types.values, *annotations]
    detail = f"{' and '.join(setters)} must not set AppArmor profile type to {quoted(values)}"
    return Finding(plural("forbidden AppArmor profile", values), detail)


def _forbidden_annotations(pod: PodShape) -> list[str]:
    found = []
    for key in pod.annotations:
        if key.startswith(_ANNOTATION):
            value = text(pod.annotations, key)
            if value not in ("", "runtime/default") and not value.startswith("localhost/"):
                found.append(f"{key}={go_quoted(value)}")
    return sorted(found)


CHECK = Check("appArmorProfile", Level.BASELINE, (Revision(0, _find),))
