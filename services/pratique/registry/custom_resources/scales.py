"""The replicas and the label selector of custom resources that can be scaled, and warnings of finalizers.

Source: ``ValidateScaleSpec``, ``ValidateScaleStatus`` and ``validateKubeFinalizerName`` of
``k8s.io/apiextensions-apiserver/pkg/registry/customresource/validator.go``, and
``k8s.io/apimachinery/pkg/apis/meta/v1/unstructured/helpers.go``.
"""

from __future__ import annotations

from collections.abc import Iterator

from pratique.apimachinery import names
from pratique.apimachinery.field_errors import FieldError, FieldPath, invalid
from pratique.apimachinery.go_formats import go_text, go_type_of
from pratique.apimachinery.json_values import JSON, JSONObject, list_at
from pratique.apimachinery.statuses import go_quoted

_MAX_INT32 = 2**31 - 1


class _AccessorError(Exception):
    """A field has the wrong type, in Go's words."""


def accessor_error(path: str, value: JSON, wanted: str) -> str:
    """What Go says of a field that has another type than wanted."""
    return f"{path} accessor error: {go_text(value)} is of the type {go_type_of(value)}, expected {wanted}"


def _nested(value: JSON, path: str) -> JSON:
    """A field of an object; None if it is missing: ``NestedFieldNoCopy``."""
    steps = path.removeprefix(".").split(".")
    for place, step in enumerate(steps):
        if value is None:
            return None
        if not isinstance(value, dict):
            raise _AccessorError(
                accessor_error("." + ".".join(steps[: place + 1]), value, "map[string]interface{}")
            )
        value = value.get(step)
    return value


def _nested_of(value: JSON, path: str, type_: type, wanted: str) -> JSON:
    found = _nested(value, path)
    if found is not None and type(found) is not type_:
        raise _AccessorError(accessor_error("." + path.removeprefix("."), found, wanted))
    return found


def with_replicas(written: JSONObject, path: str, replicas: int) -> JSONObject:
    """A custom resource with another number of replicas; the same one if there is no such field: ``SetNestedField``."""
    steps = path.removeprefix(".").split(".")

    def changed(value: JSON, place: int) -> JSON:
        inner = value if isinstance(value, dict) else {}
        name = steps[place]
        new = replicas if place == len(steps) - 1 else changed(inner.get(name), place + 1)
        return {**inner, name: new}

    scaled: JSONObject = changed(written, 0) if steps[0] else written
    return scaled


def validate_scale(written: JSONObject, scale: JSONObject) -> Iterator[FieldError]:
    """Validate the fields that the subresource ``scale`` reads."""
    yield from _validate_replicas(written, scale.get("specReplicasPath") or "")
    yield from validate_scale_status(written, scale)


def validate_scale_status(written: JSONObject, scale: JSONObject) -> Iterator[FieldError]:
    """Validate those fields of them that the status has: ``ValidateScaleStatus``."""
    yield from _validate_replicas(written, scale.get("statusReplicasPath") or "")
    selector = scale.get("labelSelectorPath")
    if selector is not None:
        try:
            _nested_of(written, selector, str, "string")
        except _AccessorError as error:
            yield invalid(FieldPath((selector,)), "", str(error))


def _validate_replicas(written: JSONObject, path: str) -> Iterator[FieldError]:
    at = FieldPath((path,))
    try:
        replicas = _nested_of(written, path, int, "int64") or 0
    except _AccessorError as error:
        yield invalid(at, 0, str(error))
        return
    if replicas < 0:
        yield invalid(at, replicas, "should be a non-negative integer")
    elif replicas > _MAX_INT32:
        yield invalid(at, replicas, f"should be less than or equal to {_MAX_INT32}")


_STANDARD_FINALIZERS = frozenset({"orphan", "foregroundDeletion", "kubernetes"})


def finalizer_warnings(written: JSONObject, old: JSONObject | None) -> Iterator[str]:
    """Warn of the names of new finalizers: ``generateWarningsFromObj``."""
    found = set(list_at(written, "metadata", "finalizers"))
    if found:
        for name in sorted(found - set(list_at(old, "metadata", "finalizers"))):
            yield from _warnings_of(name)


def _warnings_of(name: str) -> Iterator[str]:
    start = f"metadata.finalizers: {go_quoted(name)}: "
    for problem in names.check_qualified_name(name):
        yield start + problem
    if "/" not in name and name not in _STANDARD_FINALIZERS:
        path = " including a path (/)" if "." in name else ""
        yield (
            f"{start}prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer"
            " writers"
        )
