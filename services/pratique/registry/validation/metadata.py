"""Metadata, names, labels, annotations and label selectors.

Sources: ``pkg/api/validation/{generic,objectmeta}.go`` and ``pkg/apis/meta/v1/validation/validation.go`` of
``k8s.io/apimachinery``, and ``ValidateObjectMeta`` of ``pkg/apis/core/validation/validation.go``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from pratique.apimachinery import names
from pratique.apimachinery.field_errors import (
    FieldError,
    FieldPath,
    covered,
    forbidden,
    invalid,
    json_text,
    not_supported,
    required,
    too_long,
)
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.apimachinery.selectors import (
    DOES_NOT_EXIST,
    EXISTS,
    IN,
    NOT_IN,
    validate_label_name,
    validate_labels,
)

NameRule: TypeAlias = Callable[[str, bool], list[str]]
"""Returns what is wrong with a name; the second argument says whether it is the start of a generated one."""


def _masked(name: str, is_prefix: bool) -> str:  # noqa: FBT001 - as a NameRule
    """A prefix as a name that it may become: ``maskTrailingDash``, which takes two characters off."""
    return name[:-2] + "a" if is_prefix and len(name) > 1 and name.endswith("-") else name


def subdomain_name(name: str, is_prefix: bool) -> list[str]:  # noqa: FBT001 - the shape of a NameRule
    """A DNS subdomain, which most names are: ``NameIsDNSSubdomain``."""
    return names.check_dns1123_subdomain(_masked(name, is_prefix))


def label_name(name: str, is_prefix: bool) -> list[str]:  # noqa: FBT001 - the shape of a NameRule
    """A DNS label, as of Namespaces and Services: ``NameIsDNSLabel``."""
    return names.check_dns1123_label(_masked(name, is_prefix))


def path_segment_name(name: str, is_prefix: bool) -> list[str]:  # noqa: FBT001 - the shape of a NameRule
    """Anything that fits into a URL's path, as of roles: ``ValidatePathSegmentName``."""
    if is_prefix:
        return [f"may not contain '{character}'" for character in "/%" if character in name]
    return names.check_path_segment(name)


def validate_metadata(
    metadata: JSONObject,
    name_rule: NameRule,
    path: FieldPath,
    *,
    namespaced: bool,
    standard_finalizers: bool = True,
) -> list[FieldError]:
    """Validate the metadata of a new object: ``ValidateObjectMeta``.

    Args:
        metadata: The metadata.
        name_rule: What names of the kind look like.
        path: The path to the metadata.
        namespaced: Whether objects of the kind are in namespaces.
        standard_finalizers: Whether finalizers without a domain have to be Kubernetes' own, as in built-in kinds.
    """
    errors = []
    prefix, name = metadata.get("generateName"), metadata.get("name")
    if prefix:
        errors += [invalid(path / "generateName", prefix, message) for message in name_rule(prefix, True)]
    if name:
        errors += [invalid(path / "name", name, message) for message in name_rule(name, False)]
    elif not prefix:
        errors.append(required(path / "name", "name or generateName is required"))
    errors += _validate_namespace(metadata.get("namespace"), path, namespaced=namespaced)
    errors += _validate_generation(metadata, path)
    errors += _validate_maps(metadata, path)
    finalizers = metadata.get("finalizers")
    if finalizers:
        errors += _validate_finalizers(finalizers, path / "finalizers")
    if managed := metadata.get("managedFields"):
        errors += validate_managed_fields(managed, path / "managedFields")
    if finalizers and standard_finalizers:
        errors += validate_standard_finalizers(finalizers, path / "finalizers")
    return errors


_FILLED_IN = ("uid", "creationTimestamp")
"""What every stored object has, though one that comes in a file may be without it."""
_OF_DELETION = ("deletionTimestamp", "deletionGracePeriodSeconds")


