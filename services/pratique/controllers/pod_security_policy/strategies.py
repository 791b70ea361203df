"""Strategies: the defaults and checks for users, groups, SELinux, capabilities, sysctls and volumes.

Source: ``pkg/security/podsecuritypolicy/{user,group,selinux,capabilities,sysctl}`` of 1.24.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pratique.apimachinery.field_errors import (
    ROOT,
    FieldError,
    FieldPath,
    GoLiteral,
    forbidden,
    invalid,
    required,
)
from pratique.apimachinery.json_values import JSON, JSONObject, member
from pratique.apimachinery.statuses import go_quoted
from pratique.controllers.pod_security_policy import api_types
from pratique.controllers.pod_security_policy.api_types import (
    SPEC,
    AllowedHostPath,
    Capabilities,
    Container,
    IDRange,
    IDStrategyOptions,
    Pod,
    PodSecurityPolicy,
    PodSecurityPolicySpec,
    PodSpec,
    SecurityContext,
    SELinuxOptions,
    SELinuxStrategyOptions,
)

_MUST_RUN_AS = "MustRunAs"
MUST_RUN_AS_NON_ROOT = "MustRunAsNonRoot"
_USER_RULES = (_MUST_RUN_AS, MUST_RUN_AS_NON_ROOT, "RunAsAny")


def user_strategy_error(rule: IDStrategyOptions) -> str:
    """Why a strategy is invalid; empty if it is valid."""
    if rule.rule not in _USER_RULES:
        return f"Unrecognized RunAsUser strategy type {rule.rule}"
    if rule.rule == _MUST_RUN_AS and not rule.ranges:
        return "MustRunAsRange requires at least one range"
    return ""


def default_user(rule: IDStrategyOptions) -> int | None:
    """The default user of containers; None if there is none."""
    return rule.ranges[0].min if rule.rule == _MUST_RUN_AS else None


def user_errors(rule: IDStrategyOptions, path: FieldPath, context: SecurityContext) -> Iterator[FieldError]:
    """The errors in the user of a container whose security context is at ``path``."""
    if rule.rule == _MUST_RUN_AS:
        yield from _range_errors(rule, path / "runAsUser", context.run_as_user)
    elif rule.rule == MUST_RUN_AS_NON_ROOT:
        yield from _root_errors(path, context)


def _range_errors(rule: IDStrategyOptions, path: FieldPath, user: int | None) -> Iterator[FieldError]:
    if user is None:
        yield required(path)
    elif not any(user in id_range for id_range in rule.ranges):
        yield invalid(path, user, f"must be in the ranges: {api_types.ranges(rule.ranges)}")


def _root_errors(path: FieldPath, context: SecurityContext) -> Iterator[FieldError]:
    """If neither the container nor its Pod excludes root, the image's user may be root."""
    if context.run_as_non_root is None and context.run_as_user is None:
        yield required(path / "runAsNonRoot", "must be true")
    elif context.run_as_non_root is False:
        yield invalid(path / "runAsNonRoot", False, "must be true")
    elif context.run_as_user == 0:
        yield invalid(path / "runAsUser", 0, "running with the root UID is forbidden")


_MAY_RUN_AS = "MayRunAs"
_GROUP_RULES = (_MUST_RUN_AS, _MAY_RUN_AS, "RunAsAny")


def group_strategy_error(what: str, rule: IDStrategyOptions) -> str:
    """Why a strategy for ``what`` is invalid; empty if it is valid."""
    if rule.rule not in _GROUP_RULES:
        return f"Unrecognized {what} strategy type {rule.rule}"
    if rule.rule in (_MUST_RUN_AS, _MAY_RUN_AS) and not rule.ranges:
        return f"ranges must be supplied for {rule.rule}"
    return ""


def default_group(rule: IDStrategyOptions) -> int | None:
    """The default group; None if there is none."""
    return rule.ranges[0].min if rule.rule == _MUST_RUN_AS else None


def group_errors(
    rule: IDStrategyOptions, path: FieldPath, groups: Sequence[int] | None
) -> Iterator[FieldError]:
    """The errors in the groups at ``path``. None and an empty list print differently."""
    if rule.rule == _MUST_RUN_AS and not groups:
        detail = "unable to validate empty groups against required ranges"
        yield invalid(path, api_types.go_int64s(groups), detail)
    if rule.rule in (_MUST_RUN_AS, _MAY_RUN_AS):
        for group in groups or ():
            if not any(group in id_range for id_range in rule.ranges):
                detail = f"group {group} must be in the ranges: {api_types.ranges(rule.ranges)}"
                yield invalid(path, api_types.go_int64s(groups), detail)


_SE_LINUX_RULES = (_MUST_RUN_AS, "RunAsAny")


