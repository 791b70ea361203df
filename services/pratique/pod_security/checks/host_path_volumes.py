"""``hostPathVolumes``: no volumes from the node's own files.

Source: ``k8s.io/pod-security-admission/policy/check_hostPathVolumes.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.pod_security.checks.definitions import Check, Revision
from pratique.pod_security.findings import Finding, plural, quoted
from pratique.pod_security.levels import Level
from pratique.pod_security.pod_shapes import objects, text

if TYPE_CHECKING:
    from pratique.pod_security.pod_shapes import PodShape

ID = "hostPathVolumes"


def _find(pod: PodShape) -> Finding | None:
    bad = [text(each, "name") for each in objects(pod.spec, "volumes") if each.get("hostPath") is not None]
    return Finding("hostPath volumes", f"{plural('volume', bad)} {quoted(bad)}") if bad else None


CHECK = Check(ID, Level.BASELINE, (Revision(0, _find),))
