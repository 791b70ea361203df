"""``seccompProfile_restricted``: every container has, or has of its Pod, a seccomp profile.

Source: ``k8s.io/pod-security-admission/policy/check_seccompProfile_restricted.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.pod_security.checks import seccomp_profile_baseline as baseline
from pratique.pod_security.checks.definitions import Check, Revision, unless_windows
from pratique.pod_security.checks.profile_types import profile_type
from pratique.pod_security.findings import Finding, containers
from pratique.pod_security.levels import Level

if TYPE_CHECKING:
    from pratique.pod_security.pod_shapes import PodShape


def _find(pod: PodShape) -> Finding | None:
    forbidden = baseline.find_forbidden(pod)
    if forbidden is not None or profile_type(pod.security, baseline.FIELD) is not None:
        return forbidden
    silent = [each.name for each in pod.containers if profile_type(each.security, baseline.FIELD) is None]
    if not silent:
        return None
    must = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return Finding(baseline.REASON, f"pod or {containers(silent)} {must}")


_OVERRIDES = (baseline.ID,)

CHECK = Check(
    "seccompProfile_restricted",
    Level.RESTRICTED,
    (Revision(19, _find, _OVERRIDES), Revision(25, unless_windows(_find), _OVERRIDES)),
)
