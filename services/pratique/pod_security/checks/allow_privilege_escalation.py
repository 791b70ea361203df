"""``allowPrivilegeEscalation``: no container gains more rights than its parent process has.

Source: ``k8s.io/pod-security-admission/policy/check_allowPrivilegeEscalation.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.pod_security.checks.definitions import Check, Revision, unless_windows
from pratique.pod_security.findings import Finding, containers
from pratique.pod_security.levels import Level
from pratique.pod_security.pod_shapes import flag

if TYPE_CHECKING:
    from pratique.pod_security.pod_shapes import PodShape

_FIELD = "allowPrivilegeEscalation"


def _find(pod: PodShape) -> Finding | None:
    bad = [each.name for each in pod.containers if flag(each.security, _FIELD) is not False]
    if not bad:
        return None
    return Finding(f"{_FIELD} != false", f"{containers(bad)} must set securityContext.{_FIELD}=false")


CHECK = Check(
    "allowPrivilegeEscalation", Level.RESTRICTED, (Revision(8, _find), Revision(25, unless_windows(_find)))
)
