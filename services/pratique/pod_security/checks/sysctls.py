"""``sysctls``: only kernel parameters that concern the Pod alone.

Source: ``k8s.io/pod-security-admission/policy/check_sysctls.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.pod_security.checks.definitions import Check, Revision
from pratique.pod_security.findings import Finding
from pratique.pod_security.levels import Level
from pratique.pod_security.pod_shapes import objects, text

if TYPE_CHECKING:
    from pratique.pod_security.checks.definitions import Find
    from pratique.pod_security.pod_shapes import PodShape

_SINCE: tuple[tuple[int, frozenset[str]], ...] = (
    (
        0,
        frozenset(
            {
                "kernel.shm_rmid_forced",
                "net.ipv4.ip_local_port_range",
                "net.ipv4.tcp_syncookies",
                "net.ipv4.ping_group_range",
                "net.ipv4.ip_unprivileged_port_start",
            }
        ),
    ),
    (27, frozenset({"net.ipv4.ip_local_reserved_ports"})),
    (
        29,
        frozenset(
            {
                "net.ipv4.tcp_keepalive_time",
                "net.ipv4.tcp_fin_timeout",
                "net.ipv4.tcp_keepalive_intvl",
                "net.ipv4.tcp_keepalive_probes",
            }
        ),
    ),
    (32, frozenset({"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"})),
    (37, frozenset({"net.ipv4.tcp_slow_start_after_idle", "net.ipv4.tcp_notsent_lowat"})),
)
"""What may be set, by the release that allowed it."""


def _revision(since: int) -> Revision:
    allowed = frozenset().union(*(names for release, names in _SINCE if release <= since))
    return Revision(since, _outside(allowed))


def _outside(allowed: frozenset[str]) -> Find:
    def find(pod: PodShape) -> Finding | None:
        names = [text(each, "name") for each in objects(pod.security, "sysctls")]
        bad = [name for name in names if name not in allowed]
        return Finding("forbidden sysctls", ", ".join(bad)) if bad else None

    return find


CHECK = Check("sysctls", Level.BASELINE, tuple(_revision(release) for release, _ in _SINCE))
