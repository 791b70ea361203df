"""``hostProbesAndHostLifecycle``: probes and hooks go to the Pod itself, not to a host of their choice.

Source: ``k8s.io/pod-security-admission/policy/check_hostProbesAndhostLifecycle.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.pod_security.checks.definitions import Check, Revision
from pratique.pod_security.findings import Finding, containers, plural, quoted
from pratique.pod_security.levels import Level
from pratique.pod_security.pod_shapes import as_object, text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pratique.json_values import JSONObject
    from pratique.pod_security.pod_shapes import PodShape

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HOOKS = ("postStart", "preStop")
_ACTIONS = ("httpGet", "tcpSocket")


def _find(pod: PodShape) -> Finding | None:
    bad: set[str] = set()
    hosts: set[str] = set()
    for each in pod.containers:
        found = set(_hosts(each.document))
        if found:
            bad.add(each.name)
            hosts |= found
    if not bad:
        return None
    uses, what = plural("uses", bad, "use"), plural("probe or lifecycle host", hosts)
    detail = f"{containers(sorted(bad))} {uses} {what} {quoted(sorted(hosts))}"
    return Finding("probe or lifecycle host", detail)


def _hosts(container: JSONObject) -> Iterator[str]:
    for name in _PROBES:
        yield from _hosts_of(container, name)
    lifecycle = as_object(container.get("lifecycle"), "lifecycle")
    for name in _HOOKS:
        yield from _hosts_of(lifecycle, name)


def _hosts_of(holder: JSONObject, name: str) -> Iterator[str]:
    handler = as_object(holder.get(name), name)
    if not handler:
        return  # as most are: five are looked for in each container
    for action in _ACTIONS:
        host = text(as_object(handler.get(action), action), "host")
        if host:
            yield host


CHECK = Check("hostProbesAndHostLifecycle", Level.BASELINE, (Revision(34, _find),))