def validate_metadata_update(
    metadata: JSONObject, old: JSONObject, path: FieldPath, *, standard_finalizers: bool = True
) -> list[FieldError]:
    """Validate what an update makes of metadata: ``ValidateObjectMetaUpdate``.

    A missing ``resourceVersion`` is no error: who updates without one means the stored object.
    """
    errors = []
    finalizers = metadata.get("finalizers") or []
    if old.get("deletionTimestamp") is not None:
        errors += _validate_no_new_finalizers(finalizers, old.get("finalizers") or [], path / "finalizers")
    errors += _validate_generation(metadata, path)
    generation = metadata.get("generation", 0)
    if generation < old.get("generation", 0):
        errors.append(invalid(path / "generation", generation, "must not be decremented"))
    errors += validate_immutable(metadata.get("name", ""), old.get("name", ""), path / "name")
    errors += validate_immutable(metadata.get("namespace", ""), old.get("namespace", ""), path / "namespace")
    before = {name: metadata.get(name) for name in _FILLED_IN} | old
    for name in (*_FILLED_IN, *_OF_DELETION):
        if name in metadata and metadata[name] != before.get(name):
            errors += covered(invalid(path / name, metadata[name], FIELD_IS_IMMUTABLE), "immutable")
    errors += _validate_maps(metadata, path)
    errors += validate_managed_fields(metadata.get("managedFields") or (), path / "managedFields")
    if standard_finalizers:
        errors += validate_standard_finalizers(finalizers, path / "finalizers")
    return errors


FIELD_IS_IMMUTABLE = "field is immutable"


def validate_immutable(value: JSON, old: JSON, path: FieldPath) -> list[FieldError]:
    """Refuse a change of a scalar, list or map: ``ValidateImmutableField``.

    An empty list or map is the same as none. Pass a text that cannot be null in Go as ``""``, not as None.
    """
    is_same = value == old or (value in _NOTHING and old in _NOTHING)
    return [] if is_same else [invalid(path, value, FIELD_IS_IMMUTABLE)]


_NOTHING: tuple[JSON, ...] = (None, [], {})


def validate_immutable_pointer(value: str | None, old: str | None, path: FieldPath) -> list[FieldError]:
    """Refuse a change of a text that Go points to, which prints as JSON: ``ValidateImmutableField``."""
    printed = None if value is None else json_text(value)
    return [] if value == old else [invalid(path, printed, FIELD_IS_IMMUTABLE)]


def validate_nonnegative(value: JSON, path: FieldPath) -> list[FieldError]:
    """Refuse numbers below 0: ``ValidateNonnegativeField``."""
    if value is None or value >= 0:
        return []
    return [invalid(path, value, "must be greater than or equal to 0")]


def _validate_namespace(namespace: JSON, path: FieldPath, *, namespaced: bool) -> list[FieldError]:
    if not namespaced:
        return [forbidden(path / "namespace", "not allowed on this type")] if namespace else []
    if not namespace:
        return [required(path / "namespace")]
    return [invalid(path / "namespace", namespace, message) for message in label_name(namespace, False)]


def _validate_generation(metadata: JSONObject, path: FieldPath) -> list[FieldError]:
    generation = metadata.get("generation", 0)
    return covered(validate_nonnegative(generation, path / "generation"), "minimum") if generation < 0 else []


def _validate_maps(metadata: JSONObject, path: FieldPath) -> list[FieldError]:
    errors = []
    if labels := metadata.get("labels"):
        errors += validate_labels(labels, path / "labels")
    if annotations := metadata.get("annotations"):
        errors += validate_annotations(annotations, path / "annotations")
    if references := metadata.get("ownerReferences"):
        errors += _validate_owner_references(references, path / "ownerReferences")
    return errors


MAX_ANNOTATIONS_SIZE = 256 * 1024
"""Bytes of all keys and values together: ``TotalAnnotationSizeLimitB``."""


def validate_annotations(annotations: Mapping[str, str], path: FieldPath) -> list[FieldError]:
    """Validate annotations, in the order of their keys: ``ValidateAnnotations``."""
    errors = [
        invalid(path, key, message)
        for key in sorted(annotations)
        for message in names.check_qualified_name(key.lower())
    ]
    if annotations_size(annotations) > MAX_ANNOTATIONS_SIZE:
        errors.append(too_long(path, MAX_ANNOTATIONS_SIZE))
    return errors


