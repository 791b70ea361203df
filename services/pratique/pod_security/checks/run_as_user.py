"""``runAsUser``: nothing runs as user 0.

Source: ``k8s.io/pod-security-admission/policy/check_runAsUser.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.pod_security.checks.definitions import Check, Revision, unless_own_users
from pratique.pod_security.findings import Finding, setters
from pratique.pod_security.levels import Level
from pratique.pod_security.pod_shapes import integer

if TYPE_CHECKING:
    from pratique.pod_security.pod_shapes import PodShape

_FIELD = "runAsUser"


def _find(pod: PodShape) -> Finding | None:
    bad = [each.name for each in pod.containers if integer(each.security, _FIELD) == 0]
    found = setters(bad, pod=integer(pod.security, _FIELD) == 0)
    return Finding("runAsUser=0", f"{found} must not set runAsUser=0") if found else None


CHECK = Check("runAsUser", Level.RESTRICTED, (Revision(23, _find), Revision(35, unless_own_users(_find))))
