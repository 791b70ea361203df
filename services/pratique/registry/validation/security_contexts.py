"""Security contexts of Pods and containers.

Source: ``ValidateSecurityContext`` and ``validatePodSpecSecurityContext`` of
``pkg/apis/core/validation/validation.go``, and ``sysctl/namespace.go`` of ``k8s.io/component-helpers``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pratique.apimachinery.field_errors import (
    FieldError,
    FieldPath,
    duplicate,
    invalid,
    json_text,
    not_supported,
    required,
    too_long,
)
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.patterns import pattern
from pratique.registry.go_values import internal_value
from pratique.registry.validation.pod_context import PodContext, PodOptions
from pratique.registry.validation.volume_paths import validate_descending_path, validate_id
from pratique.registry.validation.windows_pods import validate_windows_options

_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
_PROC_MOUNTS = ("Default", "Unmasked")
SYS_ADMIN = "CAP_SYS_ADMIN"
"""A capability that cannot go without privilege escalation."""


def validate_security_context(context: JSONObject, path: FieldPath, pod: PodContext) -> list[FieldError]:
    """Validate the security context of a container."""
    errors = []
    for name in ("runAsUser", "runAsGroup"):
        if (number := context.get(name)) is not None:
            errors += validate_id(number, path / name)
    if (mount := context.get("procMount")) is not None:
        errors += _validate_proc_mount(mount, path / "procMount", host_users=pod.host_users)
    if (profile := context.get("seccompProfile")) is not None:
        errors += _validate_seccomp(profile, path / "seccompProfile")
    if context.get("allowPrivilegeEscalation") is False:
        errors += _validate_without_escalation(context, path, pod.options)
    if (windows := context.get("windowsOptions")) is not None:
        errors += validate_windows_options(windows, path / "windowsOptions")
    if (profile := context.get("appArmorProfile")) is not None:
        errors += _validate_app_armor(profile, path / "appArmorProfile")
    return errors


def _validate_proc_mount(mount: str, path: FieldPath, *, host_users: bool) -> list[FieldError]:
    if mount not in _PROC_MOUNTS:
        return [not_supported(path, mount, _PROC_MOUNTS)]
    if mount == "Unmasked" and host_users:
        return [invalid(path, mount, "`hostUsers` must be false to use `Unmasked`")]
    return []


def _validate_without_escalation(
    context: JSONObject, path: FieldPath, options: PodOptions
) -> list[FieldError]:
    details = []
    if context.get("privileged") is True:
        details.append("cannot set `allowPrivilegeEscalation` to false and `privileged` to true")
    if not options.sys_admin_without_escalation:
        added = (context.get("capabilities") or {}).get("add") or ()
        detail = f"cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` {SYS_ADMIN}"
        details += [detail for capability in added if capability == SYS_ADMIN]
    return [invalid(path, internal_value("core.SecurityContext", context), detail) for detail in details]


_CHOICES = (
    ("fsGroupChangePolicy", ("Always", "OnRootMismatch")),
    ("supplementalGroupsPolicy", ("Merge", "Strict")),
    ("seLinuxChangePolicy", ("MountOption", "Recursive")),
)


def validate_pod_security_context(spec: JSONObject, path: FieldPath, options: PodOptions) -> list[FieldError]:
    """Validate the security context of a Pod of some spec."""
    context = spec["securityContext"]
    errors = [
        error
        for name in ("fsGroup", "runAsUser", "runAsGroup")
        for error in validate_id(context.get(name), path / name)
    ]
    for index, group in enumerate(context.get("supplementalGroups") or ()):
        errors += validate_id(group, path / "supplementalGroups" / index)
    if sysctls := context.get("sysctls"):
        errors += _validate_sysctls(sysctls, spec, path / "sysctls", options)
    first, *others = (_validate_choice(context, name, known, path) for name, known in _CHOICES)
    errors += first
    errors += _validate_seccomp(context.get("seccompProfile"), path / "seccompProfile")
    errors += validate_windows_options(context.get("windowsOptions"), path / "windowsOptions")
    errors += _validate_app_armor(context.get("appArmorProfile"), path / "appArmorProfile")
    return errors + [error for found in others for error in found]


def _validate_choice(
    context: JSONObject, name: str, known: Sequence[str], path: FieldPath
) -> list[FieldError]:
    value = context.get(name)
    return [] if value is None or value in known else [not_supported(path / name, value, known)]


# Sysctls

_SEGMENT = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL = pattern(rf"({_SEGMENT}[\./])*{_SEGMENT}")
_MAX_SYSCTL = 253
_IPC_SYSCTLS = frozenset(
    f"kernel.{name}"
    for name in (
        "sem",
        "shmall",
        "shmmax",
        "shmmni",
        "shm_rmid_forced",
        "shm",
        "msgmax",
        "msgmnb",
        "msgmni",
        "msg",
    )
)


def _validate_sysctls(
    sysctls: Sequence[JSONObject], spec: JSONObject, path: FieldPath, options: PodOptions
) -> list[FieldError]:
    errors: list[FieldError] = []
    found: set[str] = set()
    for index, sysctl in enumerate(sysctls):
        name, place = sysctl.get("name", ""), path / index / "name"
        if not name:
            errors.append(required(place))
        elif len(name.encode()) > _MAX_SYSCTL or not _SYSCTL.fullmatch(name):
            detail = f"must have at most {_MAX_SYSCTL} characters and match regex ^{_SYSCTL.pattern}$"
            errors.append(invalid(place, name, detail))
        elif name in found:
            errors.append(duplicate(place, name))
        found.add(name)
        if not options.host_sysctls and (field := host_namespace(name, spec)):
            errors.append(invalid(place, name, f"may not be specified when '{field}' is true"))
    return errors


def host_namespace(name: str, spec: JSONObject) -> str:
    """The field by which a Pod shares the namespace of a sysctl with the host; empty if it does not."""
    plain = _with_dots(name).partition("*")[0]
    if spec.get("hostNetwork") and plain.startswith("net."):
        return "hostNetwork"
    is_of_ipc = plain in _IPC_SYSCTLS or plain.startswith("fs.mqueue.")
    return "hostIPC" if spec.get("hostIPC") and is_of_ipc else ""


def _with_dots(name: str) -> str:
    """A name with dots as separators: where slashes come first, each of both means the other, ``NormalizeName``."""
    first = re.search(r"[./]", name)
    return name.translate(_SWAPPED) if first is not None and first[0] == "/" else name


_SWAPPED = str.maketrans("./", "/.")


# Profiles


def _validate_seccomp(profile: JSONObject | None, path: FieldPath) -> list[FieldError]:
    if profile is None:
        return []
    type_, file, place = profile.get("type", ""), profile.get("localhostProfile"), path / "localhostProfile"
    errors = []
    if type_ not in _PROFILES:
        place_of_type = path / "type"
        missing = required(place_of_type, "type is required when seccompProfile is set")
        errors.append(not_supported(place_of_type, type_, _PROFILES) if type_ else missing)
    if type_ != "Localhost" and file is not None:
        shown = internal_value("core.SeccompProfile", profile)
        return [*errors, invalid(place, shown, "can only be set when seccomp type is Localhost")]
    if type_ == "Localhost" and file is None:
        return [required(place, "must be set when seccomp type is Localhost")]
    return errors if file is None else validate_descending_path(file, place)


_MAX_PROFILE = 4095  # of a path in Linux: PATH_MAX - 1


def _validate_app_armor(profile: JSONObject | None, path: FieldPath) -> list[FieldError]:
    if profile is None:
        return []
    type_, file, place = profile.get("type", ""), profile.get("localhostProfile"), path / "localhostProfile"
    if not type_:
        return [required(path / "type", "type is required when appArmorProfile is set")]
    if type_ not in _PROFILES:
        return [not_supported(path / "type", type_, _PROFILES)]
    if type_ != "Localhost":
        detail = "can only be set when AppArmor type is Localhost"
        return [] if file is None else [invalid(place, json_text(file), detail)]
    missing = required(place, "must be set when AppArmor type is Localhost")
    if file is None:
        return [missing]
    errors = [] if file else [missing]
    if file.strip() != file:
        errors.append(invalid(place, file, "must not be padded with whitespace"))
    return [*errors, too_long(place, _MAX_PROFILE)] if len(file.encode()) > _MAX_PROFILE else errors