def annotations_size(annotations: Mapping[str, str]) -> int:
    """The bytes of annotations: of all keys and values together."""
    return sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())


def validate_template_metadata(metadata: JSONObject, path: FieldPath) -> list[FieldError]:
    """Validate metadata of a template, which may have annotations and labels: ``ValidateTemplateObjectMeta``."""
    errors = validate_annotations(metadata.get("annotations") or {}, path / "annotations")
    errors += validate_labels(metadata.get("labels") or {}, path / "labels")
    return errors + [
        forbidden(path / _GO_NAMES.get(field, field), "cannot be set")
        for field in _OTHER_METADATA
        if metadata.get(field) or (field in _NILLABLE and metadata.get(field) is not None)
    ]


_NILLABLE = frozenset(
    {"deletionTimestamp", "deletionGracePeriodSeconds", "ownerReferences", "finalizers", "managedFields"}
)
"""Fields that are set even if they are empty."""


_OTHER_METADATA = (
    "name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation", "creationTimestamp",
    "deletionTimestamp", "deletionGracePeriodSeconds", "ownerReferences", "finalizers", "managedFields",
)  # fmt: skip
_GO_NAMES = {"uid": "uID"}
"""Fields that errors name after those of Go."""

_OWNER_FIELDS = ("kind", "name", "uid")


def _validate_owner_references(references: Sequence[JSONObject], path: FieldPath) -> list[FieldError]:
    errors: list[FieldError] = []
    first = ""
    for index, reference in enumerate(references):
        errors += _validate_owner_reference(reference, path / index)
        if reference.get("controller") is not True:
            continue
        found = f"{reference.get('kind', '')}/{reference.get('name', '')}"
        if first:
            detail = 'Only one reference can have Controller set to true. Found "true" in references for'
            errors.append(invalid(path, list(references), f"{detail} {first} and {found}"))
        first = first or found
    return errors


def _validate_owner_reference(reference: JSONObject, path: FieldPath) -> list[FieldError]:
    errors = []
    api_version = reference.get("apiVersion", "")
    group, slash, version = api_version.rpartition("/")
    if not api_version:
        errors += covered(required(path / "apiVersion", "must not be empty"))
    elif not version or "/" in group or (slash and not version):
        message = "must be <group>/<version> or <version>"
        errors.append(invalid(path / "apiVersion", api_version, message))
    for name in _OWNER_FIELDS:
        if not reference.get(name):
            errors += covered(required(path / name, "must not be empty"))
    if (api_version, reference.get("kind")) == ("v1", "Event"):
        errors.append(invalid(path, reference, "/v1, Kind=Event is disallowed from being an owner"))
    return errors


_ORPHAN, _FOREGROUND = "orphan", "foregroundDeletion"
_STANDARD_FINALIZERS = frozenset({"kubernetes", _ORPHAN, _FOREGROUND})


def _validate_finalizers(finalizers: Sequence[str], path: FieldPath) -> list[FieldError]:
    errors = [
        invalid(path, finalizer, message)
        for finalizer in finalizers
        for message in names.check_qualified_name(finalizer)
    ]
    if _ORPHAN in finalizers and _FOREGROUND in finalizers:
        detail = f"finalizer {_ORPHAN} and {_FOREGROUND} cannot be both set"
        errors.append(invalid(path, list(finalizers), detail))
    return errors


def validate_standard_finalizers(finalizers: Sequence[str], path: FieldPath) -> list[FieldError]:
    """Refuse finalizers without a domain that are not Kubernetes' own: ``validateKubeFinalizerName``."""
    message = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        invalid(path / index, finalizer, message)
        for index, finalizer in enumerate(finalizers)
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS
    ]


