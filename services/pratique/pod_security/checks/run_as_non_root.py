"""``runAsNonRoot``: every container says, or has its Pod say, that it does not run as root.

Source: ``k8s.io/pod-security-admission/policy/check_runAsNonRoot.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.pod_security.checks.definitions import Check, Revision, unless_own_users
from pratique.pod_security.findings import Finding, containers, setters
from pratique.pod_security.levels import Level
from pratique.pod_security.pod_shapes import flag

if TYPE_CHECKING:
    from pratique.pod_security.pod_shapes import PodShape

_FIELD = "runAsNonRoot"
_REASON = "runAsNonRoot != true"


def _find(pod: PodShape) -> Finding | None:
    in_pod = flag(pod.security, _FIELD)
    said = [(each.name, flag(each.security, _FIELD)) for each in pod.containers]
    refusing = setters([name for name, value in said if value is False], pod=in_pod is False)
    if refusing:
        return Finding(_REASON, f"{refusing} must not set securityContext.runAsNonRoot=false")
    silent = [name for name, value in said if value is None]
    if silent and not in_pod:
        return Finding(_REASON, f"pod or {containers(silent)} must set securityContext.runAsNonRoot=true")
    return None


CHECK = Check("runAsNonRoot", Level.RESTRICTED, (Revision(0, _find), Revision(35, unless_own_users(_find))))
