"""``capabilities_baseline``: no capabilities beside those that containers have anyway.

Source: ``k8s.io/pod-security-admission/policy/check_capabilities_baseline.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.pod_security.checks.definitions import Check, Revision
from pratique.pod_security.findings import Finding, containers, quoted
from pratique.pod_security.levels import Level
from pratique.pod_security.pod_shapes import as_object, texts

if TYPE_CHECKING:
    from pratique.pod_security.pod_shapes import PodShape

ID = "capabilities_baseline"

_ALLOWED = frozenset(
    {
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE"),
        *("SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    }
)


def _find(pod: PodShape) -> Finding | None:
    bad: list[str] = []
    added: set[str] = set()
    for each in pod.containers:
        capabilities = as_object(each.security.get("capabilities"), "capabilities")
        extra = set(texts(capabilities, "add")) - _ALLOWED
        if extra:
            bad.append(each.name)
            added |= extra
    if not bad:
        return None
    detail = f"{containers(bad)} must not include {quoted(sorted(added))} in securityContext.capabilities.add"
    return Finding("non-default capabilities", detail)


CHECK = Check(ID, Level.BASELINE, (Revision(0, _find),))
