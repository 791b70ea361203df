"""The checks of the level ``baseline``.

Source: ``k8s.io/pod-security-admission/policy/check_*.go``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.statuses import go_quoted
from pratique.controllers.pod_security.checks import (
    CheckResult,
    PodSecurityCheck,
    VersionedCheck,
    as_object,
    bool_field,
    containers,
    forbidden_types,
    int_field,
    object_list,
    pluralize,
    quoted,
    setters,
    string_field,
    string_list,
    unless_user_namespace,
)
from pratique.controllers.pod_security.standards import PodSecurityLevel
from pratique.pods.pod_spec import APP_ARMOR_ANNOTATION

if TYPE_CHECKING:
    from pratique.controllers.pod_security.checks import CheckedPod, CheckPod


def _find_app_armor_profile(pod: CheckedPod) -> CheckResult | None:
    types = forbidden_types(pod, "appArmorProfile")
    annotations = _forbidden_annotations(pod)
    setters = [types.setters] if types.setters else []
    if annotations:
        setters.append(pluralize("annotation", annotations))
    if not setters:
        return None
    values = [*types.values, *annotations]
    detail = f"{' and '.join(setters)} must not set AppArmor profile type to {quoted(values)}"
    return CheckResult(pluralize("forbidden AppArmor profile", values), detail)


def _forbidden_annotations(pod: CheckedPod) -> list[str]:
    forbidden = []
    for key in pod.annotations:
        if key.startswith(APP_ARMOR_ANNOTATION):
            value = string_field(pod.annotations, key)
            if value not in ("", "runtime/default") and not value.startswith("localhost/"):
                forbidden.append(f"{key}={go_quoted(value)}")
    return sorted(forbidden)


APP_ARMOR_PROFILE = PodSecurityCheck(
    "appArmorProfile", PodSecurityLevel.BASELINE, (VersionedCheck(0, _find_app_armor_profile),)
)


CAPABILITIES_BASELINE_ID = "capabilities_baseline"

_BASELINE_CAPABILITIES = frozenset(
    {
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE"),
        *("SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    }
)


def _find_capabilities(pod: CheckedPod) -> CheckResult | None:
    bad: list[str] = []
    added: set[str] = set()
    for container in pod.containers:
        capabilities = as_object(container.security.get("capabilities"), "capabilities")
        extra = set(string_list(capabilities, "add")) - _BASELINE_CAPABILITIES
        if extra:
            bad.append(container.name)
            added |= extra
    if not bad:
        return None
    detail = f"{containers(bad)} must not include {quoted(sorted(added))} in securityContext.capabilities.add"
    return CheckResult("non-default capabilities", detail)


CAPABILITIES_BASELINE = PodSecurityCheck(
    CAPABILITIES_BASELINE_ID, PodSecurityLevel.BASELINE, (VersionedCheck(0, _find_capabilities),)
)


def _find_host_namespaces(pod: CheckedPod) -> CheckResult | None:
    shared = [f"{name}=true" for name in ("hostNetwork", "hostPID", "hostIPC") if bool_field(pod.spec, name)]
    return CheckResult("host namespaces", ", ".join(shared)) if shared else None


HOST_NAMESPACES = PodSecurityCheck(
    "hostNamespaces", PodSecurityLevel.BASELINE, (VersionedCheck(0, _find_host_namespaces),)
)


HOST_PATH_VOLUMES_ID = "hostPathVolumes"


def _find_host_path_volumes(pod: CheckedPod) -> CheckResult | None:
    bad = [
        string_field(volume, "name")
        for volume in object_list(pod.spec, "volumes")
        if volume.get("hostPath") is not None
    ]
    return CheckResult("hostPath volumes", f"{pluralize('volume', bad)} {quoted(bad)}") if bad else None


HOST_PATH_VOLUMES = PodSecurityCheck(
    HOST_PATH_VOLUMES_ID, PodSecurityLevel.BASELINE, (VersionedCheck(0, _find_host_path_volumes),)
)


def _find_host_ports(pod: CheckedPod) -> CheckResult | None:
    # pkg/apis/core/v1/defaults.go SetDefaults_Pod: in the host's network, every container port is a host port.
    # Since 1.28, templates do not get this default.
    on_host = not pod.is_template and bool_field(pod.spec, "hostNetwork") is True
    bad: list[str] = []
    ports: set[str] = set()
    for container in pod.containers:
        host_ports = {
            str(port)
            for entry in object_list(container.document, "ports")
            if (port := _host_port(entry, on_host=on_host))
        }
        if host_ports:
            bad.append(container.name)
            ports |= host_ports
    if not bad:
        return None
    uses = pluralize("uses", bad, "use")
    return CheckResult(
        "hostPort", f"{containers(bad)} {uses} {pluralize('hostPort', ports)} {', '.join(sorted(ports))}"
    )


def _host_port(port: JSONObject, *, on_host: bool) -> int | None:
    return int_field(port, "hostPort") or (int_field(port, "containerPort") if on_host else None)


HOST_PORTS = PodSecurityCheck("hostPorts", PodSecurityLevel.BASELINE, (VersionedCheck(0, _find_host_ports),))


_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HOOKS = ("postStart", "preStop")
_ACTIONS = ("httpGet", "tcpSocket")


def _find_host_probes_and_host_lifecycle(pod: CheckedPod) -> CheckResult | None:
    bad: set[str] = set()
    hosts: set[str] = set()
    for container in pod.containers:
        container_hosts = set(_action_hosts(container.document))
        if container_hosts:
            bad.add(container.name)
            hosts |= container_hosts
    if not bad:
        return None
    uses, what = pluralize("uses", bad, "use"), pluralize("probe or lifecycle host", hosts)
    detail = f"{containers(sorted(bad))} {uses} {what} {quoted(sorted(hosts))}"
    return CheckResult("probe or lifecycle host", detail)


def _action_hosts(container: JSONObject) -> Iterator[str]:
    for name in _PROBES:
        yield from _handler_hosts(container, name)
    lifecycle = as_object(container.get("lifecycle"), "lifecycle")
    for name in _HOOKS:
        yield from _handler_hosts(lifecycle, name)


def _handler_hosts(holder: JSONObject, name: str) -> Iterator[str]:
    handler = as_object(holder.get(name), name)
    if not handler:
        return  # most containers have none of the five handlers
    for action in _ACTIONS:
        host = string_field(as_object(handler.get(action), action), "host")
        if host:
            yield host


HOST_PROBES_AND_HOST_LIFECYCLE = PodSecurityCheck(
    "hostProbesAndHostLifecycle",
    PodSecurityLevel.BASELINE,
    (VersionedCheck(34, _find_host_probes_and_host_lifecycle),),
)


def _find_privileged(pod: CheckedPod) -> CheckResult | None:
    bad = [container.name for container in pod.containers if bool_field(container.security, "privileged")]
    if not bad:
        return None
    return CheckResult("privileged", f"{containers(bad)} must not set securityContext.privileged=true")


PRIVILEGED = PodSecurityCheck("privileged", PodSecurityLevel.BASELINE, (VersionedCheck(0, _find_privileged),))


_PROC_MOUNT_ID = "procMount"
_PROC_MOUNT = "procMount"


def _find_proc_mount(pod: CheckedPod) -> CheckResult | None:
    named = [
        (container.name, string_field(container.security, _PROC_MOUNT))
        for container in pod.containers
        if container.security.get(_PROC_MOUNT) is not None
    ]
    bad = [(name, value) for name, value in named if value != "Default"]
    if not bad:
        return None
    values = sorted({value for _, value in bad})
    detail = (
        f"{containers([name for name, _ in bad])} must not set securityContext.procMount to {quoted(values)}"
    )
    return CheckResult("procMount", detail)


PROC_MOUNT_BASELINE = PodSecurityCheck(
    _PROC_MOUNT_ID,
    PodSecurityLevel.BASELINE,
    (VersionedCheck(0, _find_proc_mount), VersionedCheck(35, unless_user_namespace(_find_proc_mount))),
)
PROC_MOUNT_RESTRICTED = PodSecurityCheck(
    "procMount_restricted",
    PodSecurityLevel.RESTRICTED,
    (VersionedCheck(35, _find_proc_mount, (_PROC_MOUNT_ID,)),),
)


_SE_LINUX_OPTIONS = "seLinuxOptions"
_SE_LINUX_TYPES = frozenset({"", "container_t", "container_init_t", "container_kvm_t"})
_SE_LINUX_TYPES_1_31 = _SE_LINUX_TYPES | {"container_engine_t"}


def _se_linux_check(allowed: frozenset[str]) -> CheckPod:
    def check_pod(pod: CheckedPod) -> CheckResult | None:
        own = _forbidden_se_linux_options(pod.security, allowed)
        named = [
            (container.name, _forbidden_se_linux_options(container.security, allowed))
            for container in pod.containers
        ]
        bad = [name for name, options in named if options]
        who = setters(bad, pod=bool(own))
        if not who:
            return None
        what = "; ".join(_describe_se_linux_options(set(own).union(*(options for _, options in named))))
        return CheckResult(_SE_LINUX_OPTIONS, f"{who} set forbidden securityContext.seLinuxOptions: {what}")

    return check_pod


def _forbidden_se_linux_options(security: JSONObject, allowed: frozenset[str]) -> set[tuple[str, str]]:
    """The options that are set and forbidden: ``type`` with its value, ``user`` and ``role``."""
    options = as_object(security.get(_SE_LINUX_OPTIONS), _SE_LINUX_OPTIONS)
    kind = string_field(options, "type")
    forbidden = set() if kind in allowed else {("type", kind)}
    return forbidden | {(name, "") for name in ("user", "role") if string_field(options, name)}


def _describe_se_linux_options(options: set[tuple[str, str]]) -> list[str]:
    types = sorted(value for name, value in options if name == "type")
    described = [f"{pluralize('type', types)} {quoted(types)}"] if types else []
    return described + [f"{name} may not be set" for name in ("user", "role") if (name, "") in options]


SE_LINUX_OPTIONS = PodSecurityCheck(
    _SE_LINUX_OPTIONS,
    PodSecurityLevel.BASELINE,
    (
        VersionedCheck(0, _se_linux_check(_SE_LINUX_TYPES)),
        VersionedCheck(31, _se_linux_check(_SE_LINUX_TYPES_1_31)),
    ),
)


SECCOMP_PROFILE_BASELINE_ID = "seccompProfile_baseline"
SECCOMP_REASON = "seccompProfile"
SECCOMP_FIELD = "seccompProfile"

_SECCOMP_POD_ANNOTATION = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER_ANNOTATION = "container.seccomp.security.alpha.kubernetes.io/"


def find_forbidden_seccomp_profile(pod: CheckedPod) -> CheckResult | None:
    """Find profile types that no Pod may have."""
    types = forbidden_types(pod, SECCOMP_FIELD)
    if not types.setters:
        return None
    detail = f"{types.setters} must not set securityContext.seccompProfile.type to {quoted(types.values)}"
    return CheckResult(SECCOMP_REASON, detail)


def _find_forbidden_seccomp_annotations(pod: CheckedPod) -> CheckResult | None:
    keys = {
        _SECCOMP_POD_ANNOTATION,
        *(f"{_SECCOMP_CONTAINER_ANNOTATION}{container.name}" for container in pod.containers),
    }
    named = {key: string_field(pod.annotations, key) for key in keys if key in pod.annotations}
    bad = sorted(
        f"{key}={go_quoted(value)}"
        for key, value in named.items()
        if not _is_allowed_seccomp_annotation(value)
    )
    if not bad:
        return None
    return CheckResult(SECCOMP_REASON, f"forbidden {pluralize('annotation', bad)} {', '.join(bad)}")


def _is_allowed_seccomp_annotation(value: str) -> bool:
    return value in ("runtime/default", "docker/default") or value.startswith("localhost/")


SECCOMP_PROFILE_BASELINE = PodSecurityCheck(
    SECCOMP_PROFILE_BASELINE_ID,
    PodSecurityLevel.BASELINE,
    (
        VersionedCheck(0, _find_forbidden_seccomp_annotations),
        VersionedCheck(19, find_forbidden_seccomp_profile),
    ),
)


_SYSCTLS_BY_RELEASE: tuple[tuple[int, frozenset[str]], ...] = (
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
"""The allowed sysctls, by the minor release that added them."""


def _sysctls_check(minimum_minor: int) -> VersionedCheck:
    allowed = frozenset().union(
        *(names for release, names in _SYSCTLS_BY_RELEASE if release <= minimum_minor)
    )
    return VersionedCheck(minimum_minor, _find_sysctls_outside(allowed))


def _find_sysctls_outside(allowed: frozenset[str]) -> CheckPod:
    def check_pod(pod: CheckedPod) -> CheckResult | None:
        names = [string_field(sysctl, "name") for sysctl in object_list(pod.security, "sysctls")]
        bad = [name for name in names if name not in allowed]
        return CheckResult("forbidden sysctls", ", ".join(bad)) if bad else None

    return check_pod


SYSCTLS = PodSecurityCheck(
    "sysctls", PodSecurityLevel.BASELINE, tuple(_sysctls_check(release) for release, _ in _SYSCTLS_BY_RELEASE)
)


def _find_windows_host_process(pod: CheckedPod) -> CheckResult | None:
    bad = [container.name for container in pod.containers if _is_host_process(container.security)]
    who = setters(bad, pod=_is_host_process(pod.security))
    if not who:
        return None
    return CheckResult("hostProcess", f"{who} must not set securityContext.windowsOptions.hostProcess=true")


def _is_host_process(security: JSONObject) -> bool:
    return bool_field(as_object(security.get("windowsOptions"), "windowsOptions"), "hostProcess") is True


WINDOWS_HOST_PROCESS = PodSecurityCheck(
    "windowsHostProcess", PodSecurityLevel.BASELINE, (VersionedCheck(0, _find_windows_host_process),)
)
