"""Names of devices, pools, requests and attributes, and taints and tolerations of devices.

Source: ``k8s.io/kubernetes/pkg/apis/resource/validation/validation.go``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import msgspec

from pratique.apimachinery import names
from pratique.apimachinery.field_errors import (
    FieldError,
    FieldPath,
    covered,
    duplicate,
    invalid,
    not_supported,
    quoted_text,
    required,
    too_long,
    too_many,
)
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.apimachinery.patterns import pattern
from pratique.registry.validation.csi_objects import validate_driver_name

_LONGEST_IDENTIFIER, _LONGEST_POOL = 32, 253
_IDENTIFIER = pattern(r"[A-Za-z_][A-Za-z0-9_]*")
_NO_IDENTIFIER = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters "
    "or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')"
)


def with_origin(errors: Sequence[FieldError], origin: str) -> list[FieldError]:
    """Say which check found errors: ``WithOrigin``."""
    return [msgspec.structs.replace(error, origin=origin) for error in errors]


def validate_label_name(name: str, path: FieldPath) -> list[FieldError]:
    """Validate the name of a device or of a request, a DNS label."""
    errors = [invalid(path, name, message) for message in names.check_dns1123_label(name)]
    return with_origin(errors, "format=k8s-short-name")


def validate_class_name(name: str, path: FieldPath) -> list[FieldError]:
    """Validate a reference to a DeviceClass: ``validateDeviceClass``."""
    if not name:
        return [required(path)]
    errors = [invalid(path, name, message) for message in names.check_dns1123_subdomain(name)]
    return with_origin(errors, "format=k8s-long-name")


def validate_pool_name(name: str, path: FieldPath) -> list[FieldError]:
    """Validate the name of a pool, subdomains between slashes: ``validatePoolName``."""
    if not name:
        return [required(path)]
    errors = [too_long(path, _LONGEST_POOL)] if len(name.encode()) > _LONGEST_POOL else []
    for part in name.split("/"):
        errors += [invalid(path, part, message) for message in names.check_dns1123_subdomain(part)]
    return with_origin(errors, "format=k8s-resource-pool-name")


def validate_attribute_name(name: str, path: FieldPath) -> list[FieldError]:
    """Validate the name of an attribute or capacity, ``[domain/]name``: ``validateQualifiedName``."""
    parts = name.split("/")
    if len(parts) == 1:
        return _validate_identifier(name, path)
    if len(parts) > 2:
        return []  # the API server forgets these
    domain, identifier = parts
    errors = (
        validate_driver_name(domain, path) if domain else [invalid(path, "", "the domain must not be empty")]
    )
    if not identifier:
        return [*errors, invalid(path, "", "the name must not be empty")]
    return errors + _validate_identifier(identifier, path)


def validate_full_attribute_name(name: str, path: FieldPath) -> list[FieldError]:
    """Validate the name of an attribute with its domain: ``validateFullyQualifiedName``."""
    errors = validate_attribute_name(name, path)
    if "/" not in name:
        detail = "a fully qualified name must be a domain and a name separated by a slash"
        errors.append(invalid(path, quoted_text(name), detail))
    return with_origin(errors, "format=k8s-resource-fully-qualified-name")


def _validate_identifier(name: str, path: FieldPath) -> list[FieldError]:
    errors = [too_long(path, _LONGEST_IDENTIFIER)] if len(name.encode()) > _LONGEST_IDENTIFIER else []
    return (
        errors if _IDENTIFIER.fullmatch(name) else [*errors, invalid(path, quoted_text(name), _NO_IDENTIFIER)]
    )


def validate_distinct(
    items: Sequence[Any],
    maximum: int | None,
    validate: Callable[[Any, FieldPath], list[FieldError]],
    key: Callable[[Any], Hashable],
    path: FieldPath,
    *,
    is_covered: bool = True,
) -> list[FieldError]:
    """Validate the items of a list, which must be distinct by a key: ``validateSet``.

    Args:
        items: The list.
        maximum: How many there may be; None if any number.
        validate: Validates one.
        key: What tells them apart.
        path: Where the list stands.
        is_covered: Whether tags of the field's type check the size and the keys.
    """
    mark = covered if is_covered else _as_they_are
    if maximum is not None and len(items) > maximum:
        return mark(with_origin([too_many(path, len(items), maximum)], "maxItems"))
    errors = [error for index, item in enumerate(items) for error in validate(item, path / index)]
    seen: set[Hashable] = set()
    for index, item in enumerate(items):
        value: JSON = key(item)
        if value in seen:
            errors += mark([duplicate(path / index, value)])
        seen.add(value)
    return errors


def _as_they_are(errors: list[FieldError]) -> list[FieldError]:
    return errors


EFFECTS = ("NoExecute", "NoSchedule", "None")
"""The effects of taints of devices."""
_OPERATORS = ("Equal", "Exists")


def validate_taint(taint: JSONObject, old: JSONObject | None, path: FieldPath) -> list[FieldError]:
    """Validate a taint; an effect that was stored is not validated again: ``validateDeviceTaint``."""
    key, value, effect = taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")
    errors = [invalid(path / "key", key, message) for message in names.check_qualified_name(key)]
    errors = with_origin(errors, "format=k8s-label-key")
    errors += _validate_label_value(value, path / "value") if value else []
    if old is not None and old.get("effect", "") == effect:
        return errors
    if not effect:
        return errors + covered(required(path / "effect"))
    return errors + ([] if effect in EFFECTS else covered(not_supported(path / "effect", effect, EFFECTS)))


def validate_toleration(toleration: JSONObject, path: FieldPath) -> list[FieldError]:
    """Validate a toleration: ``validateDeviceToleration``."""
    key, value, effect = (toleration.get(field, "") for field in ("key", "value", "effect"))
    errors: list[FieldError] = []
    if key:
        found = [invalid(path / "key", key, message) for message in names.check_qualified_name(key)]
        errors += covered(found, "format=k8s-label-key")
    match toleration.get("operator", ""):
        case "Exists":
            detail = "must be empty for operator `Exists`"
            errors += [invalid(path / "value", value, detail)] if value else []
        case "Equal":
            errors += _validate_label_value(value, path / "value")
        case "":
            errors += covered(required(path / "operator"))
        case operator:
            errors += covered(not_supported(path / "operator", operator, _OPERATORS))
    if effect and effect not in EFFECTS:
        errors += covered(not_supported(path / "effect", effect, EFFECTS))
    return errors


def _validate_label_value(value: str, path: FieldPath) -> list[FieldError]:
    return [invalid(path, value, message) for message in names.check_label_value(value)]
