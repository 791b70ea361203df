"""What an API server makes of a custom resource: decoding, pruning, defaults, validation.

Sources: ``unstructuredSchemaCoercer`` of ``k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_handler.go``;
``strategy.go`` and ``validator.go`` of ``pkg/registry/customresource``.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pratique.apimachinery.errors import InputError
from pratique.apimachinery.field_errors import ROOT, FieldError, FieldErrorKind, FieldPath, invalid
from pratique.apimachinery.json_values import Document, JSONObject, list_at, mapping_at, member
from pratique.cluster.go_decoding import TypedDecodingError
from pratique.registry.custom_resources import pruning
from pratique.registry.custom_resources.correlation import Correlation
from pratique.registry.custom_resources.embedded_resources import (
    coerce,
    decode_metadata,
    validate_embedded,
)
from pratique.registry.custom_resources.list_types import uniqueness, validate_lists
from pratique.registry.custom_resources.rules import rule_validator
from pratique.registry.custom_resources.scales import (
    accessor_error,
    finalizer_warnings,
    validate_scale,
    validate_scale_status,
)
from pratique.registry.custom_resources.schema_validation import SchemaValidator
from pratique.registry.custom_resources.structural import META_FIELDS, any_node, structural
from pratique.registry.custom_resources.value_validation import NIL_PATH, told
from pratique.registry.strict_decoding import StrictDecodingError
from pratique.registry.validation.metadata import subdomain_name, validate_metadata, validate_metadata_update

_METADATA = ROOT / "metadata"
_BLOCKING = frozenset(
    {
        FieldErrorKind.NOT_SUPPORTED,
        FieldErrorKind.REQUIRED,
        FieldErrorKind.TOO_LONG,
        FieldErrorKind.TOO_MANY,
        FieldErrorKind.TYPE_INVALID,
    }
)
"""The kinds of errors after which no rules are evaluated: ``hasBlockingErr``."""
_RULES_NOT_CHECKED = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete"
    " validation"
)


class Findings(msgspec.Struct, frozen=True):
    """What validation found."""

    errors: Sequence[FieldError]
    warnings: Sequence[str] = ()
    """What kubectl prints after ``Warning:``."""


class CustomResourceRegistry:
    """One version of a custom resource, made once from its definition.

    Raises:
        InputError: the definition has no such version.
    """

    def __init__(self, definition: JSONObject, version: str) -> None:
        spec = mapping_at(definition, "spec")
        found = [written for written in list_at(spec, "versions") if member(written, "name") == version]
        if not found:
            raise InputError(f"{member(definition, 'metadata', 'name')} has no version {version}")
        self._group: str = spec.get("group") or ""
        self._kind: str = mapping_at(spec, "names").get("kind") or ""
        self._version = version
        self._is_namespaced = spec.get("scope") == "Namespaced"
        self._preserves_unknown = bool(spec.get("preserveUnknownFields"))
        self._scale = mapping_at(found[0], "subresources", "scale")
        schema = mapping_at(found[0], "schema", "openAPIV3Schema")
        self._schema = structural(schema)
        self._validator = SchemaValidator(schema)
        status = mapping_at(schema, "properties").get("status")
        self._status_validator = SchemaValidator(status) if isinstance(status, dict) else None
        self._is_complete = pruning.completeness(self._schema, is_root=True)
        self._has_embedded = any_node(self._schema, embedded=True)
        self._has_unique_lists = uniqueness(self._schema)
        # Rules that are only in an allOf are not evaluated: hasXValidations does not look there.
        has_rules = any_node(self._schema, rules=True)
        self._rules = rule_validator(self._schema, self._schema, is_root=True) if has_rules else None

    def decode(self, document: Document) -> JSONObject:
        """Decode strictly, and prune, an object as received.

        Raises:
            StrictDecodingError: a field is unknown, or metadata has the wrong type.
        """
        unknown: list[str] = []
        decoded = self._coerced(document.data, unknown)
        if unknown:
            texts = ", ".join(f'unknown field "{path}"' for path in unknown)
            raise StrictDecodingError(f"strict decoding error: {texts}")
        return decoded

    def decode_stored(self, document: Document) -> JSONObject:
        """Decode and prune an object as stored, whose unknown fields are dropped.

        Raises:
            StrictDecodingError: its metadata has the wrong type.
        """
        return self._coerced(document.data, [])

    def with_defaults(self, written: JSONObject) -> JSONObject:
        """The object, pruned and with defaults; the same one if nothing is to be done.

        Raises:
            TooManyDefaultsError: the defaults would make it too large.
        """
        if self._is_complete(written):
            return written
        pruned = written
        if not self._preserves_unknown:
            pruned = self._pruned(written, pruning.UnknownFields())
        filled: JSONObject = pruning.with_defaults(pruned, self._schema)
        return filled

    def judge(self, written: JSONObject, old: JSONObject | None) -> Findings:
        """Validate a new object, or an update if ``old`` is given."""
        wrong_type = self._validate_type(written)
        if wrong_type:
            return Findings(wrong_type)
        correlation = None if old is None else Correlation(written, old, self._schema)
        errors = self._validate_metadata(written, old)
        errors += self._validator.errors(written, correlation)
        if self._scale:
            errors += validate_scale(written, self._scale)
        if self._has_embedded:
            errors += validate_embedded(written, self._schema)
        errors += self._validate_lists(written, old)
        found, warnings = self._validate_rules(errors, written, old, correlation)
        errors += found
        return Findings(told(errors), (*warnings, *([] if errors else finalizer_warnings(written, old))))

    def judge_status(self, written: JSONObject, old: JSONObject) -> Findings:
        """Validate an update of the status: ``statusStrategy`` of custom resources."""
        wrong_type = self._validate_type(written)
        if wrong_type:
            return Findings(wrong_type)
        correlation = Correlation(written, old, self._schema)
        errors = self._validate_metadata(written, old)
        if self._status_validator is not None and "status" in written:
            found = self._status_validator.errors(written["status"], correlation.key("status"))
            errors += [_of_status(error) for error in found]
        if self._scale:
            errors += validate_scale_status(written, self._scale)
        errors += self._validate_lists(written, old)
        return Findings(told(errors + self._validate_rules(errors, written, old, correlation)[0]))

    def _validate_rules(
        self,
        errors: Sequence[FieldError],
        written: JSONObject,
        old: JSONObject | None,
        correlation: Correlation | None,
    ) -> tuple[list[FieldError], list[str]]:
        """The errors and warnings of rules, which are not evaluated after some kinds of errors."""
        if self._rules is None:
            return [], []
        if any(error.kind in _BLOCKING for error in errors):
            return [invalid(NIL_PATH, None, _RULES_NOT_CHECKED)], []
        results = self._rules.validate(written, old, correlation)
        return list(results.errors), list(results.warnings)

    def _validate_lists(self, written: JSONObject, old: JSONObject | None) -> list[FieldError]:
        """Find duplicates, unless the stored object had some already."""
        if self._has_unique_lists is None or self._has_unique_lists(written):
            return []
        if old is not None and next(validate_lists(old, self._schema), None) is not None:
            return []
        return list(validate_lists(written, self._schema))

    def _coerced(self, data: JSONObject, unknown: list[str]) -> JSONObject:
        for name in ("kind", "apiVersion"):
            if name in data and not isinstance(data[name], str):
                raise StrictDecodingError(accessor_error(f".{name}", data[name], "string"))
        metadata = data.get("metadata")
        try:
            decoded = decode_metadata(metadata, "metadata", unknown) if "metadata" in data else None
        except TypedDecodingError as error:
            raise StrictDecodingError(str(error)) from None
        coerced = data
        if not self._preserves_unknown and not self._is_complete(data):
            pruned = pruning.UnknownFields()
            coerced = self._pruned(data, pruned)
            unknown += sorted(pruned.paths)
        if self._has_embedded:
            found: list[str] = []
            own = {name: value for name, value in coerced.items() if name in META_FIELDS}
            coerced = {**own, **coerce(_without_meta(coerced), self._schema, found)}
            unknown += sorted(found)
        return coerced if decoded is None or decoded is metadata else {**coerced, "metadata": decoded}

    def _pruned(self, data: JSONObject, unknown: pruning.UnknownFields) -> JSONObject:
        pruned = pruning.prune(data, self._schema, unknown, is_root=True)
        kept: JSONObject = pruning.without_nulls(pruned, self._schema)
        return kept

    def _validate_type(self, written: JSONObject) -> list[FieldError]:
        errors = []
        version = f"{self._group}/{self._version}"
        if written.get("kind", "") != self._kind:
            errors.append(invalid(ROOT / "kind", written.get("kind", ""), f"must be {self._kind}"))
        if written.get("apiVersion", "") != version:
            errors.append(invalid(ROOT / "apiVersion", written.get("apiVersion", ""), f"must be {version}"))
        return errors

    def _validate_metadata(self, written: JSONObject, old: JSONObject | None) -> list[FieldError]:
        metadata = written.get("metadata") or {}
        if old is not None:
            former = old.get("metadata") or {}
            return validate_metadata_update(metadata, former, _METADATA, standard_finalizers=False)
        return validate_metadata(
            metadata, subdomain_name, _METADATA, namespaced=self._is_namespaced, standard_finalizers=False
        )


def _of_status(error: FieldError) -> FieldError:
    """An error of the status by the path in the whole object; its message goes on naming that in the status."""
    steps = () if error.path == NIL_PATH else error.path.steps
    return msgspec.structs.replace(error, path=FieldPath(("status", *steps)))


def _without_meta(data: JSONObject) -> JSONObject:
    """The fields that the schema is about: the type and the metadata of the object itself are decoded apart."""
    return {name: value for name, value in data.items() if name not in META_FIELDS}
