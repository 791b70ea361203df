"""Operating systems of Pods, and what only some of them have.

Source: ``validateOS``, ``validateLinux``, ``validateWindows``, ``validateWindowsSecurityContextOptions`` and
``validateWindowsHostProcessPod`` of ``pkg/apis/core/validation/validation.go``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pratique.apimachinery import names
from pratique.apimachinery.field_errors import (
    FieldError,
    FieldPath,
    forbidden,
    invalid,
    json_text,
    not_supported,
    required,
)
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.patterns import pattern
from pratique.pods.pod_spec import CONTAINER_FIELDS
from pratique.registry.validation.pod_context import visit_containers

_OF_LINUX_PODS = (
    "appArmorProfile", "seLinuxOptions", "seccompProfile", "fsGroup", "fsGroupChangePolicy", "sysctls", "runAsUser",
    "runAsGroup", "supplementalGroups", "supplementalGroupsPolicy", "seLinuxChangePolicy",
)  # fmt: skip
_OF_LINUX_SPECS = ("hostUsers", "hostPID", "hostIPC", "shareProcessNamespace")
_OF_LINUX_CONTAINERS = (
    "appArmorProfile", "seLinuxOptions", "seccompProfile", "capabilities", "readOnlyRootFilesystem", "privileged",
    "allowPrivilegeEscalation", "procMount", "runAsUser", "runAsGroup",
)  # fmt: skip
_SET_IF_TRUE = frozenset({"sysctls", "hostPID", "hostIPC"})
"""Fields that count as missing if they are empty or false."""


def validate_operating_system(spec: JSONObject, path: FieldPath) -> list[FieldError]:
    """Validate the operating system of a Pod, and that it has what is set."""
    name = spec["os"].get("name", "")
    if not name:
        return [required(path / "os" / "name")]
    if name not in {"linux", "windows"}:
        return [not_supported(path / "os", json_text(name), ("linux", "windows"))]
    return list((_validate_windows if name == "windows" else _validate_linux)(spec, path))


def _contexts(spec: JSONObject, path: FieldPath) -> Iterator[tuple[JSONObject, FieldPath]]:
    for container, place in visit_containers(spec, path):
        if context := container.get("securityContext"):
            yield context, place / "securityContext"


def _validate_linux(spec: JSONObject, path: FieldPath) -> Iterator[FieldError]:
    of_pod = (spec.get("securityContext") or {}, path / "securityContext")
    for context, place in (of_pod, *_contexts(spec, path)):
        if context.get("windowsOptions") is not None:
            yield forbidden(place / "windowsOptions", "windows options cannot be set for a linux pod")


def _validate_windows(spec: JSONObject, path: FieldPath) -> Iterator[FieldError]:
    yield from _refused(spec.get("securityContext") or {}, _OF_LINUX_PODS, path / "securityContext")
    yield from _refused(spec, _OF_LINUX_SPECS, path)
    for context, place in _contexts(spec, path):
        yield from _refused(context, _OF_LINUX_CONTAINERS, place)


def _refused(holder: JSONObject, fields: Sequence[str], path: FieldPath) -> Iterator[FieldError]:
    for field in fields:
        value = holder.get(field)
        if value is not None and (value or field not in _SET_IF_TRUE):
            yield forbidden(path / field, "cannot be set for a windows pod")


# Options of Windows

_MAX_CREDENTIAL, _MAX_DOMAIN, _MAX_USER = 64 * 1024, 256, 104
_CONTROL = pattern(r"[\x00-\x1f\x7f]")
_NETBIOS = pattern(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}')
_DNS_LABEL = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_DNS = pattern(rf"{_DNS_LABEL}(?:\.{_DNS_LABEL})*")
_DOTS_OR_SPACES = pattern("[. ]+")
_NOT_IN_USERS = pattern(r'["/\\:;|=,+*?<>@\[\]]')


def validate_windows_options(options: JSONObject | None, path: FieldPath) -> list[FieldError]:
    """Validate options of Windows in a security context: ``validateWindowsSecurityContextOptions``."""
    if not options:
        return []
    name, credential, user = (
        options.get(field) for field in ("gmsaCredentialSpecName", "gmsaCredentialSpec", "runAsUserName")
    )
    errors = []
    if name is not None:
        messages = names.check_dns1123_subdomain(name)
        errors += [invalid(path / "gmsaCredentialSpecName", json_text(name), message) for message in messages]
    if credential is not None:
        place = path / "gmsaCredentialSpec"
        if not credential:
            errors.append(invalid(place, credential, "gmsaCredentialSpec cannot be an empty string"))
        elif len(credential.encode()) > _MAX_CREDENTIAL:
            errors.append(invalid(place, credential, "gmsaCredentialSpec size must be under 64 KiB"))
    if user is not None:
        errors += [invalid(path / "runAsUserName", json_text(user), message) for message in _check_user(user)]
    return errors


def _check_user(name: str) -> list[str]:
    if not name:
        return ["runAsUserName cannot be an empty string"]
    if _CONTROL.search(name):
        return ["runAsUserName cannot contain control characters"]
    if name.count("\\") > 1:
        return ["runAsUserName cannot contain more than one backslash"]
    domain, backslash, user = name.rpartition("\\")
    messages = []
    if len(domain.encode()) >= _MAX_DOMAIN:
        messages.append(f"runAsUserName's Domain length must be under {_MAX_DOMAIN} characters")
    if backslash and not (_NETBIOS.fullmatch(domain) or _DNS.fullmatch(domain)):
        messages.append("runAsUserName's Domain doesn't match the NetBios nor the DNS format")
    if not user:
        messages.append("runAsUserName's User cannot be empty")
    elif len(user.encode()) > _MAX_USER:
        messages.append(f"runAsUserName's User length must not be longer than {_MAX_USER} characters")
    if _DOTS_OR_SPACES.fullmatch(user):
        messages.append("runAsUserName's User cannot contain only periods or spaces")
    if _NOT_IN_USERS.search(user):
        characters = '"/\\:;|=,+*?<>@[]'
        messages.append(f"runAsUserName's User cannot contain the following characters: {characters}")
    return messages


def _host_process(holder: JSONObject) -> bool | None:
    options = (holder.get("securityContext") or {}).get("windowsOptions") or {}
    is_host_process: bool | None = options.get("hostProcess")
    return is_host_process


def validate_host_processes(spec: JSONObject, path: FieldPath) -> list[FieldError]:
    """Validate that all containers are processes of the host, or none: ``validateWindowsHostProcessPod``."""
    holders = (spec, *(container for field in CONTAINER_FIELDS for container in spec.get(field) or ()))
    if all(_host_process(holder) is None for holder in holders if holder.get("securityContext")):
        return []
    of_pod, errors, found = _host_process(spec), [], []
    for container, place in visit_containers(spec, path):
        own = _host_process(container)
        if of_pod is not None and own is not None and of_pod != own:
            shown = "true" if of_pod else "false"
            detail = f"pod hostProcess value must be identical if both are specified, was {shown}"
            field = place / "securityContext" / "windowsOptions" / "hostProcess"
            errors.append(invalid(field, own, detail))
        found.append(bool(of_pod if own is None else own))
    if not any(found):
        return errors
    if not all(found):
        detail = (
            "If pod contains any hostProcess containers then all containers must be HostProcess containers"
        )
        errors.append(invalid(path, "", detail))
    if not spec.get("hostNetwork"):
        detail = "hostNetwork must be true if pod contains any hostProcess containers"
        errors.append(invalid(path / "hostNetwork", False, detail))
    return errors
