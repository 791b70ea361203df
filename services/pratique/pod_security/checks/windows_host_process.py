"""``windowsHostProcess``: nothing runs as a process of a Windows node itself.

Source: ``k8s.io/pod-security-admission/policy/check_windowsHostProcess.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.pod_security.checks.definitions import Check, Revision
from pratique.pod_security.findings import Finding, setters
from pratique.pod_security.levels import Level
from pratique.pod_security.pod_shapes import as_object, flag

if TYPE_CHECKING:
    from pratique.json_values import JSONObject
    from pratique.pod_security.pod_shapes import PodShape


def _find(pod: PodShape) -> Finding | None:
    bad = [each.name for each in pod.containers if _is_host_process(each.security)]
    found = setters(bad, pod=_is_host_process(pod.security))
    if not found:
        return None
    return Finding("hostProcess", f"{found} must not set securityContext.windowsOptions.hostProcess=true")


def _is_host_process(security: JSONObject) -> bool:
    return flag(as_object(security.get("windowsOptions"), "windowsOptions"), "hostProcess") is True


CHECK = Check("windowsHostProcess", Level.BASELINE, (Revision(0, _find),))