def _validate_no_new_finalizers(
    finalizers: Iterable[str], old: Iterable[str], path: FieldPath
) -> list[FieldError]:
    added = sorted(set(finalizers) - set(old))
    if not added:
        return []
    quoted = ", ".join(f'"{finalizer}"' for finalizer in added)
    detail = "no new finalizers can be added if the object is being deleted, found new finalizers"
    return [forbidden(path, f"{detail} []string{{{quoted}}}")]


_MAX_MANAGER = 128
_MAX_SUBRESOURCE = 256


def validate_managed_fields(entries: Sequence[JSONObject], path: FieldPath) -> list[FieldError]:
    """Validate who manages which fields: ``ValidateManagedFields``."""
    errors: list[FieldError] = []
    for index, entry in enumerate(entries):
        place, operation = path / index, entry.get("operation", "")
        if not operation:
            errors += covered(required(place / "operation", "must not be empty"))
        elif operation not in {"Apply", "Update"}:
            errors += covered(not_supported(place / "operation", operation, ("Apply", "Update")))
        if entry.get("fieldsType", "") not in {"", "FieldsV1"}:
            errors.append(invalid(place / "fieldsType", entry["fieldsType"], "must be `FieldsV1`"))
        if len(entry.get("manager", "").encode()) > _MAX_MANAGER:
            errors.append(too_long(place / "manager", _MAX_MANAGER))
        errors += _unprintable(entry.get("manager", ""), place / "manager")
        if len(entry.get("subresource", "").encode()) > _MAX_SUBRESOURCE:
            errors.append(too_long(place / "subresource", _MAX_SUBRESOURCE))
    return errors


def _unprintable(manager: str, path: FieldPath) -> Iterator[FieldError]:
    """Refuse characters that cannot be shown: ``ValidateFieldManager``."""
    position = 0
    for character in manager:
        if not character.isprintable():
            detail = f"invalid character U+{ord(character):04X} (at position {position})"
            yield invalid(path, manager, detail)
        position += len(character.encode())


def validate_label_selector(
    selector: JSONObject | None, path: FieldPath, *, allow_invalid_values: bool = False
) -> list[FieldError]:
    """Validate a label selector as JSON; None is valid: ``ValidateLabelSelector``."""
    if not selector:
        return []
    errors = []
    if labels := selector.get("matchLabels"):
        errors += validate_labels(labels, path / "matchLabels")
    for index, requirement in enumerate(selector.get("matchExpressions") or ()):
        errors += validate_label_requirement(
            requirement, path / "matchExpressions" / index, allow_invalid_values=allow_invalid_values
        )
    return errors


def validate_label_requirement(
    requirement: JSONObject,
    path: FieldPath,
    *,
    allow_invalid_values: bool = False,
    allow_unknown_operator: bool = False,
) -> list[FieldError]:
    """Validate a requirement of a label selector: ``ValidateLabelSelectorRequirement``.

    Args:
        requirement: The requirement as JSON.
        path: The path to it.
        allow_invalid_values: Whether values need not be values of labels.
        allow_unknown_operator: Whether an operator may be any text, as that of a newer client is.
    """
    errors = validate_selector_values(requirement, path, allow_unknown_operator=allow_unknown_operator)
    errors += validate_label_name(requirement.get("key", ""), path / "key")
    if not allow_invalid_values:
        errors += [
            invalid(path / "values" / number, value, message)
            for number, value in enumerate(requirement.get("values") or ())
            for message in names.check_label_value(value)
        ]
    return errors


def validate_selector_values(
    requirement: JSONObject, path: FieldPath, *, allow_unknown_operator: bool = False
) -> list[FieldError]:
    """Validate that the operator of a requirement of labels or fields has the values that it needs."""
    operator, values = requirement.get("operator", ""), requirement.get("values")
    if operator in {IN, NOT_IN}:
        detail = "must be specified when `operator` is 'In' or 'NotIn'"
        return [] if values else [required(path / "values", detail)]
    if operator in {EXISTS, DOES_NOT_EXIST}:
        detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        return [forbidden(path / "values", detail)] if values else []
    if allow_unknown_operator:
        return []
    return [invalid(path / "operator", operator, "not a valid selector operator")]
