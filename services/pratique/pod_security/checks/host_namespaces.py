"""``hostNamespaces``: no sharing of the node's network, processes and IPC.

Source: ``k8s.io/pod-security-admission/policy/check_hostNamespaces.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.pod_security.checks.definitions import Check, Revision
from pratique.pod_security.findings import Finding
from pratique.pod_security.levels import Level
from pratique.pod_security.pod_shapes import flag

if TYPE_CHECKING:
    from pratique.pod_security.pod_shapes import PodShape


def _find(pod: PodShape) -> Finding | None:
    shared = [f"{name}=true" for name in ("hostNetwork", "hostPID", "hostIPC") if flag(pod.spec, name)]
    return Finding("host namespaces", ", ".join(shared)) if shared else None


CHECK = Check("hostNamespaces", Level.BASELINE, (Revision(0, _find),))