def se_linux_strategy_error(rule: SELinuxStrategyOptions) -> str:
    """Why a strategy is invalid; empty if it is valid."""
    if rule.rule not in _SE_LINUX_RULES:
        return f"Unrecognized SELinuxContext strategy type {rule.rule}"
    if rule.rule == _MUST_RUN_AS and rule.se_linux_options is None:
        return "MustRunAs requires SELinuxOptions"
    return ""


def default_se_linux(rule: SELinuxStrategyOptions) -> SELinuxOptions | None:
    """The default labels of Pods; None if there are none."""
    return rule.se_linux_options if rule.rule == _MUST_RUN_AS else None


def se_linux_errors(
    rule: SELinuxStrategyOptions, path: FieldPath, labels: SELinuxOptions | None
) -> Iterator[FieldError]:
    """The errors in the labels at ``path``."""
    required_labels = default_se_linux(rule)
    if required_labels is None:
        return
    if labels is None:
        yield required(path)
        return
    for name in ("level", "role", "type", "user"):
        actual, expected = getattr(labels, name) or "", getattr(required_labels, name) or ""
        if actual != expected and not (name == "level" and _same_level(actual, expected)):
            yield invalid(path / name, actual, f"must be {expected}")


def _same_level(first: str, second: str) -> bool:
    """Whether two levels, such as ``s0:c1,c2``, name the same categories in any order."""
    sensitivity, colon, categories = first.partition(":")
    other_sensitivity, other_colon, other_categories = second.partition(":")
    return (
        bool(colon and other_colon)
        and sensitivity == other_sensitivity
        and sorted(categories.split(",")) == sorted(other_categories.split(","))
    )


_ALL = "*"
_NO_CAPABILITIES = Capabilities()


def default_capabilities(
    spec: PodSecurityPolicySpec, capabilities: Capabilities | None
) -> Capabilities | None:
    """A container's capabilities with the policy's defaults; None if they stay as they are.

    A default capability is not added if the container drops it.
    """
    capabilities = capabilities or _NO_CAPABILITIES
    add, drop = set(capabilities.add or ()), set(capabilities.drop or ())
    all_added = (set(spec.default_add_capabilities) - drop) | add
    all_dropped = set(spec.required_drop_capabilities) | drop
    if all_added == add and all_dropped == drop:
        return None
    return Capabilities(sorted(all_added), sorted(all_dropped))


def capability_errors(
    spec: PodSecurityPolicySpec, path: FieldPath, capabilities: Capabilities | None
) -> Iterator[FieldError]:
    """The errors in the capabilities at ``path``."""
    if capabilities is None:
        if spec.default_add_capabilities or spec.required_drop_capabilities:
            yield invalid(path, api_types.NULL, "required capabilities are not set on the securityContext")
        return
    if _ALL in spec.allowed_capabilities:
        return
    for capability in capabilities.add or ():
        if capability not in spec.default_add_capabilities + spec.allowed_capabilities:
            yield invalid(path / "add", capability, "capability may not be added")
    for capability in spec.required_drop_capabilities:
        if capability not in (capabilities.drop or ()):
            detail = f"{capability} is required to be dropped but was not found"
            yield invalid(path / "drop", _go_capabilities(capabilities.drop), detail)


def _go_capabilities(names: Sequence[str] | None) -> GoLiteral:
    """A list in Go's syntax, as Kubernetes printed it while it had these policies."""
    if names is None:
        return GoLiteral("[]core.Capability(nil)")
    return GoLiteral(f"[]core.Capability{{{', '.join(go_quoted(name) for name in names)}}}")


SAFE_SYSCTLS = (
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
)
"""The sysctls that cannot affect other Pods. Every policy allows them unless it forbids them."""

SYSCTLS_ANNOTATION = "security.alpha.kubernetes.io/sysctls"
"""Up to 1.10. On a Pod: sysctls as ``name=value,…``. On a policy: the sysctls that it allows."""
UNSAFE_SYSCTLS_ANNOTATION = "security.alpha.kubernetes.io/unsafe-sysctls"
"""Up to 1.10, on a Pod: sysctls that the kubelet must allow explicitly."""

_SYSCTLS_PATH = ROOT / "pod" / "spec" / "securityContext" / "sysctls"


def sysctl_errors(spec: PodSecurityPolicySpec, pod: Pod) -> Iterator[FieldError]:
    """The errors in the sysctls of a Pod."""
    for index, sysctl in enumerate(pod.spec.context.sysctls or ()):
        name = sysctl.name or ""
        if _matches_sysctl(name, spec.forbidden_sysctls):
            yield forbidden(_SYSCTLS_PATH / index, f"sysctl {go_quoted(name)} is not allowed")
        elif name not in SAFE_SYSCTLS and not _matches_sysctl(name, spec.allowed_unsafe_sysctls):
            yield forbidden(_SYSCTLS_PATH / index, f"unsafe sysctl {go_quoted(name)} is not allowed")


