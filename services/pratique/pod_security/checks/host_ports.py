"""``hostPorts``: no ports of the node.

Source: ``k8s.io/pod-security-admission/policy/check_hostPorts.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.pod_security.checks.definitions import Check, Revision
from pratique.pod_security.findings import Finding, containers, plural
from pratique.pod_security.levels import Level
from pratique.pod_security.pod_shapes import flag, integer, objects

if TYPE_CHECKING:
    from pratique.json_values import JSONObject
    from pratique.pod_security.pod_shapes import PodShape


def _find(pod: PodShape) -> Finding | None:
    # pkg/apis/core/v1/defaults.go SetDefaults_Pod: in the host's network every port is one of the host. Templates
    # are not filled in so since 1.28.
    on_host = not pod.is_template and flag(pod.spec, "hostNetwork") is True
    bad: list[str] = []
    ports: set[str] = set()
    for each in pod.containers:
        found = {
            str(port) for one in objects(each.document, "ports") if (port := _host_port(one, on_host=on_host))
        }
        if found:
            bad.append(each.name)
            ports |= found
    if not bad:
        return None
    uses = plural("uses", bad, "use")
    return Finding(
        "hostPort", f"{containers(bad)} {uses} {plural('hostPort', ports)} {', '.join(sorted(ports))}"
    )


def _host_port(port: JSONObject, *, on_host: bool) -> int | None:
    return integer(port, "hostPort") or (integer(port, "containerPort") if on_host else None)


CHECK = Check("hostPorts", Level.BASELINE, (Revision(0, _find),))
