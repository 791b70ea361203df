"""Annotations of Pods that say what fields say now, or what is asked of them.

Source: ``ValidatePodSpecificAnnotations``, ``validateSeccompAnnotationsAndFields`` and
``validateAppArmorAnnotationsAndFieldsMatchOnCreate`` of ``pkg/apis/core/validation/validation.go``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from pratique.apimachinery.field_errors import FieldError, FieldPath, forbidden, invalid
from pratique.apimachinery.json_reading import syntax_error
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.prepared_types import prepared
from pratique.apimachinery.statuses import go_quoted
from pratique.pods.pod_spec import APP_ARMOR_ANNOTATION, MIRROR_ANNOTATION
from pratique.registry.validation.pod_context import PodOptions, visit_containers
from pratique.registry.validation.scheduling_constraints import validate_tolerations
from pratique.registry.validation.volume_paths import validate_descending_path

_TOLERATIONS = "scheduler.alpha.kubernetes.io/tolerations"
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_SECCOMP_OF_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_OF_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
_LOCALHOST = "localhost/"
_INTEGER = pattern("0|-[0-9]+|[1-9][0-9]*", re.ASCII)


def is_deletion_cost(annotations: Mapping[str, str]) -> bool:
    """Tell whether the cost of a deletion, if there is one, is a number of 32 bits."""
    text = annotations.get(_DELETION_COST)
    if text is None:
        return True
    return _INTEGER.fullmatch(text) is not None and len(text) < 40 and -(2**31) <= int(text) < 2**31


def validate_pod_annotations(
    annotations: Mapping[str, str], spec: JSONObject, path: FieldPath, options: PodOptions
) -> list[FieldError]:
    """Validate the annotations of a Pod or template."""
    errors = []
    if MIRROR_ANNOTATION in annotations and not spec.get("nodeName"):
        detail = "must set spec.nodeName if mirror pod annotation is set"
        errors.append(invalid(path.key(MIRROR_ANNOTATION), annotations[MIRROR_ANNOTATION], detail))
    if text := annotations.get(_TOLERATIONS):
        errors += _validate_tolerations(text, path, options)
    if not options.invalid_deletion_cost and not is_deletion_cost(annotations):
        place = path.key(_DELETION_COST)
        errors.append(invalid(place, annotations[_DELETION_COST], "must be a 32bit integer"))
    if _SECCOMP_OF_POD in annotations:
        errors += _validate_seccomp(annotations[_SECCOMP_OF_POD], path / _SECCOMP_OF_POD)
    for key in sorted(annotations):
        if key.startswith(_SECCOMP_OF_CONTAINER):
            errors += _validate_seccomp(annotations[key], path / key)
    for key in sorted(annotations):
        if key.startswith(APP_ARMOR_ANNOTATION):
            errors += _validate_app_armor(key, annotations[key], spec, path.key(key))
    return errors


def _validate_tolerations(text: str, path: FieldPath, options: PodOptions) -> list[FieldError]:
    if problem := syntax_error(text.encode()):
        return [invalid(path, _TOLERATIONS, problem)]
    try:
        # Go finds fields of the internal type, whatever their case.
        tolerations = [
            {name[:1].lower() + name[1:]: value for name, value in item.items()}
            for item in msgspec.json.decode(text, type=prepared(list[dict[str, str | int | None]] | None))
            or ()
        ]
    except msgspec.DecodeError:
        return []
    place = path / _TOLERATIONS
    allow = options.comparing_tolerations
    return validate_tolerations(tolerations, place, allow_comparisons=allow, is_covered=False)


def _validate_seccomp(profile: str, path: FieldPath) -> list[FieldError]:
    if profile in {"runtime/default", "docker/default", "unconfined"}:
        return []
    if profile.startswith(_LOCALHOST):
        return validate_descending_path(profile.removeprefix(_LOCALHOST), path)
    return [invalid(path, profile, "must be a valid seccomp profile")]


def _validate_app_armor(key: str, profile: str, spec: JSONObject, path: FieldPath) -> list[FieldError]:
    name, errors = key.removeprefix(APP_ARMOR_ANNOTATION), []
    if all(container.get("name", "") != name for container, _ in visit_containers(spec, path)):
        errors.append(invalid(path, name, "container not found"))
    if profile not in {"", "runtime/default", "unconfined"} and not profile.startswith(_LOCALHOST):
        errors.append(invalid(path, profile, f"invalid AppArmor profile name: {go_quoted(profile)}"))
    return errors


# Annotations beside fields

_SECCOMP_VALUES = {"Unconfined": ("unconfined",), "RuntimeDefault": ("runtime/default", "docker/default")}
_APP_ARMOR_VALUES = {"Unconfined": ("unconfined",), "RuntimeDefault": ("runtime/default",)}


def validate_profiles_match(
    annotations: Mapping[str, str], spec: JSONObject, path: FieldPath
) -> list[FieldError]:
    """Validate that annotations and fields for seccomp, and those for AppArmor, say the same."""
    if not any(key == _SECCOMP_OF_POD or key.startswith(_PREFIXES) for key in annotations):
        return []
    return [*_seccomp_mismatches(annotations, spec, path), *_app_armor_mismatches(annotations, spec, path)]


_PREFIXES = (_SECCOMP_OF_CONTAINER, APP_ARMOR_ANNOTATION)


def _own(holder: JSONObject, field: str) -> JSONObject | None:
    profile: JSONObject | None = (holder.get("securityContext") or {}).get(field)
    return profile


def _seccomp_mismatches(
    annotations: Mapping[str, str], spec: JSONObject, path: FieldPath
) -> Iterator[FieldError]:
    holders = [(_SECCOMP_OF_POD, spec, path)] + [
        (f"{_SECCOMP_OF_CONTAINER}{container.get('name', '')}", container, place)
        for container, place in visit_containers(spec, path)
    ]
    for key, holder, place in holders:
        profile = _own(holder, "seccompProfile")
        if profile is not None and key in annotations:
            where = place / "securityContext" / "seccompProfile"
            yield from _mismatch(profile, annotations[key], where, _SECCOMP_VALUES, "seccomp")


def _app_armor_mismatches(
    annotations: Mapping[str, str], spec: JSONObject, path: FieldPath
) -> Iterator[FieldError]:
    if (spec.get("os") or {}).get("name") == "windows":
        return
    of_pod = _own(spec, "appArmorProfile")
    for container, place in visit_containers(spec, path):
        profile = _own(container, "appArmorProfile")
        profile = of_pod if profile is None else profile
        key = f"{APP_ARMOR_ANNOTATION}{container.get('name', '')}"
        if profile is not None and key in annotations:
            where = place / "securityContext" / "appArmorProfile"
            yield from _mismatch(profile, annotations[key], where, _APP_ARMOR_VALUES, "apparmor")


def _mismatch(
    profile: JSONObject, annotation: str, path: FieldPath, values: Mapping[str, tuple[str, ...]], title: str
) -> Iterator[FieldError]:
    type_ = profile.get("type", "")
    is_localhost = type_ == "Localhost"
    matches = (
        annotation.startswith(_LOCALHOST) if is_localhost else annotation in values.get(type_, (annotation,))
    )
    if not matches:
        yield forbidden(path / "type", f"{title} type in annotation and field must match")
    elif is_localhost and annotation.removeprefix(_LOCALHOST) != profile.get("localhostProfile"):
        yield forbidden(path / "localhostProfile", f"{title} profile in annotation and field must match")
