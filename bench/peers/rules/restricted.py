"""The restricted level of the Pod Security Standards, and a sidecar, as the author of a webhook writes them by hand.

What the standards say of Windows is left out, as such authors do; no review of the comparison is about it.
"""

from __future__ import annotations

import copy
from typing import Any

VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
}
SYSCTLS = {
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_notsent_lowat",
}
SELINUX_TYPES = {"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"}
PROFILES = {"RuntimeDefault", "Localhost"}
APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"

Object = dict[str, Any]


def problems(pod: Object) -> list[str]:
    """Say what the restricted level has against a Pod."""
    spec = pod["spec"]
    found = pod_problems(pod, spec, spec.get("securityContext") or {})
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(kind) or []:
            found += container_problems(container, spec.get("securityContext") or {})
    return found


def pod_problems(pod: Object, spec: Object, context: Object) -> list[str]:
    found = [f"{name} is true" for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name)]
    for volume in spec.get("volumes") or []:
        found += [f"volume {volume['name']} is a {kind}" for kind in volume.keys() - VOLUMES - {"name"}]
    for sysctl in context.get("sysctls") or []:
        if sysctl["name"] not in SYSCTLS:
            found.append(f"sysctl {sysctl['name']}")
    for name, value in (pod["metadata"].get("annotations") or {}).items():
        if (
            name.startswith(APP_ARMOR)
            and value not in {"", "runtime/default"}
            and not value.startswith("localhost/")
        ):
            found.append(f"AppArmor profile {value}")
    if context.get("runAsUser") == 0:
        found.append("the Pod runs as root")
    return found + context_problems("the Pod", context)


def context_problems(who: str, context: Object) -> list[str]:
    """What Pods and containers may both set."""
    found = []
    selinux = context.get("seLinuxOptions") or {}
    if selinux.get("type", "") not in SELINUX_TYPES or selinux.get("user") or selinux.get("role"):
        found.append(f"{who} sets SELinux options")
    seccomp = context.get("seccompProfile")
    if seccomp and seccomp.get("type") not in PROFILES:
        found.append(f"{who} has seccomp profile {seccomp.get('type')}")
    app_armor = context.get("appArmorProfile")
    if app_armor and app_armor.get("type") not in PROFILES:
        found.append(f"{who} has AppArmor profile {app_armor.get('type')}")
    return found


def container_problems(container: Object, pod_context: Object) -> list[str]:
    name, context = container["name"], container.get("securityContext") or {}
    found = context_problems(name, context)
    if context.get("privileged"):
        found.append(f"{name} is privileged")
    if context.get("procMount", "Default") != "Default":
        found.append(f"{name} sets procMount")
    if any(port.get("hostPort") for port in container.get("ports") or []):
        found.append(f"{name} uses a port of the host")
    if context.get("allowPrivilegeEscalation") is not False:
        found.append(f"{name} may escalate privileges")
    capabilities = context.get("capabilities") or {}
    if "ALL" not in (capabilities.get("drop") or []):
        found.append(f"{name} does not drop all capabilities")
    if set(capabilities.get("add") or []) - {"NET_BIND_SERVICE"}:
        found.append(f"{name} adds capabilities")
    if context.get("runAsUser") == 0:
        found.append(f"{name} runs as root")
    if not context.get("runAsNonRoot", pod_context.get("runAsNonRoot")):
        found.append(f"{name} may run as root")
    if not (context.get("seccompProfile") or pod_context.get("seccompProfile")):
        found.append(f"{name} has no seccomp profile")
    return found + probe_problems(name, container)


def probe_problems(name: str, container: Object) -> list[str]:
    """Handlers of probes and of the lifecycle must not name another host."""
    probes = [container.get(kind) or {} for kind in ("livenessProbe", "readinessProbe", "startupProbe")]
    handlers = probes + list((container.get("lifecycle") or {}).values())
    actions = [handler.get(kind) or {} for handler in handlers for kind in ("httpGet", "tcpSocket")]
    return [f"{name} probes another host" for action in actions if action.get("host")]


def with_sidecar(pod: Object) -> Object:
    """Label a Pod, and give it a sidecar unless it has one."""
    changed = copy.deepcopy(pod)
    changed["metadata"].setdefault("labels", {})["bench.example.com/injected"] = "true"
    containers = changed["spec"]["containers"]
    if not any(container["name"] == "sidecar" for container in containers):
        containers.append(sidecar())
    return changed


def sidecar() -> Object:
    return {
        "name": "sidecar",
        "image": "registry.example/sidecar:1.0",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "runAsNonRoot": True,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
