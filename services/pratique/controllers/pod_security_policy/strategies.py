"""What a policy fills in and checks: users, groups, SELinux, capabilities, sysctls, volumes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pratique.apimachinery.field_errors import (
    ROOT,
    FieldError,
    FieldPath,
    GoLiteral,
    forbidden,
    go_strings,
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
    """Why nobody can be judged by a rule; empty where it is in order."""
    if rule.rule not in _USER_RULES:
        return f"Unrecognized RunAsUser strategy type {rule.rule}"
    if rule.rule == _MUST_RUN_AS and not rule.ranges:
        return "MustRunAsRange requires at least one range"
    return ""


def default_user(rule: IDStrategyOptions) -> int | None:
    """The user of containers that name none; None where they stay without."""
    return rule.ranges[0].min if rule.rule == _MUST_RUN_AS else None


def user_errors(rule: IDStrategyOptions, path: FieldPath, context: SecurityContext) -> Iterator[FieldError]:
    """What is wrong with the user of a container, whose security context is at ``path``."""
    if rule.rule == _MUST_RUN_AS:
        yield from _range_errors(rule, path / "runAsUser", context.run_as_user)
    elif rule.rule == MUST_RUN_AS_NON_ROOT:
        yield from _root_errors(path, context)


def _range_errors(rule: IDStrategyOptions, path: FieldPath, user: int | None) -> Iterator[FieldError]:
    if user is None:
        yield required(path)
    elif not any(user in each for each in rule.ranges):
        yield invalid(path, user, f"must be in the ranges: {api_types.ranges(rule.ranges)}")


def _root_errors(path: FieldPath, context: SecurityContext) -> Iterator[FieldError]:
    """The image's user may be root where nobody says that it must not be."""
    if context.run_as_non_root is None and context.run_as_user is None:
        yield required(path / "runAsNonRoot", "must be true")
    elif context.run_as_non_root is False:
        yield invalid(path / "runAsNonRoot", False, "must be true")
    elif context.run_as_user == 0:
        yield invalid(path / "runAsUser", 0, "running with the root UID is forbidden")


_MAY_RUN_AS = "MayRunAs"
_GROUP_RULES = (_MUST_RUN_AS, _MAY_RUN_AS, "RunAsAny")


def group_strategy_error(what: str, rule: IDStrategyOptions) -> str:
    """Why nobody can be judged by a rule for ``what``; empty where it is in order."""
    if rule.rule not in _GROUP_RULES:
        return f"Unrecognized {what} strategy type {rule.rule}"
    if rule.rule in (_MUST_RUN_AS, _MAY_RUN_AS) and not rule.ranges:
        return f"ranges must be supplied for {rule.rule}"
    return ""


def default_group(rule: IDStrategyOptions) -> int | None:
    """The group of those that name none; None where they stay without."""
    return rule.ranges[0].min if rule.rule == _MUST_RUN_AS else None


def group_errors(
    rule: IDStrategyOptions, path: FieldPath, groups: Sequence[int] | None
) -> Iterator[FieldError]:
    """What is wrong with the groups at ``path``; None for none is printed otherwise than an empty list."""
    if rule.rule == _MUST_RUN_AS and not groups:
        detail = "unable to validate empty groups against required ranges"
        yield invalid(path, api_types.go_int64s(groups), detail)
    if rule.rule in (_MUST_RUN_AS, _MAY_RUN_AS):
        for group in groups or ():
            if not any(group in each for each in rule.ranges):
                detail = f"group {group} must be in the ranges: {api_types.ranges(rule.ranges)}"
                yield invalid(path, api_types.go_int64s(groups), detail)


_SE_LINUX_RULES = (_MUST_RUN_AS, "RunAsAny")


def se_linux_strategy_error(rule: SELinuxStrategyOptions) -> str:
    """Why nobody can be judged by a rule; empty where it is in order."""
    if rule.rule not in _SE_LINUX_RULES:
        return f"Unrecognized SELinuxContext strategy type {rule.rule}"
    if rule.rule == _MUST_RUN_AS and rule.se_linux_options is None:
        return "MustRunAs requires SELinuxOptions"
    return ""


def default_se_linux(rule: SELinuxStrategyOptions) -> SELinuxOptions | None:
    """The labels of Pods that name none; None where they stay without."""
    return rule.se_linux_options if rule.rule == _MUST_RUN_AS else None


def se_linux_errors(
    rule: SELinuxStrategyOptions, path: FieldPath, labels: SELinuxOptions | None
) -> Iterator[FieldError]:
    """What is wrong with the labels at ``path``."""
    wanted = default_se_linux(rule)
    if wanted is None:
        return
    if labels is None:
        yield required(path)
        return
    for name in ("level", "role", "type", "user"):
        found, right = getattr(labels, name) or "", getattr(wanted, name) or ""
        if found != right and not (name == "level" and _same_level(found, right)):
            yield invalid(path / name, found, f"must be {right}")


