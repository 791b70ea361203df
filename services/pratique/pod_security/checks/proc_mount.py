"""``procMount`` and ``procMount_restricted``: what ``/proc`` hides stays hidden.

In user namespaces of their own, Pods may show it since 1.35, unless they are to be ``restricted``.

Source: ``k8s.io/pod-security-admission/policy/check_procMount_{baseline,restricted}.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.pod_security.checks.definitions import Check, Revision, unless_own_users
from pratique.pod_security.findings import Finding, containers, quoted
from pratique.pod_security.levels import Level
from pratique.pod_security.pod_shapes import text

if TYPE_CHECKING:
    from pratique.pod_security.pod_shapes import PodShape

_ID = "procMount"
_FIELD = "procMount"


def _find(pod: PodShape) -> Finding | None:
    named = [
        (each.name, text(each.security, _FIELD))
        for each in pod.containers
        if each.security.get(_FIELD) is not None
    ]
    bad = [(name, value) for name, value in named if value != "Default"]
    if not bad:
        return None
    values = sorted({value for _, value in bad})
    detail = (
        f"{containers([name for name, _ in bad])} must not set securityContext.procMount to {quoted(values)}"
    )
    return Finding("procMount", detail)


BASELINE = Check(_ID, Level.BASELINE, (Revision(0, _find), Revision(35, unless_own_users(_find))))
RESTRICTED = Check("procMount_restricted", Level.RESTRICTED, (Revision(35, _find, (_ID,)),))
