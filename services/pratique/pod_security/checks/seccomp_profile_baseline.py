"""``seccompProfile_baseline``: seccomp's profile is the runtime's own or one of the node's, where one is named.

Before 1.19 annotations named it, and only those counted.

Source: ``k8s.io/pod-security-admission/policy/check_seccompProfile_baseline.go``.
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

ID = "seccompProfile_baseline"
REASON = "seccompProfile"
FIELD = "seccompProfile"

_POD_ANNOTATION = "seccomp.security.alpha.kubernetes.io/pod"
_CONTAINER_ANNOTATION = "container.seccomp.security.alpha.kubernetes.io/"


def find_forbidden(pod: PodShape) -> Finding | None:
    """Find types that no Pod may have."""
    types = forbidden_types(pod, FIELD)
    if not types.setters:
        return None
    detail = f"{types.setters} must not set securityContext.seccompProfile.type to {quoted(types.values)}"
    return Finding(REASON, detail)


def _find_annotated(pod: PodShape) -> Finding | None:
    keys = {_POD_ANNOTATION, *(f"{_CONTAINER_ANNOTATION}{each.name}" for each in pod.containers)}
    named = {key: text(pod.annotations, key) for key in keys if key in pod.annotations}
    bad = sorted(f"{key}={go_quoted(value)}" for key, value in named.items() if not _may_be_annotated(value))
    if not bad:
        return None
    return Finding(REASON, f"forbidden {plural('annotation', bad)} {', '.join(bad)}")


def _may_be_annotated(value: str) -> bool:
    return value in ("runtime/default", "docker/default") or value.startswith("localhost/")


CHECK = Check(ID, Level.BASELINE, (Revision(0, _find_annotated), Revision(19, find_forbidden)))