def _same_level(first: str, second: str) -> bool:
    """Tell whether two levels, ``s0:c1,c2``, name the same categories in whatever order."""
    sensitivity, colon, categories = first.partition(":")
    other_sensitivity, other_colon, other_categories = second.partition(":")
    return (
        bool(colon and other_colon)
        and sensitivity == other_sensitivity
        and sorted(categories.split(",")) == sorted(other_categories.split(","))
    )


_ALL = "*"
_NO_CAPABILITIES = Capabilities()


def default_capabilities(spec: PodSecurityPolicySpec, asked: Capabilities | None) -> Capabilities | None:
    """What a container gets in place of what it asked for; None where that stays as it is.

    A capability that is added unless somebody says otherwise is not added where the container drops it.
    """
    asked = asked or _NO_CAPABILITIES
    add, drop = set(asked.add or ()), set(asked.drop or ())
    all_added = (set(spec.default_add_capabilities) - drop) | add
    all_dropped = set(spec.required_drop_capabilities) | drop
    if all_added == add and all_dropped == drop:
        return None
    return Capabilities(sorted(all_added), sorted(all_dropped))


def capability_errors(
    spec: PodSecurityPolicySpec, path: FieldPath, found: Capabilities | None
) -> Iterator[FieldError]:
    """What is wrong with the capabilities at ``path``."""
    if found is None:
        if spec.default_add_capabilities or spec.required_drop_capabilities:
            yield invalid(path, api_types.NULL, "required capabilities are not set on the securityContext")
        return
    if _ALL in spec.allowed_capabilities:
        return
    for capability in found.add or ():
        if capability not in spec.default_add_capabilities + spec.allowed_capabilities:
            yield invalid(path / "add", capability, "capability may not be added")
    for capability in spec.required_drop_capabilities:
        if capability not in (found.drop or ()):
            detail = f"{capability} is required to be dropped but was not found"
            yield invalid(path / "drop", _go_capabilities(found.drop), detail)


def _go_capabilities(names: Sequence[str] | None) -> GoLiteral:
    if names is not None and not names:
        return GoLiteral("[]core.Capability{}")
    return GoLiteral(go_strings("core.Capability", names or ()))


SAFE_SYSCTLS = (
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
)
"""Those that concern no other Pod, and that every policy allows that does not forbid them."""

SYSCTLS_ANNOTATION = "security.alpha.kubernetes.io/sysctls"
"""Up to 1.10: at a Pod, sysctls as ``name=value,…``; at a policy, those that it allows."""
UNSAFE_SYSCTLS_ANNOTATION = "security.alpha.kubernetes.io/unsafe-sysctls"
"""Up to 1.10: at a Pod, those that a node has to be told to set."""

_SYSCTLS_PATH = ROOT / "pod" / "spec" / "securityContext" / "sysctls"


def sysctl_errors(spec: PodSecurityPolicySpec, pod: Pod) -> Iterator[FieldError]:
    """What is wrong with the sysctls of a Pod."""
    for index, sysctl in enumerate(pod.spec.context.sysctls or ()):
        name = sysctl.name or ""
        if _matches_sysctl(name, spec.forbidden_sysctls):
            yield forbidden(_SYSCTLS_PATH / index, f"sysctl {go_quoted(name)} is not allowed")
        elif name not in SAFE_SYSCTLS and not _matches_sysctl(name, spec.allowed_unsafe_sysctls):
            yield forbidden(_SYSCTLS_PATH / index, f"unsafe sysctl {go_quoted(name)} is not allowed")


def sysctl_annotation_errors(policy: PodSecurityPolicy, pod: Pod) -> Iterator[FieldError]:
    """What is wrong with the sysctls in a Pod's annotations, safe ones among them, as 1.10 sees it."""
    listed = policy.annotations.get(SYSCTLS_ANNOTATION)
    allowed = ["*"] if listed is None else listed.split(",") if listed else []
    for key in (SYSCTLS_ANNOTATION, UNSAFE_SYSCTLS_ANNOTATION):
        path = (ROOT / "pod" / "metadata" / "annotations").key(key)
        yield from _sysctl_text_errors(pod.annotations.get(key, ""), path, allowed)


def _sysctl_text_errors(text: str, path: FieldPath, allowed: Sequence[str]) -> Iterator[FieldError]:
    if not text:
        return
    settings = [setting.split("=") for setting in text.split(",")]
    malformed = next((each for each in settings if len(each) != 2 or not each[0]), None)
    if malformed is not None:
        yield invalid(
            path, text, f"sysctl {go_quoted('='.join(malformed))} not of the format sysctl_name=value"
        )
    elif not allowed:
        yield invalid(path, text, "sysctls are not allowed")
    else:
        for index, (name, _) in enumerate(settings):
            if not _matches_sysctl(name, allowed):
                # The index stands behind the key, which a path of its own cannot say.
                at = (ROOT / "pod" / "metadata" / "annotations").key(f"{path.subscript}][{index}")
                yield forbidden(at, f"sysctl {go_quoted(name)} is not allowed")