def sysctl_annotation_errors(policy: PodSecurityPolicy, pod: Pod) -> Iterator[FieldError]:
    """The errors in the sysctls of a Pod's annotations. 1.10 checks safe ones, too."""
    listed = policy.annotations.get(SYSCTLS_ANNOTATION)
    allowed = ["*"] if listed is None else listed.split(",") if listed else []
    for key in (SYSCTLS_ANNOTATION, UNSAFE_SYSCTLS_ANNOTATION):
        path = (ROOT / "pod" / "metadata" / "annotations").key(key)
        yield from _sysctl_text_errors(pod.annotations.get(key, ""), path, allowed)


def _sysctl_text_errors(text: str, path: FieldPath, allowed: Sequence[str]) -> Iterator[FieldError]:
    if not text:
        return
    settings = [setting.split("=") for setting in text.split(",")]
    malformed = next((pair for pair in settings if len(pair) != 2 or not pair[0]), None)
    if malformed is not None:
        yield invalid(
            path, text, f"sysctl {go_quoted('='.join(malformed))} not of the format sysctl_name=value"
        )
    elif not allowed:
        yield invalid(path, text, "sysctls are not allowed")
    else:
        for index, (name, _) in enumerate(settings):
            if not _matches_sysctl(name, allowed):
                yield forbidden(path / index, f"sysctl {go_quoted(name)} is not allowed")


def _matches_sysctl(name: str, patterns: Sequence[str]) -> bool:
    """Whether any pattern equals the name, or ends in ``*`` and is a prefix of it."""
    return any(
        name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern for pattern in patterns
    )


_VOLUME_SOURCES = (
    "hostPath", "emptyDir", "gcePersistentDisk", "awsElasticBlockStore", "gitRepo", "secret", "nfs", "iscsi",
    "glusterfs", "persistentVolumeClaim", "rbd", "flexVolume", "cinder", "cephfs", "flocker", "downwardAPI", "fc",
    "azureFile", "configMap", "vsphereVolume", "quobyte", "azureDisk", "photonPersistentDisk", "storageos",
    "projected", "portworxVolume", "scaleIO", "csi", "ephemeral",
)  # fmt: skip
"""The sources of volumes, in the order in which Kubernetes looks for them."""
_VOLUME_TYPES = dict.fromkeys(_VOLUME_SOURCES, "") | {"cephfs": "cephFS"}
"""What policies call a source if it is not the name of the field."""
_NOT_A_SOURCE = frozenset({"name"})


def volume_errors(spec: PodSecurityPolicySpec, pod: PodSpec) -> Iterator[FieldError]:
    """The errors in the volumes of a Pod."""
    for index, volume in enumerate(pod.volumes or ()):
        path = SPEC / "volumes" / index
        field = _volume_source(volume)
        if not field:
            name = f"unknown volume type for volume: {volume.get('name', '')}"
            yield invalid(path, "", name)
            continue
        kind = _VOLUME_TYPES[field] or field
        if not _allows_volume(spec.volumes, kind, volume):
            yield invalid(path, kind, f"{kind} volumes are not allowed to be used")
        elif kind == "hostPath":
            yield from _host_path_errors(spec.allowed_host_paths, path, volume, pod)
        elif kind == "flexVolume" and spec.allowed_flex_volumes:
            drivers = [driver.driver for driver in spec.allowed_flex_volumes]
            where, detail = path / "driver", "Flexvolume driver is not allowed to be used"
            yield from _driver_errors(drivers, where, _volume_driver(volume, field), detail)
        elif kind == "csi" and spec.allowed_csi_drivers:
            drivers = [driver.name for driver in spec.allowed_csi_drivers]
            where, detail = path / "csi" / "driver", "Inline CSI driver is not allowed to be used"
            yield from _driver_errors(drivers, where, _volume_driver(volume, field), detail)


def _volume_source(volume: JSONObject) -> str:
    """The source of a volume; empty if policies do not know it.

    A volume without a source is an emptyDir: the API server sets this default before admission.
    """
    source = next((field for field in _VOLUME_SOURCES if volume.get(field) is not None), "")
    fields = {name for name, value in volume.items() if value is not None} - _NOT_A_SOURCE
    return source or ("" if fields else "emptyDir")


def _allows_volume(volumes: Sequence[str], kind: str, volume: JSONObject) -> bool:
    if _ALL in volumes or kind in volumes:
        return True
    # A policy that allows Secrets allows the projected tokens that replaced the tokens in Secrets.
    return "secret" in volumes and kind == "projected" and _is_token_volume(member(volume, "projected"))


