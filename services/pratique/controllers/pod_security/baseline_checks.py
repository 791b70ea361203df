"""The checks of the level ``baseline``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.apimachinery.statuses import go_quoted
from pratique.controllers.pod_security.checks import (
    Check,
    Finding,
    Revision,
    containers,
    forbidden_types,
    plural,
    quoted,
    setters,
    unless_own_users,
)
from pratique.controllers.pod_security.pod_shapes import as_object, flag, integer, objects, text, texts
from pratique.controllers.pod_security.standards import Level

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pratique.apimachinery.json_values import JSONObject
    from pratique.controllers.pod_security.checks import Find
    from pratique.controllers.pod_security.pod_shapes import PodShape

_ANNOTATION = "container.apparmor.security.beta.kubernetes.io/"


def _find_app_armor_profile(pod: PodShape) -> Finding | None:
    types = forbidden_types(pod, "appArmorProfile")
    annotations = _forbidden_annotations(pod)
    setters = [types.setters] if types.setters else []
    if annotations:
        setters.append(plural("annotation", annotations))
    if not setters:
        return None
    values = [*types.values, *annotations]
    detail = f"{' and '.join(setters)} must not set AppArmor profile type to {quoted(values)}"
    return Finding(plural("forbidden AppArmor profile", values), detail)


def _forbidden_annotations(pod: PodShape) -> list[str]:
    found = []
    for key in pod.annotations:
        if key.startswith(_ANNOTATION):
            value = text(pod.annotations, key)
            if value not in ("", "runtime/default") and not value.startswith("localhost/"):
                found.append(f"{key}={go_quoted(value)}")
    return sorted(found)


APP_ARMOR_PROFILE = Check("appArmorProfile", Level.BASELINE, (Revision(0, _find_app_armor_profile),))


CAPABILITIES_BASELINE_ID = "capabilities_baseline"

_ALLOWED = frozenset(
    {
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE"),
        *("SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    }
)


def _find_capabilities(pod: PodShape) -> Finding | None:
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


CAPABILITIES_BASELINE = Check(CAPABILITIES_BASELINE_ID, Level.BASELINE, (Revision(0, _find_capabilities),))


def _find_host_namespaces(pod: PodShape) -> Finding | None:
    shared = [f"{name}=true" for name in ("hostNetwork", "hostPID", "hostIPC") if flag(pod.spec, name)]
    return Finding("host namespaces", ", ".join(shared)) if shared else None


HOST_NAMESPACES = Check("hostNamespaces", Level.BASELINE, (Revision(0, _find_host_namespaces),))


HOST_PATH_VOLUMES_ID = "hostPathVolumes"


def _find_host_path_volumes(pod: PodShape) -> Finding | None:
    bad = [text(each, "name") for each in objects(pod.spec, "volumes") if each.get("hostPath") is not None]
    return Finding("hostPath volumes", f"{plural('volume', bad)} {quoted(bad)}") if bad else None


HOST_PATH_VOLUMES = Check(HOST_PATH_VOLUMES_ID, Level.BASELINE, (Revision(0, _find_host_path_volumes),))


def _find_host_ports(pod: PodShape) -> Finding | None:
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


HOST_PORTS = Check("hostPorts", Level.BASELINE, (Revision(0, _find_host_ports),))


_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HOOKS = ("postStart", "preStop")
_ACTIONS = ("httpGet", "tcpSocket")


def _find_host_probes_and_host_lifecycle(pod: PodShape) -> Finding | None:
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


HOST_PROBES_AND_HOST_LIFECYCLE = Check(
    "hostProbesAndHostLifecycle", Level.BASELINE, (Revision(34, _find_host_probes_and_host_lifecycle),)
)


def _find_privileged(pod: PodShape) -> Finding | None:
    bad = [each.name for each in pod.containers if flag(each.security, "privileged")]
    if not bad:
        return None
    return Finding("privileged", f"{containers(bad)} must not set securityContext.privileged=true")


PRIVILEGED = Check("privileged", Level.BASELINE, (Revision(0, _find_privileged),))


_ID = "procMount"
_FIELD = "procMount"


def _find_proc_mount(pod: PodShape) -> Finding | None:
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


BASELINE = Check(
    _ID, Level.BASELINE, (Revision(0, _find_proc_mount), Revision(35, unless_own_users(_find_proc_mount)))
)
RESTRICTED = Check("procMount_restricted", Level.RESTRICTED, (Revision(35, _find_proc_mount, (_ID,)),))


_SE_LINUX_OPTIONS_FIELD = "seLinuxOptions"
_TYPES = frozenset({"", "container_t", "container_init_t", "container_kvm_t"})
_TYPES_1_31 = _TYPES | {"container_engine_t"}


def _finder(allowed: frozenset[str]) -> Find:
    def find(pod: PodShape) -> Finding | None:
        own = _forbidden(pod.security, allowed)
        named = [(each.name, _forbidden(each.security, allowed)) for each in pod.containers]
        bad = [name for name, found in named if found]
        who = setters(bad, pod=bool(own))
        if not who:
            return None
        what = "; ".join(_described(set(own).union(*(found for _, found in named))))
        return Finding(_SE_LINUX_OPTIONS_FIELD, f"{who} set forbidden securityContext.seLinuxOptions: {what}")

    return find


def _forbidden(security: JSONObject, allowed: frozenset[str]) -> set[tuple[str, str]]:
    """What is set and may not be: ``type`` with its value, ``user`` and ``role``."""
    options = as_object(security.get(_SE_LINUX_OPTIONS_FIELD), _SE_LINUX_OPTIONS_FIELD)
    kind = text(options, "type")
    found = set() if kind in allowed else {("type", kind)}
    return found | {(name, "") for name in ("user", "role") if text(options, name)}


def _described(found: set[tuple[str, str]]) -> list[str]:
    types = sorted(value for name, value in found if name == "type")
    described = [f"{plural('type', types)} {quoted(types)}"] if types else []
    return described + [f"{name} may not be set" for name in ("user", "role") if (name, "") in found]


SE_LINUX_OPTIONS = Check(
    _SE_LINUX_OPTIONS_FIELD,
    Level.BASELINE,
    (Revision(0, _finder(_TYPES)), Revision(31, _finder(_TYPES_1_31))),
)


SECCOMP_PROFILE_BASELINE_ID = "seccompProfile_baseline"
REASON = "seccompProfile"
FIELD = "seccompProfile"

_POD_ANNOTATION = "seccomp.security.alpha.kubernetes.io/pod"
_CONTAINER_ANNOTATION = "container.seccomp.security.alpha.kubernetes.io/"


def find_forbidden(pod: PodShape) -> Finding | None:
    """Find types that no Pod may have."""
    types = forbidden_types(pod, FIELD)
    if not types.setters:
        return None
    detail = f"{types.setters} must not set securityContext.seccompProfile.type to {quoted(types.values)}"
    return Finding(REASON, detail)


def _find_annotated(pod: PodShape) -> Finding | None:
    keys = {_POD_ANNOTATION, *(f"{_CONTAINER_ANNOTATION}{each.name}" for each in pod.containers)}
    named = {key: text(pod.annotations, key) for key in keys if key in pod.annotations}
    bad = sorted(f"{key}={go_quoted(value)}" for key, value in named.items() if not _may_be_annotated(value))
    if not bad:
        return None
    return Finding(REASON, f"forbidden {plural('annotation', bad)} {', '.join(bad)}")


def _may_be_annotated(value: str) -> bool:
    return value in ("runtime/default", "docker/default") or value.startswith("localhost/")


SECCOMP_PROFILE_BASELINE = Check(
    SECCOMP_PROFILE_BASELINE_ID, Level.BASELINE, (Revision(0, _find_annotated), Revision(19, find_forbidden))
)


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


SYSCTLS = Check("sysctls", Level.BASELINE, tuple(_revision(release) for release, _ in _SINCE))


def _find_windows_host_process(pod: PodShape) -> Finding | None:
    bad = [each.name for each in pod.containers if _is_host_process(each.security)]
    found = setters(bad, pod=_is_host_process(pod.security))
    if not found:
        return None
    return Finding("hostProcess", f"{found} must not set securityContext.windowsOptions.hostProcess=true")


def _is_host_process(security: JSONObject) -> bool:
    return flag(as_object(security.get("windowsOptions"), "windowsOptions"), "hostProcess") is True


WINDOWS_HOST_PROCESS = Check("windowsHostProcess", Level.BASELINE, (Revision(0, _find_windows_host_process),))
