"""The spec of a definition: names, versions, subresources, columns, selectable fields and conversion.

Source: ``k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go``.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from pratique.apimachinery import names
from pratique.apimachinery.field_errors import (
    FieldError,
    FieldPath,
    duplicate,
    forbidden,
    invalid,
    json_text,
    not_supported,
    quoted_text,
    required,
    too_many,
)
from pratique.apimachinery.go_formats import decode_base64
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.apimachinery.prepared_types import prepared
from pratique.configuration.admissionregistration import ClientConfig, ServiceReference
from pratique.configuration.webhook_validation import validate_client_config
from pratique.registry.custom_resources.default_validation import validate_defaults
from pratique.registry.custom_resources.definition_schemas import SchemaOptions, validate_schema
from pratique.registry.custom_resources.field_references import FieldReferenceError, resolve_field
from pratique.registry.custom_resources.internal_definitions import (
    GO_NAMES,
    ZEROS,
    go_schema,
    go_versions,
    nodes_of,
    schemas_of,
)
from pratique.registry.custom_resources.structural import Structural, structural
from pratique.registry.custom_resources.structural_validation import conversion_problem, validate_structural
from pratique.registry.validation.x509 import authorities_problem

_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
MAX_SELECTABLE = 8
"""The most selectable fields of a version."""
_MAX_WARNING_BYTES = 256


def _joined(path: FieldPath, value: str, problems: list[str], start: str = "") -> Iterator[FieldError]:
    if problems:
        yield invalid(path, value, start + ",".join(problems))


def validate_spec(
    spec: JSONObject,
    path: FieldPath,
    options: SchemaOptions,
    *,
    requires_schemas: bool,
    requires_review: bool,
) -> Iterator[FieldError]:
    """Validate the spec of a definition, as :func:`internal_spec` gives it.

    Args:
        spec: The spec.
        path: Its path.
        options: What its schemas may keep.
        requires_schemas: Whether each version needs a schema.
        requires_review: Whether a webhook must know a version of ConversionReview that the API server knows.
    """
    yield from _validate_group(spec.get("group") or "", path / "group")
    scope = spec.get("scope") or ""
    yield from _validate_choice(scope, path / "scope", ("Cluster", "Namespaced"))
    preserves = bool(spec.get("preserveUnknownFields"))
    if not spec.get("validation"):
        detail = "" if requires_schemas else "because otherwise all fields are pruned"
        for index, version in enumerate(spec["versions"]):
            has_schema = isinstance((version.get("schema") or {}).get("openAPIV3Schema"), dict)
            if not has_schema and (requires_schemas or (version.get("served") and not preserves)):
                yield required((path / "versions") / index / "schema" / "openAPIV3Schema", detail)
    if preserves and any(
        node.get("default") is not None for schema in schemas_of(spec) for node in nodes_of(schema)
    ):
        detail = "must be false in order to use defaults in the schema"
        yield invalid(path / "preserveUnknownFields", True, detail)
    yield from _validate_versions(spec, path, options)
    yield from _validate_names(spec, path)
    status = any(_has_status(holder) for holder in (spec, *spec["versions"]))
    first = options.of_version(spec.get("version") or "")
    yield from _validate_parts(
        spec, path, path / "validation", spec.get("validation"), first, has_status=status
    )
    yield from _validate_conversion(
        spec["conversion"],
        path / "conversion",
        preserves=preserves,
        requires_review=requires_review,
        checks_authorities=options.checks_authorities,
    )


def _validate_group(group: str, path: FieldPath) -> Iterator[FieldError]:
    if not group:
        yield required(path)
    elif problems := names.check_dns1123_subdomain(group):
        yield from _joined(path, group, problems)
    elif "." not in group:
        yield invalid(path, group, "should be a domain with at least one dot")


def _validate_choice(value: str, path: FieldPath, supported: tuple[str, ...]) -> Iterator[FieldError]:
    if not value:
        yield required(path)
    elif value not in supported:
        yield not_supported(path, quoted_text(value), supported)


def _has_status(holder: JSONObject) -> bool:
    return (holder.get("subresources") or {}).get("status") is not None


def _validate_versions(spec: JSONObject, path: FieldPath, options: SchemaOptions) -> Iterator[FieldError]:
    versions, at = spec["versions"], path / "versions"
    own_subresources = any(version.get("subresources") is not None for version in versions)
    first_of = {version.get("name") or "": version for version in reversed(versions)}
    for index, version in enumerate(versions):
        name = version.get("name") or ""
        yield from _joined(at / index / "name", name, names.check_dns1035_label(name))
        yield from _validate_deprecation(version, at / index / "deprecationWarning")
        has_status = _has_status(first_of[name] if own_subresources else spec)
        own, place = options.of_version(name), at / index
        yield from _validate_parts(
            version, place, place / "schema", version.get("schema"), own, has_status=has_status
        )
    found = [version.get("name") or "" for version in versions]
    if len(set(found)) != len(found):
        yield invalid(at, go_versions(spec), "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        yield invalid(at, go_versions(spec), "must have exactly one version marked as storage version")
    if versions:
        first = spec["version"]
        yield from _joined(path / "version", first, names.check_dns1035_label(first) if first else [])


def _validate_deprecation(version: JSONObject, path: FieldPath) -> Iterator[FieldError]:
    warning = version.get("deprecationWarning")
    if warning is None:
        return
    if not version.get("deprecated"):
        yield invalid(path, json_text(warning), "can only be set for deprecated versions")
        return
    if len(warning.encode()) > _MAX_WARNING_BYTES:
        yield invalid(path, json_text(warning), "must be <= 256 characters long")
    if not warning:
        yield invalid(path, json_text(warning), "must not be an empty string")
    bad = next((place for place, character in enumerate(warning) if not character.isprintable()), None)
    if bad is not None:
        index = len(warning[:bad].encode())
        detail = (
            f"must only contain printable UTF-8 characters; non-printable character found at index {index}"
        )
        yield invalid(path, json_text(warning), detail)


def _validate_parts(
    holder: JSONObject,
    path: FieldPath,
    schema_path: FieldPath,
    validation: JSON,
    options: SchemaOptions,
    *,
    has_status: bool,
) -> Iterator[FieldError]:
    """Validate what a version has, or all of them alike: schema, subresources, columns and selectable fields."""
    schema = (validation or {}).get("openAPIV3Schema")
    if isinstance(schema, dict):
        yield from _validate_validation(schema, schema_path, options, has_status=has_status)
    yield from _validate_subresources(holder.get("subresources") or {}, path / "subresources")
    for index, column in enumerate(holder.get("additionalPrinterColumns") or ()):
        yield from _validate_column(column, (path / "additionalPrinterColumns") / index)
    selectable, at = holder.get("selectableFields") or [], path / "selectableFields"
    is_version = "versions" not in holder
    # an API server panics over a field of a schema that is empty, where all versions have it alike
    is_there = isinstance(schema, dict) or not (is_version or validation is None)
    if selectable and is_there:
        may_be_many = (holder.get("name") or "") in options.many_selectable
        if problem := conversion_problem(schema or {}):
            yield invalid(path / "schema.openAPIV3Schema", "", problem)
        read = structural(schema or {})
        yield from _validate_selectable(selectable, read, at, may_be_many=may_be_many)
    elif selectable:
        included = "`version.schema.openAPIV3Schema` is not" if is_version else "validations.schema is"
        yield invalid(at, "", f"may only be set when {included} included")


def _validate_validation(
    schema: JSONObject, path: FieldPath, options: SchemaOptions, *, has_status: bool
) -> Iterator[FieldError]:
    """Validate a schema: ``validateCustomResourceDefinitionValidation``."""
    at = path / "openAPIV3Schema"
    errors = list(_validate_root(schema, path)) if has_status else []
    if schema.get("nullable"):
        errors.append(forbidden(path / "openAPIV3Schema.nullable", "nullable cannot be true at the root"))
    problem, is_sound = "", False
    if options.requires_structural:
        problem = conversion_problem(schema)
        found = [] if problem else validate_structural(schema, at)
        if not problem and not found:
            must_be_pruned = options.requires_pruned_defaults
            found = list(validate_defaults(structural(schema), at, must_be_pruned=must_be_pruned))
        is_sound = not problem and not found
        errors += found
    errors += validate_schema(schema, at, options, compiles_rules=is_sound)
    if problem and not errors:
        errors.append(invalid(at, "", problem))
    yield from errors


_AT_ROOT = (
    "Description", "Type", "Format", "Title", "Maximum", "ExclusiveMaximum", "Minimum", "ExclusiveMinimum", "MaxLength",
    "MinLength", "Pattern", "MaxItems", "MinItems", "UniqueItems", "MultipleOf", "Required", "Items", "Properties",
    "ExternalDocs", "Example", "XPreserveUnknownFields", "XValidations",
)  # fmt: skip
"""What the root of a schema may have beside a subresource ``status``: ``allowedFieldsAtRootSchema``."""


def _validate_root(schema: JSONObject, path: FieldPath) -> Iterator[FieldError]:
    """Validate that the schema of ``status`` can be taken out of the schema."""
    only = "if the status subresource is enabled"
    for name, go_name in GO_NAMES.items():
        if schema.get(name) is None or schema[name] == ZEROS[name]:
            continue
        if go_name == "Type":
            if schema["type"] != "object":
                detail = f'only "object" is allowed as the type at the root of the schema {only}'
                yield invalid(path / "openAPIV3Schema.type", schema["type"], detail)
                return
        elif go_name not in _AT_ROOT:
            detail = f"only [{' '.join(_AT_ROOT)}] fields are allowed at the root of the schema {only}"
            yield invalid(path / "openAPIV3Schema", go_schema(schema), detail)
            return


def _validate_names(spec: JSONObject, path: FieldPath) -> Iterator[FieldError]:
    found, at = spec.get("names") or {}, path / "names"
    for name in ("plural", "singular", "kind", "listKind"):
        if not found.get(name):
            yield required(at / name)
    yield from validate_names(found, at)


def validate_names(found: JSONObject, path: FieldPath) -> Iterator[FieldError]:
    """Validate the names of a resource: ``ValidateCustomResourceDefinitionNames``."""
    for name in ("plural", "singular", "kind", "listKind"):
        text = found.get(name) or ""
        is_kind = name in ("kind", "listKind")
        problems = names.check_dns1035_label(text.lower() if is_kind else text) if text else []
        start = "may have mixed case, but should otherwise match: " if is_kind else ""
        yield from _joined(path / name, text, problems, start)
    for index, text in enumerate(found.get("shortNames") or ()):
        yield from _joined((path / "shortNames") / index, text, names.check_dns1035_label(text))
    if found.get("kind") and found["kind"] == found.get("listKind"):
        yield invalid(path / "listKind", found["listKind"], "kind and listKind may not be the same")
    for index, text in enumerate(found.get("categories") or ()):
        yield from _joined((path / "categories") / index, text, names.check_dns1035_label(text))


def _validate_json_path(text: str, path: FieldPath) -> Iterator[FieldError]:
    if not text.startswith("."):
        yield invalid(
            path, text, "must be a simple json path starting with ." if text else "must not be empty"
        )


def _validate_subresources(subresources: JSONObject, path: FieldPath) -> Iterator[FieldError]:
    scale = subresources.get("scale")
    if scale is None:
        return
    for name, root in (("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")):
        text, at = scale.get(name) or "", path / f"scale.{name}"
        errors = [*_validate_json_path(text, at)] if text else [required(at)]
        yield from errors
        if not errors and not text.startswith(f"{root}."):
            yield invalid(at, text, f"should be a json path under {root}")
    selector, at = scale.get("labelSelectorPath") or "", path / "scale.labelSelectorPath"
    errors = [*_validate_json_path(selector, at)] if selector else []
    yield from errors
    if selector and not errors and not selector.startswith((".spec.", ".status.")):
        yield invalid(at, selector, "should be a json path under either .spec or .status")


def _validate_column(column: JSONObject, path: FieldPath) -> Iterator[FieldError]:
    if not column.get("name"):
        yield required(path / "name")
    type_, format_, json_path = (
        column.get("type") or "",
        column.get("format") or "",
        column.get("jsonPath") or "",
    )
    if type_ not in _COLUMN_TYPES:
        detail = f"must be one of {','.join(_COLUMN_TYPES)}"
        yield invalid(path / "type", type_, detail) if type_ else required(path / "type", detail)
    if format_ and format_ not in _COLUMN_FORMATS:
        yield invalid(path / "format", format_, f"must be one of {','.join(_COLUMN_FORMATS)}")
    if not json_path:
        yield required(path / "JSONPath")
    else:
        yield from _validate_json_path(json_path, path / "JSONPath")


def _validate_selectable(
    fields: list[JSONObject], schema: Structural, path: FieldPath, *, may_be_many: bool
) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, field in enumerate(fields):
        text, at = field.get("jsonPath") or "", path / index / "jsonPath"
        if not text:
            yield required(at)
            continue
        try:
            resolved, found = resolve_field(text, schema, allow_keys=False)
        except FieldReferenceError as error:
            yield invalid(at, text, f"is an invalid path: {error}")
            continue
        if resolved.split(".")[0] == "metadata":
            yield invalid(at, text, "must not point to fields in metadata")
        if found.type not in ("string", "boolean", "integer"):
            detail = "must point to a field of type string, boolean or integer."
            yield invalid(at, text, f"{detail} Enum string fields and strings with formats are allowed.")
        if resolved in seen:
            yield duplicate(at, text)
        seen.add(resolved)
    if len(seen) > MAX_SELECTABLE and not may_be_many:
        yield too_many(path, len(seen), MAX_SELECTABLE)


def _validate_conversion(
    conversion: JSONObject,
    path: FieldPath,
    *,
    preserves: bool,
    requires_review: bool,
    checks_authorities: bool,
) -> Iterator[FieldError]:
    strategy, client = conversion["strategy"], conversion["webhookClientConfig"]
    if strategy != "None" and preserves:
        yield invalid(path / "strategy", strategy, "must be None if spec.preserveUnknownFields is true")
    yield from _validate_choice(strategy, path / "strategy", ("None", "Webhook"))
    versions, at = conversion["conversionReviewVersions"], path / "webhookClientConfig"
    if strategy == "Webhook":
        if client is None:
            yield required(at, "required when strategy is set to Webhook")
        else:
            yield from validate_client_config(_client_config(client), at)
            bundle = client.get("caBundle") or "" if checks_authorities else ""
            if problem := authorities_problem(decode_base64(bundle)):
                yield invalid(at / "caBundle", bundle, problem)
        yield from _validate_review_versions(
            versions, path / "conversionReviewVersions", requires=requires_review
        )
        return
    detail = "should not be set when strategy is not set to Webhook"
    if client is not None:
        yield forbidden(at, detail)
    if versions:
        yield forbidden(path / "conversionReviewVersions", detail)


def _client_config(written: JSONObject) -> ClientConfig:
    service = written.get("service")
    return ClientConfig(
        url=written.get("url"),
        service=None
        if service is None
        else msgspec.convert(service, prepared(ServiceReference), strict=False),
    )


def _validate_review_versions(
    versions: list[str], path: FieldPath, *, requires: bool
) -> Iterator[FieldError]:
    if not versions:
        yield required(path)
        return
    known: set[str] = set()
    for index, version in enumerate(versions):
        if version in known:
            yield invalid(path / index, version, "duplicate version")
            continue
        known.add(version)
        for problem in names.check_dns1035_label(version):
            yield invalid(path / index, version, problem)
    if requires and not {"v1", "v1beta1"} & {*versions}:
        yield invalid(path, versions, "must include at least one of v1, v1beta1")
