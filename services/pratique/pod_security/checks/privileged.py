"""``privileged``: no container is privileged.

Source: ``k8s.io/pod-security-admission/policy/check_privileged.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.pod_security.checks.definitions import Check, Revision
from pratique.pod_security.findings import Finding, containers
from pratique.pod_security.levels import Level
from pratique.pod_security.pod_shapes import flag

if TYPE_CHECKING:
    from pratique.pod_security.pod_shapes import PodShape


def _find(pod: PodShape) -> Finding | None:
    bad = [each.name for each in pod.containers if flag(each.security, "privileged")]
    if not bad:
        return None
    return Finding("privileged", f"{containers(bad)} must not set securityContext.privileged=true")


CHECK = Check("privileged", Level.BASELINE, (Revision(0, _find),))
