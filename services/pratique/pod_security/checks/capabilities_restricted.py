"""``capabilities_restricted``: all capabilities are dropped, and at most ``NET_BIND_SERVICE`` is added.

Source: ``k8s.io/pod-security-admission/policy/check_capabilities_restricted.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.pod_security.checks import capabilities_baseline
from pratique.pod_security.checks.definitions import Check, Revision, unless_windows
from pratique.pod_security.findings import Finding, containers, quoted
from pratique.pod_security.levels import Level
from pratique.pod_security.pod_shapes import as_object, texts

if TYPE_CHECKING:
    from pratique.pod_security.pod_shapes import PodShape


def _find(pod: PodShape) -> Finding | None:
    keeping: list[str] = []
    adding: list[str] = []
    added: set[str] = set()
    for each in pod.containers:
        capabilities = as_object(each.security.get("capabilities"), "capabilities")
        if "ALL" not in texts(capabilities, "drop"):
            keeping.append(each.name)
        extra = set(texts(capabilities, "add")) - {"NET_BIND_SERVICE"}
        if extra:
            adding.append(each.name)
            added |= extra
    found = []
    if keeping:
        found.append(f'{containers(keeping)} must set securityContext.capabilities.drop=["ALL"]')
    if adding:
        listed = quoted(sorted(added))
        found.append(f"{containers(adding)} must not include {listed} in securityContext.capabilities.add")
    return Finding("unrestricted capabilities", "; ".join(found)) if found else None


_OVERRIDES = (capabilities_baseline.ID,)

CHECK = Check(
    "capabilities_restricted",
    Level.RESTRICTED,
    (Revision(22, _find, _OVERRIDES), Revision(25, unless_windows(_find), _OVERRIDES)),
)