def _is_token_volume(projected: JSON) -> bool:
    """Whether a volume holds only what the ServiceAccount controller projects into Pods."""
    return all(_is_token_source(source) for source in _items(projected, "sources"))


def _is_token_source(source: JSON) -> bool:
    token, ca, downward = (
        member(source, name) for name in ("serviceAccountToken", "configMap", "downwardAPI")
    )
    if token is None and ca is None and downward is None:
        return False
    if token is not None and (member(token, "path") != "token" or member(token, "audience")):
        return False
    if ca is not None and member(ca, "name") != "kube-root-ca.crt":
        return False
    return all(
        member(item, "path") == "namespace"
        and member(item, "fieldRef", "apiVersion") in {None, "", "v1"}
        and member(item, "fieldRef", "fieldPath") == "metadata.namespace"
        for item in _items(downward, "items")
    )


def _host_path_errors(
    allowed: Sequence[AllowedHostPath], path: FieldPath, volume: JSONObject, pod: PodSpec
) -> Iterator[FieldError]:
    mounted = str(member(volume, "hostPath", "path") or "")
    matching = [host_path for host_path in allowed if _has_path_prefix(mounted, host_path.path_prefix)]
    if not allowed or any(not host_path.read_only for host_path in matching):
        return
    if not matching:
        yield invalid(path / "hostPath" / "pathPrefix", mounted, "is not allowed to be used")
        return
    for where, container in pod.all_containers():
        for index, mount in enumerate(container.volume_mounts or ()):
            if (mount.name or "") == volume.get("name", "") and not mount.read_only:
                at = where / "volumeMounts" / index / "readOnly"
                yield invalid(at, False, "must be read-only")


def _has_path_prefix(path: str, prefix: str) -> bool:
    """Whether a path equals the prefix or is below it: ``/foo`` is not a prefix of ``/food``."""
    path, prefix = path.removesuffix("/"), prefix.removesuffix("/")
    return path == prefix or path.startswith(f"{prefix}/")


def _volume_driver(volume: JSONObject, field: str) -> str:
    return str(member(volume, field, "driver") or "")


def _driver_errors(allowed: Iterable[str], path: FieldPath, driver: str, detail: str) -> Iterator[FieldError]:
    if driver not in allowed:
        yield invalid(path, driver, detail)


def _items(value: JSON, field: str) -> list[JSON]:
    items = member(value, field)
    return items if isinstance(items, list) else []


_DEFAULT_PROC_MOUNT = "Default"


def privilege_errors(
    spec: PodSecurityPolicySpec, path: FieldPath, context: SecurityContext
) -> Iterator[FieldError]:
    """The errors in the privileges and the ``/proc`` mount of the security context at ``path``."""
    if context.privileged and not spec.privileged:
        yield invalid(path / "privileged", True, "Privileged containers are not allowed")
    mounted = context.proc_mount
    if mounted is None:
        mounted = _DEFAULT_PROC_MOUNT
    if mounted not in (spec.allowed_proc_mount_types or (_DEFAULT_PROC_MOUNT,)):
        yield invalid(path / "procMount", mounted, "ProcMountType is not allowed")


def port_errors(spec: PodSecurityPolicySpec, path: FieldPath, container: Container) -> Iterator[FieldError]:
    """The errors in the host ports of the container at ``path``."""
    for port in container.ports or ():
        number = port.host_port or 0
        if number > 0 and not any(number in port_range for port_range in spec.host_ports):
            ports = _go_ports(spec.host_ports)
            detail = f"Host port {number} is not allowed to be used. Allowed ports: [{ports}]"
            yield invalid(path / "hostPort", number, detail)


def escalation_errors(
    spec: PodSecurityPolicySpec, path: FieldPath, context: SecurityContext
) -> Iterator[FieldError]:
    """The errors in the root file system and privilege escalation of the security context at ``path``."""
    read_only = context.read_only_root_filesystem
    if spec.read_only_root_filesystem and read_only is not True:
        at, unset = path / "readOnlyRootFilesystem", "may not be nil and must be set to true"
        detail = f"ReadOnlyRootFilesystem {unset if read_only is None else 'must be set to true'}"
        yield invalid(at, api_types.NULL if read_only is None else read_only, detail)
    escalation = context.allow_privilege_escalation
    if not spec.allow_privilege_escalation and escalation is not False:
        detail = "Allowing privilege escalation for containers is not allowed"
        actual = api_types.NULL if escalation is None else escalation
        yield invalid(path / "allowPrivilegeEscalation", actual, detail)


def _go_ports(ports: Sequence[IDRange]) -> str:
    return ",".join(
        str(port_range.min) if port_range.min == port_range.max else f"{port_range.min}-{port_range.max}"
        for port_range in ports
    )
