"""What the API server says of a configuration's metadata.

Source: ``k8s.io/apimachinery/pkg/api/validation/objectmeta.go``; what only an API server writes there, such
as finalizers and owners, is not looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique import names
from pratique.field_errors import FieldError, FieldPath, forbidden, invalid, required, too_long
from pratique.selector_validations import validate_labels

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pratique.configurations.webhooks import ObjectMeta

_MAXIMUM_ANNOTATIONS = 256 * 1024  # bytes of all keys and values together


def validate_metadata(metadata: ObjectMeta, path: FieldPath) -> list[FieldError]:
    """Check the metadata of an object that is cluster-scoped and whose name is a DNS subdomain."""
    errors = []
    if not metadata.name:
        errors.append(required(path / "name", "name or generateName is required"))
    else:
        messages = names.check_dns1123_subdomain(metadata.name)
        errors += [invalid(path / "name", metadata.name, message) for message in messages]
    if metadata.namespace:
        errors.append(forbidden(path / "namespace", "not allowed on this type"))
    errors += validate_labels(metadata.labels, path / "labels")
    return errors + _validate_annotations(metadata.annotations, path / "annotations")


def _validate_annotations(annotations: Mapping[str, str], path: FieldPath) -> list[FieldError]:
    errors = [
        invalid(path, key, message)
        for key in sorted(annotations)
        for message in names.check_qualified_name(key.lower())
    ]
    size = sum(len(text.encode()) for pair in annotations.items() for text in pair)
    if size > _MAXIMUM_ANNOTATIONS:
        errors.append(too_long(path, _MAXIMUM_ANNOTATIONS))
    return errors
