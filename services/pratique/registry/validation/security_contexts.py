"""Security contexts of Pods and containers.

Source: ``ValidateSecurityContext`` and ``validatePodSpecSecurityContext`` of
``pkg/apis/core/validation/validation.go``.
"""

from __future__ import annotations

from pratique.apimachinery.field_errors import (
    FieldError,
    FieldPath,
    invalid,
    not_supported,
    required,
)
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.registry.validation.volumes import validate_descending_path

_MAX_ID = 2**31 - 1
_ID_MESSAGE = f"must be between 0 and {_MAX_ID}, inclusive"
_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
_PROC_MOUNTS = ("Default", "Unmasked")


def _validate_id(value: JSON, path: FieldPath) -> list[FieldError]:
    return [] if value is None or 0 <= value <= _MAX_ID else [invalid(path, value, _ID_MESSAGE)]


def validate_security_context(context: JSONObject, path: FieldPath, *, host_users: bool) -> list[FieldError]:
    """Validate the security context of a container."""
    errors = _validate_id(context.get("runAsUser"), path / "runAsUser")
    errors += _validate_id(context.get("runAsGroup"), path / "runAsGroup")
    mount, place = context.get("procMount"), path / "procMount"
    if mount is not None:
        if mount not in _PROC_MOUNTS:
            errors.append(not_supported(place, mount, _PROC_MOUNTS))
        if mount == "Unmasked" and host_users:
            errors.append(invalid(place, mount, "`hostUsers` must be false to use `Unmasked`"))
    errors += _validate_seccomp(context.get("seccompProfile"), path / "seccompProfile")
    if context.get("allowPrivilegeEscalation") is False and context.get("privileged") is True:
        detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        errors.append(invalid(path, context, detail))
    return errors + _validate_app_armor(context.get("appArmorProfile"), path / "appArmorProfile")


def validate_pod_security_context(context: JSONObject, path: FieldPath) -> list[FieldError]:
    """Validate the security context of a Pod."""
    errors = [
        error
        for name in ("fsGroup", "runAsUser", "runAsGroup")
        for error in _validate_id(context.get(name), path / name)
    ]
    for index, group in enumerate(context.get("supplementalGroups") or ()):
        errors += _validate_id(group, path / "supplementalGroups" / index)
    choices = (("fsGroupChangePolicy", ("Always", "OnRootMismatch")),)
    for name, known in choices:
        value = context.get(name)
        if value is not None and value not in known:
            errors.append(not_supported(path / name, value, known))
    errors += _validate_seccomp(context.get("seccompProfile"), path / "seccompProfile")
    errors += _validate_app_armor(context.get("appArmorProfile"), path / "appArmorProfile")
    policy = context.get("supplementalGroupsPolicy")
    if policy is not None and policy not in {"Merge", "Strict"}:
        errors.append(not_supported(path / "supplementalGroupsPolicy", policy, ("Merge", "Strict")))
    return errors


def _validate_seccomp(profile: JSONObject | None, path: FieldPath) -> list[FieldError]:
    if profile is None:
        return []
    errors, file = _validate_profile(profile, path, "seccomp")
    return errors if file is None else errors + validate_descending_path(file, path / "localhostProfile")


def _validate_app_armor(profile: JSONObject | None, path: FieldPath) -> list[FieldError]:
    if profile is None:
        return []
    errors, file = _validate_profile(profile, path, "AppArmor")
    if file is None:
        return errors
    if file.strip() != file:
        errors.append(invalid(path / "localhostProfile", file, "must not be padded with whitespace"))
    elif not file:
        errors.append(required(path / "localhostProfile", "must be set when AppArmor type is Localhost"))
    return errors


_FIELDS = {"seccomp": "seccompProfile", "AppArmor": "appArmorProfile"}


def _validate_profile(profile: JSONObject, path: FieldPath, of: str) -> tuple[list[FieldError], str | None]:
    """The errors of a profile, and the file that it has if it may have one."""
    type_, file = profile.get("type", ""), profile.get("localhostProfile")
    place = path / "localhostProfile"
    if not type_:
        return [required(path / "type", f"type is required when {_FIELDS[of]} is set")], None
    if type_ not in _PROFILES:
        return [not_supported(path / "type", type_, _PROFILES)], None
    if type_ == "Localhost" and file is None:
        return [required(place, f"must be set when {of} type is Localhost")], None
    if type_ != "Localhost" and file is not None:
        return [invalid(place, file, f"can only be set when {of} type is Localhost")], None
    return [], file