def _matches_sysctl(name: str, patterns: Sequence[str]) -> bool:
    """Tell whether any pattern is the name, or ends in ``*`` and begins as the name does."""
    return any(name.startswith(each[:-1]) if each.endswith("*") else name == each for each in patterns)


_VOLUME_SOURCES = (
    "hostPath", "emptyDir", "gcePersistentDisk", "awsElasticBlockStore", "gitRepo", "secret", "nfs", "iscsi",
    "glusterfs", "persistentVolumeClaim", "rbd", "flexVolume", "cinder", "cephfs", "flocker", "downwardAPI", "fc",
    "azureFile", "configMap", "vsphereVolume", "quobyte", "azureDisk", "photonPersistentDisk", "storageos",
    "projected", "portworxVolume", "scaleIO", "csi", "ephemeral",
)  # fmt: skip
"""The sources that a volume can have, in the order in which Kubernetes looks for them."""
_VOLUME_TYPES = dict.fromkeys(_VOLUME_SOURCES, "") | {"cephfs": "cephFS"}
"""What policies call a source, where it is not the name of the field."""
_NOT_A_SOURCE = frozenset({"name"})


def volume_errors(spec: PodSecurityPolicySpec, pod: PodSpec) -> Iterator[FieldError]:
    """What is wrong with the volumes of a Pod."""
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
            drivers = [each.driver for each in spec.allowed_flex_volumes]
            where, detail = path / "driver", "Flexvolume driver is not allowed to be used"
            yield from _driver_errors(drivers, where, _volume_driver(volume, field), detail)
        elif kind == "csi" and spec.allowed_csi_drivers:
            drivers = [each.name for each in spec.allowed_csi_drivers]
            where, detail = path / "csi" / "driver", "Inline CSI driver is not allowed to be used"
            yield from _driver_errors(drivers, where, _volume_driver(volume, field), detail)


def _volume_source(volume: JSONObject) -> str:
    """The field that says what a volume is; empty where that is none that policies know.

    A volume that says nothing is an empty folder: the API server writes so before it comes to admission.
    """
    found = next((field for field in _VOLUME_SOURCES if volume.get(field) is not None), "")
    said = {name for name, value in volume.items() if value is not None} - _NOT_A_SOURCE
    return found or ("" if said else "emptyDir")


def _allows_volume(volumes: Sequence[str], kind: str, volume: JSONObject) -> bool:
    if _ALL in volumes or kind in volumes:
        return True
    # Who may have Secrets may have the tokens that took the place of those of ServiceAccounts.
    return "secret" in volumes and kind == "projected" and _is_token_volume(member(volume, "projected"))


def _is_token_volume(projected: JSON) -> bool:
    """Tell whether a volume holds no more than what the ServiceAccount controller projects into Pods."""
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
    matching = [each for each in allowed if _has_path_prefix(mounted, each.path_prefix)]
    if not allowed or any(not each.read_only for each in matching):
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
    """Tell whether a path is the prefix or lies below it: ``/foo`` is no prefix of ``/food``."""
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
    """What is wrong with being privileged and with how ``/proc`` is mounted; ``path`` is of the context."""
    if context.privileged and not spec.privileged:
        yield invalid(path / "privileged", True, "Privileged containers are not allowed")
    mounted = context.proc_mount
    if mounted is None:
        mounted = _DEFAULT_PROC_MOUNT
    if mounted not in (spec.allowed_proc_mount_types or (_DEFAULT_PROC_MOUNT,)):
        yield invalid(path / "procMount", mounted, "ProcMountType is not allowed")


def port_errors(spec: PodSecurityPolicySpec, path: FieldPath, container: Container) -> Iterator[FieldError]:
    """What is wrong with the ports of the node that a container takes; ``path`` is of the container."""
    for port in container.ports or ():
        number = port.host_port or 0
        if number > 0 and not any(number in each for each in spec.host_ports):
            ports = _go_ports(spec.host_ports)
            detail = f"Host port {number} is not allowed to be used. Allowed ports: [{ports}]"
            yield invalid(path / "hostPort", number, detail)


def escalation_errors(
    spec: PodSecurityPolicySpec, path: FieldPath, context: SecurityContext
) -> Iterator[FieldError]:
    """What is wrong with a root file system that can be written to, and with gaining privileges later."""
    read_only = context.read_only_root_filesystem
    if spec.read_only_root_filesystem and read_only is not True:
        at, unset = path / "readOnlyRootFilesystem", "may not be nil and must be set to true"
        detail = f"ReadOnlyRootFilesystem {unset if read_only is None else 'must be set to true'}"
        yield invalid(at, api_types.NULL if read_only is None else read_only, detail)
    escalation = context.allow_privilege_escalation
    if not spec.allow_privilege_escalation and escalation is not False:
        detail = "Allowing privilege escalation for containers is not allowed"
        found = api_types.NULL if escalation is None else escalation
        yield invalid(path / "allowPrivilegeEscalation", found, detail)


def _go_ports(ports: Sequence[IDRange]) -> str:
    return ",".join(str(each.min) if each.min == each.max else f"{each.min}-{each.max}" for each in ports)
